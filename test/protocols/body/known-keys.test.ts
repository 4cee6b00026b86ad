import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import type { ChatBound } from '../../../engine/base/contract/config.ts';
import { readBodyFacts } from '../../../engine/domain/protocols/body/body-facts.ts';
import { spellBound } from '../../../engine/domain/protocols/body/fields.ts';
import { PRIVILEGED_FIELDS } from '../../../engine/domain/protocols/body/privileged-fields.ts';
import { type PrivilegedValue, readPrivileged } from '../../../engine/domain/protocols/body/read-privileged.ts';
import { BufferedBody } from '../../../engine/pipeline/run/body.ts';
import { times } from '../../support/times.ts';

/** Keys that one parser reads as privileged, and another does not. */

const FIRST = '"model":"cheap-1","max_tokens":1';

function reading(members: string, protocol = 'messages'): Promise<unknown> {
  return readBodyFacts(protocol, new BufferedBody(Buffer.from(`{${FIRST}${members && `,${members}`}}`), () => {}));
}

const refused = (members: string, name: string) =>
  assert.rejects(reading(members), (error: { code: string; message: string; details: { param?: string } }) => {
    assert.deepEqual([error.code, error.details.param], ['invalid_request', name], members);
    assert.match(error.message, /^[ -~]*$/, 'the key is shown in plain characters');
    return true;
  });

describe('a key that folds to one that decides', () => {
  const SPELLINGS: Record<string, readonly string[]> = {
    model: [
      ...['Model', 'MODEL', ' model', 'model ', 'mo\\u0064el', 'M\\u006fdel'],
      ...['model\\u0000', 'model\\u0000x', 'mo-del'],
      ...['\uff4d\uff4f\uff44\uff45\uff4c', '\u24dc\u24de\u24d3\u24d4\u24db', 'mod\u00e9l'],
    ],
    max_tokens: [
      ...['max_toKens', 'max_to\u212aens', 'max_to\\u212aens', 'max_token\u017f'],
      ...['maxTokens', 'max-tokens', 'MAX_TOKENS'],
    ],
    service_tier: ['Service_Tier', 'serv\u0131ce_tier', 'SERV\u0130CE_TIER', 'SERVICE-TIER'],
    speed: ['\u017fpeed', 'Speed'],
    stream: ['Stream', '\u{1d42c}tream'],
  };
  for (const [name, spellings] of Object.entries(SPELLINGS)) {
    it(`is rejected in place of ${name}`, async () => {
      for (const spelling of spellings) await refused(`"${spelling}":"expensive-1"`, name);
    });
  }

  it('is rejected wherever it is privileged, at any depth', async () => {
    await refused('"tools":[{"type":"advisor_20260301","model":"cheap-1","Model":"expensive-1"}]', 'model');
    await refused('"tools":[{"type":"x","max_uses":1,"Max_Uses":9}]', 'max_uses');
    await refused('"input":[{"type":"additional_tools","tools":[{"type":"x","model":"a","Model":"b"}]}]', 'model');
    await refused('"messages":[{"content":[{"type":"tool_addition","model":"a","model":"b"}]}]', 'model');
    await refused('"thinking":{"type":"enabled","budget_tokens":1,"budgetTokens":9}', 'budget_tokens');
    await refused('"messages":[{"role":"user","content":[{"type":"text","Type":"document","text":""}]}]', 'type');
    await refused('"stream_options":{"include_usage":true,"Include_Usage":false}', 'include_usage');
  });

  it('passes in user data, and so does every key that folds to nothing', async () => {
    await reading('"tools":[{"name":"t","input_schema":{"properties":{"Model":{},"model":{},"TYPE":{}}}}]');
    await reading('"tools":[{"function":{"parameters":{"type":"object","properties":{"Model":{},"model":{}}}}}]');
    await reading('"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"Type":1,"type":2}}]}]');
    await reading('"serviceTier":"auto"');
    await reading('"n":1,"N":2');
    await assert.rejects(reading('"n":1,"N":2', 'chat'), { code: 'invalid_request' });
    await reading('"messages":[{"role":"user","model":"a","model":"b","Model":"c"}]');
    await reading('"metadata":{"Model":"x","model":"y","MODEL":"z"},"messages":[]');
    await reading(
      '"x":1,"X":2,"x":3,"models_of_mine":1,"supermodel":2,"\u043codel":3,"mоdel":4,"":5,"__proto__":{"a":1}',
    );
    await reading('"messages":[{"role":"user","content":"{\\"Model\\":1,\\"model\\":2}"}]');
  });
});

