/**
 * What costs work in proportion to its size, so that no large input stops the gateway. Steps are counted
 * without the optimizer of the process: these tests have one of their own.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PROTOCOLS } from '../engine/base/contract/protocol.ts';
import { JsonScan } from '../engine/base/kit/json/scan.ts';
import { renderDiagnostics } from '../engine/base/source/diagnostics/render.ts';
import { createFindings } from '../engine/base/source/findings.ts';
import { parseSource } from '../engine/base/source/source.ts';
import type { ModelEvent } from '../engine/domain/protocols/translation/conversation.ts';
import { StopCutter } from '../engine/domain/protocols/translation/stop-sequences.ts';
import { removeMadeReasoning } from '../engine/domain/protocols/translation/translate.ts';
import { openStage, stageConfig } from '../engine/edge/simulate/stage-harness.ts';
import { load } from '../engine/pipeline/load/index.ts';
import { BufferedBody } from '../engine/pipeline/run/body.ts';
import listModels from '../stages/list-models.ts';
import { createProject, GATEWAY, SHIPPED } from './load/support/project.ts';
import { stages } from './load/support/stages.ts';
import { MANY, PAIRS, translate } from './protocols/translation/translating.ts';
import { assertProportional } from './support/work.ts';

const arrayOf = <T>(length: number, make: (index: number) => T) => Array.from({ length }, (_, index) => make(index));

describe('the scan of a JSON text costs work in proportion to its size', () => {
  const SHAPES: Readonly<Record<string, (repeated: (unit: string) => string) => string>> = {
    'a string': (repeated) => `["${repeated('a')}"]`,
    'escaped quotes': (repeated) => `["${repeated('\\"')}"]`,
    'escaped quotes far apart': (repeated) => `["${repeated(`${'a'.repeat(100)}\\"`)}"]`,
    backslashes: (repeated) => `["${repeated('\\\\')}"]`,
    'backslashes and quotes': (repeated) => `["${repeated(`${'\\\\'.repeat(100)}\\"`)}"]`,
    'a string that does not end': (repeated) => `["${repeated('\\"')}`,
    blanks: (repeated) => `[${repeated(' ')}]`,
    digits: (repeated) => `[${repeated('7')}]`,
    'a long key': (repeated) => `{"${repeated('a\\"')}":1}`,
    'keys with escapes': (repeated) => `{${repeated('"\\u0061bc":1,')}"a":1}`,
    'empty strings': (repeated) => `[${repeated('"",')}1]`,
    brackets: (repeated) => repeated('['),
    objects: (repeated) => `[${repeated('{},')}1]`,
  };
  for (const [name, make] of Object.entries(SHAPES)) {
    it(`for ${name}`, () =>
      assertProportional(2000, (size) => {
        const text = make((unit) => unit.repeat(size / unit.length));
        new JsonScan(Buffer.from(text), { depth: Infinity, values: Infinity }).step(Infinity);
      }));
  }
});

describe('a gateway.yaml', () => {
  async function loaded(gateway: string, env: Readonly<Record<string, string>>) {
    const project = createProject({ 'gateway.yaml': gateway });
    try {
      return await load(project.path('gateway.yaml'), {
        stages,
        env,
        environment: 'required',
        shipped_pipelines: SHIPPED,
      });
    } finally {
      project.remove();
    }
  }

  it('is parsed with work in proportion to the number of its keys', () =>
    assertProportional(300, (size) => {
      const findings = createFindings();
      parseSource('file.yaml', arrayOf(size, (i) => `key_${i}: ${i}\n`).join(''), findings);
      assert.equal(findings.errors(), 0);
    }));

  it('is loaded with work in proportion to the number of its rules', () =>
    assertProportional(60, async (size) => {
      const rules = arrayOf(
        size,
        (i) => `    - name: rule-${i}
      group: group-${i}
      upstream: main
      when: { ">": [{ var: request.max_tokens }, ${i}] }
`,
      );
      const yaml = `${GATEWAY}  rules:\n${rules.join('')}`;
      const { diagnostics, config } = await loaded(yaml, { UPSTREAM_KEY: 'value-of-the-key' });
      assert.deepEqual(diagnostics, []);
      assert.equal(config?.routing.rules.length, size);
    }));

  it('hides a secret with work in proportion to the lines of the secret', () =>
    assertProportional(100, async (size) => {
      const lines = arrayOf(size, (i) => `      a${i}`).join('\n');
      const damaged = GATEWAY.replace('    api_key_env: UPSTREAM_KEY', `    !api_key_env: |\n${lines}\n      hunter2`);
      const { diagnostics, sources } = await loaded(damaged, {});
      for (const format of ['text', 'json', 'github'] as const) {
        const said = renderDiagnostics(diagnostics, { format, color: false, sources });
        assert.match(said, /C1007/);
        assert.ok(!said.includes('hunter2'), said);
      }
    }));
});

it('models are listed with work in proportion to their number', () => {
  const [template] = stageConfig().models;
  return assertProportional(100, (size) => {
    const models = arrayOf(size, (i) => ({ ...template!, id: `model-${i}`, upstream_ids: {} }));
    const stage = openStage(listModels, { config: stageConfig({ models }) });
    const facts = {
      'principal.email': 'alice@example.com',
      'principal.groups': ['all'],
      'principal.token.group': 'all',
    };
    void stage.hooks.request!(stage.request({ url: '/v1/models?limit=1000', facts }));
  });
});

describe('a text is cut at stop sequences with work in proportion', () => {
  const start = (index: number): ModelEvent => ({ type: 'part_start', index, part: { kind: 'text' } });
  const delta = (text: string, index = 0): ModelEvent => ({ type: 'part_delta', index, text });
  const stop = (index: number): ModelEvent => ({ type: 'part_end', index });

  /** What is said of events that end with these. */
  function said(stops: readonly string[], events: readonly ModelEvent[]): string {
    const cutter = new StopCutter(stops, false);
    let text = '';
    for (const event of [...events, { type: 'end', reason: 'finished', usage: { output: 9 } } as const]) {
      cutter.take(event, (one) => {
        if (one.type === 'part_delta') text += one.text;
      });
    }
    return text;
  }

  it('to its length, in any pieces', () =>
    assertProportional(1000, (size) => {
      const pieces = arrayOf(size, () => delta('a'));
      assert.equal(said([`${'a'.repeat(size)}b`], [start(0), ...pieces, stop(0)]).length, size);
    }));

  it('to its length, whatever the sequences', () =>
    assertProportional(1000, (size) => {
      const text = 'a'.repeat(2 * size);
      const stops = arrayOf(16, (i) => `${'a'.repeat(size + i)}b`);
      assert.equal(said(stops, [start(0), delta(text), stop(0)]), text);
    }));

  it('to the number of texts that follow one another', () =>
    assertProportional(1000, (size) => {
      const texts = arrayOf(size, (i) => [start(i), ...(i % 10 === 0 ? [delta('a', i)] : []), stop(i)]);
      assert.equal(said([`${'a'.repeat(size)}b`], texts.flat()), 'a'.repeat(size / 10));
    }));
});