describe('a key that decides and is there twice in an object', () => {
  it('is rejected at the top and below', async () => {
    await refused('"model":"expensive-1"', 'model');
    await refused('"mod\\u0065l":"expensive-1"', 'model');
    await refused('"tools":[{"type":"x","model":"a","model":"b"}]', 'model');
    await refused('"service_tier":"a","serviceTier":"b"', 'service_tier');
    await refused('"messages":[],"messages":[]', 'messages');
    await refused('"messages":[{"content":[{"type":"text","type":"document"}]}]', 'type');
  });

  it('passes once in each of several objects, also spelt with escapes', async () => {
    await reading(
      '"tools":[{"type":"a","mod\\u0065l":"a"},{"type":"b","model":"b"}],"x":{"y":{"model":"a"},"model":"b"}',
    );
  });
});

describe('a body beyond the bounds', () => {
  const scanKeys = (members: string) =>
    assert.rejects(reading(members), { code: 'invalid_request', message: /the maximum of this gateway/ });

  it('is rejected for its depth and for its number of values, with the bound', async () => {
    await scanKeys(`"x":${'['.repeat(128)}${']'.repeat(128)}`);
    await scanKeys(`"x":[${'0,'.repeat(500_000)}0]`);
    await reading(`"x":${'['.repeat(127)}${']'.repeat(127)}`);
    await reading(`"x":[${'0,'.repeat(499_980)}0]`);
  });
});

/** A value below many keys of 60,000 characters. */
function nested(value: unknown): Record<string, unknown> {
  let outer: unknown = value;
  for (let i = 0; i < 100; i++) outer = { ['k'.repeat(60_000)]: outer };
  return { x: outer };
}

test('many values below long keys are looked through, and nothing is found where no model is', () => {
  const found: readonly PrivilegedValue[] = readPrivileged(nested(Array.from({ length: 500 }, () => ({ model: 1 }))));
  assert.deepEqual(found, []);
});

test('rejects a model below keys that are too long to name', () => {
  assert.throws(() => readPrivileged(nested({ model: 'expensive-1' })), { code: 'invalid_request' });
});

type Found = readonly (readonly [param: string, rule: string, value: string | undefined])[];

const read = (body: object): Found =>
  readPrivileged(body as Readonly<Record<string, unknown>>).map(({ param, rule, value }) => [param, rule.rule, value]);

const parsed = (text: string) => JSON.parse(text) as object;

/** Keys that lead nowhere in particular, as routers and providers of tomorrow could have them. */
const container = fc.constantFrom('tools', 'edits', 'x', 'options', 'extra', 'compaction', 'a_b', 'nested', 'rerank');

/** Every way to write the key of a model that some parser would accept, or that some router could mean. */
const modelKey = fc.constantFrom(
  ...['model', 'models', 'Model', 'MODEL', 'mOdel', '\uff4dodel', 'mode\u200bl', ' model', 'model\u0000'],
  ...['fallback_model', 'fallbackModels', 'judge-model-id', 'modelName', 'model_slug', 'fallbacks', 'FallBacks'],
);

describe('readPrivileged', () => {
  it('finds a model under every key that means one, at any depth outside of content', () => {
    const value = fc.oneof(
      fc.constant<unknown>('expensive-1'),
      fc.constant<unknown>(['a', 'expensive-1']),
      fc.constant<unknown>([{ model: 'expensive-1', speed: 'standard' }]),
      fc.constant<unknown>({ id: 'expensive-1' }),
    );
    const paths = fc.array(fc.tuple(container, fc.boolean()), { maxLength: 6 });
    fc.assert(
      fc.property(paths, modelKey, value, (path, key, named) => {
        if (path.length === 0 && key === 'model') return;
        let inner: unknown = { [key]: named };
        for (const [name, in_list] of path) inner = { [name]: in_list ? [inner] : inner };
        const found = read({ model: 'cheap-1', ...(inner as object) });
        const is_found = found.some(([, rule, value]) => rule === 'check' && value === 'expensive-1');
        assert.ok(is_found, JSON.stringify({ inner, found }));
      }),
    );
  });

  it('finds every field of the table, in snake case and in camel case', () => {
    for (const { name, rule } of PRIVILEGED_FIELDS.filter((field) => field.rule !== 'pass' && field.name !== 'model')) {
      const camel = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
      for (const key of [name, camel]) assert.deepEqual(read({ [key]: 'x' })[0]?.slice(0, 2), [key, rule], key);
    }
  });

  it('finds nothing in what models read and write, with any content', () => {
    const content = fc.json({ maxDepth: 4 }).map(parsed);
    const planted = fc
      .tuple(content, modelKey)
      .map(([rest, key]) => ({ rest, [key]: 'expensive-1', workspace_id: 'w' }));
    fc.assert(
      fc.property(planted, (anything) => {
        const schema = { type: 'object', properties: anything };
        const body = {
          model: 'cheap-1',
          system: [{ type: 'text', text: 'x', ...anything }],
          metadata: anything,
          messages: [
            { role: 'user', content: [{ type: 'text', text: 'x', ...anything }] },
            { role: 'assistant', content: [{ type: 'tool_use', input: anything }], tool_calls: [anything] },
            { role: 'user', content: [{ type: 'tool_result', content: [anything] }] },
          ],
          input: [{ type: 'function_call_output', output: anything }, anything],
          tools: [
            { name: 'a', input_schema: schema, input_examples: [anything] },
            { type: 'function', function: { name: 'b', parameters: anything } },
            { type: 'function', name: 'c', parameters: anything },
            { type: 'web_search', filters: schema },
          ],
          response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
          text: { format: { type: 'json_schema', schema } },
        };
        assert.deepEqual(read(body), []);
      }),
      { numRuns: times(50) },
    );
  });

  it('accepts values that never cost more, and empty ones, at no cost', () => {
    const usual = { service_tier: 'auto', speed: 'standard', inference_geo: 'global', modalities: ['text'] };
    assert.deepEqual(read(usual), []);
    assert.deepEqual(read({ models: [], fallbacks: null, provider: {}, workspace_id: '', route: false }), []);
    assert.deepEqual(read({ voice: { speed: 1.2 }, service_tier: null }), []);
  });

  it('reports a model in a form that cannot be checked', () => {
    for (const fallbacks of ['default', [{ 'cheap-1': ['expensive-1'] }], [['expensive-1']], { a: 1 }]) {
      assert.deepEqual(read({ fallbacks })[0]?.slice(1), ['check', undefined], JSON.stringify(fallbacks));
    }
    for (const type of ['openrouter:advisor', 'x:whatever', 'advisor_20990101', 'sub_agent']) {
      assert.deepEqual(read({ tools: [{ type }] }), [['tools[0]', 'check', undefined]], type);
      assert.deepEqual(read({ tools: [{ type, model: 'm' }] }), [['tools[0].model', 'check', 'm']], type);
    }
    assert.deepEqual(read({ tools: [{ type: 'openrouter:web_search' }, { type: 'function', name: 'advisor' }] }), []);
  });

  it('is fast for bodies made to be slow', () => {
    const many = (count: number, item: (i: number) => object) => ({
      x: Array.from({ length: count }, (_, i) => item(i)),
    });
    assert.throws(() => read(many(5000, () => ({ speed: 'fast' }))), /more than 100 privileged fields/);
    assert.throws(() => read(many(30_000, (i) => ({ [`m${i}`]: 1 }))), /20000 different keys/);
    const deep = (levels: number) => {
      let value: object = { model: 'expensive-1' };
      for (let i = 0; i < levels; i++) value = { a: value };
      return value;
    };
    assert.equal(read({ deep: deep(400) })[0]?.[2], 'expensive-1');
    assert.throws(() => read({ deep: deep(5000) }), /below keys that are too long/);
  });
});

function spelt(text: string, field: ChatBound): { readonly text: string; readonly rewrites: readonly string[] } {
  const rewrites: string[] = [];
  const body = new BufferedBody(Buffer.from(text), (key) => rewrites.push(key));
  spellBound(body, field);
  return { text: body.bytes.toString(), rewrites };
}

describe('the bound of a chat completions request', () => {
  test("gets the upstream's name, and nothing else changes", () => {
    const asked = '{ "model":"m",\n "max_completion_tokens" : 5.0e1 , "messages":[{"max_completion_tokens":1}] }';
    assert.deepEqual(spelt(asked, 'max_tokens'), {
      text: asked.replace('"max_completion_tokens" :', '"max_tokens" :'),
      rewrites: ['max_completion_tokens'],
    });
    assert.equal(spelt('{"max_tokens":1}', 'max_completion_tokens').text, '{"max_completion_tokens":1}');
    assert.equal(spelt('{"max_\\u0074okens":1}', 'max_completion_tokens').text, '{"max_completion_tokens":1}');
  });

  test('replaces a null', () => {
    const { text, rewrites } = spelt('{"max_tokens":null,"max_completion_tokens":9}', 'max_tokens');
    assert.deepEqual([text, rewrites], ['{"max_tokens":9,"max_completion_tokens":9}', ['max_tokens']]);
  });

  for (const asked of [
    '{"max_tokens":1}',
    '{"max_tokens":1,"max_completion_tokens":2}',
    '{"max_completion_tokens":null}',
    '{"messages":[]}',
  ]) {
    test(`stays unchanged in ${asked}`, () => {
      assert.deepEqual(spelt(asked, 'max_tokens'), { text: asked, rewrites: [] });
    });
  }
});