describe('removing reasoning of a translation costs work in proportion to the size of the body', () => {
  const MADE = '{"type":"thinking","thinking":"Hm.","signature":"gw:chat@spare:none::"}';
  const response = (blocks: readonly string[]) =>
    `{"role":"assistant","content":[${blocks},{"type":"text","text":"b"}]}`;
  const MARKS: Readonly<Record<string, (count: number) => readonly string[]>> = {
    'in one message': (count) => [response(Array(count).fill(MADE))],
    'in as many messages': (count) => Array(count).fill(response([MADE])),
  };
  for (const [where, messages] of Object.entries(MARKS)) {
    it(`however many marks are ${where}`, () =>
      assertProportional(500, async (size) => {
        const body = new BufferedBody(Buffer.from(`{"messages":[${messages(size)}]}`), () => {});
        await removeMadeReasoning(body, 'messages');
        assert.ok(!body.bytes.includes('gw:'));
      }));
  }
});

for (const from of PROTOCOLS) {
  describe(`a ${from} request is translated with work in proportion to how many it has of`, () => {
    for (const [what, request] of Object.entries(MANY[from])) {
      it(what, () =>
        assertProportional(200, (size) => {
          for (const { to } of PAIRS.filter((pair) => pair.from === from)) translate(from, to, true, request(size));
        }),
      );
    }
  });
}
