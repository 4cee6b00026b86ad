import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { explain } from '../../../engine/cli/explain/explain.ts';
import { ERRORS } from '../../../engine/contract/errors.ts';
import { FACTS } from '../../../engine/contract/facts.ts';
import { StartError } from '../../../engine/contract/start-error.ts';
import { OPERATORS } from '../../../engine/rules/operators.ts';
import { DIAGNOSTICS } from '../../../engine/source/diagnostics/codes.ts';
import { stages } from '../../../stages/index.ts';
import { createProject, GATEWAY } from '../../load/support/project.ts';
import { cli } from '../support.ts';
import { collectingContext } from './reference-context.ts';

const ELSEWHERE = { config: 'no-such-gateway.yaml', config_named: false };

async function explained(words: readonly string[], more: { json?: true } = {}): Promise<string> {
  const { context, data } = collectingContext();
  assert.equal(await explain(context, { ...ELSEWHERE, words, ...more }), 0);
  return data();
}

function refused(words: readonly string[], message: RegExp) {
  return assert.rejects(explained(words), (error: StartError) => {
    assert.ok(error instanceof StartError);
    assert.equal(error.exit_code, 64);
    assert.match(error.message, message);
    return true;
  });
}

test('a diagnostic code is explained with its title, its reason, an example and what check prints', async () => {
  const text = await explained(['C2004']);
  const { title, explanation, example } = DIAGNOSTICS.C2004;
  assert.ok(text.startsWith(`error C2004: ${title}\n`));
  assert.ok(text.replaceAll('\n', ' ').includes(explanation));
  assert.ok(text.includes(example.split('\n')[0]!));
  assert.match(text, /error\[C2004\]: .*\n +--> /);
});

test('a code may be written in lower case, and with its kind before it', async () => {
  assert.equal(await explained(['c2004']), await explained(['C2004']));
  assert.equal(await explained(['code', 'c2004']), await explained(['C2004']));
});

test('a warning is called one', async () => {
  assert.match(await explained(['W7008']), /^warning W7008: /);
});

test('a stage is explained with its options, facts, errors and examples', async () => {
  const text = await explained(['stage', 'check-budget']);
  assert.match(text, /^stage check-budget, version \d+\n/);
  assert.match(text, /\n {2}charge {2,}full or nothing; full where absent\n/);
  assert.match(text, /\n {2}raises {2,}invalid_request, spend_limit_exceeded/);
  assert.match(text, /\n {2}- stage: check-budget\n/);
  assert.equal(await explained(['check-budget']), text);
});

test('a fact is explained with its type and who writes it', async () => {
  const text = await explained(['request.cache.ttl']);
  assert.match(text, /none, 5m, 1h/);
  assert.match(text, /written by +read-body/);
  assert.match(await explained(['fact', 'request.id']), /written by +the engine/);
});

test('an operator is explained with how it is written and an example', async () => {
  const text = await explained(['operator', '===']);
  assert.match(text, /\{ "===": \[a, b\] \}/);
  assert.ok(text.includes(OPERATORS['==='].example));
});

test('an error code is explained with its status and both envelopes', async () => {
  const text = await explained(['spend_limit_exceeded']);
  assert.match(text, /status +429/);
  assert.match(text, /billing_error/);
  assert.match(text, /insufficient_quota/);
  assert.match(text, /raised by +check-budget/);
  assert.match(await explained(['upgrade_required']), /raised by +the engine/);
});

describe('everything the reference knows', () => {
  const all = {
    code: Object.keys(DIAGNOSTICS),
    stage: stages.map(({ name }) => name),
    fact: Object.keys(FACTS),
    operator: Object.keys(OPERATORS),
    error: Object.keys(ERRORS),
  };
  for (const [kind, names] of Object.entries(all)) {
    test(`every ${kind} is explained, as JSON and in eighty columns, but for what is written so in a file`, async () => {
      for (const name of names) {
        const text = await explained([kind, name]);
        assert.ok(text.includes(name), name);
        const [prose = ''] = text.split(/\n(?:Example|What appscli check)/);
        for (const line of prose.split('\n')) assert.ok(line.length <= 80, `${name}: ${line}`);
        assert.equal(typeof JSON.parse(await explained([kind, name], { json: true })), 'object');
      }
    });
  }
});

describe('an unknown word is a usage error that helps', () => {
  test('with what was probably meant', async () => {
    await refused(['C2040'], /no code C2040; did you mean `C2004`\?/);
    await refused(['stage', 'forwrd'], /no stage forwrd; did you mean `forward`\?/);
    await refused(['request.modle'], /request\.modle .*did you mean `request\.model`\?/);
  });
  test('with what there is when nothing is close', async () => {
    await refused(['stage', 'xyzzy'], /no stage xyzzy; there is authenticate, /);
    await refused(['flower', 'forward'], /no kind of word flower; there is code, stage, /);
  });
});

test('a diagnostic code is explained even where the configuration is what it complains about', async () => {
  const project = createProject({
    'gateway.yaml': `${GATEWAY}stages: [broken.ts]\n`,
    'broken.ts': 'throw new Error("broken");',
  });
  after(() => project.remove());
  const { context, data } = collectingContext();
  await explain(context, { words: ['C4012'], config: project.path('gateway.yaml'), config_named: true });
  assert.match(data(), /^error C4012: /);
});

test('the program prints an explanation as data, and refuses an unknown word with one line', async () => {
  const known = await cli(['explain', 'C2004']);
  assert.deepEqual([known.exit_code, known.stderr], [0, '']);
  assert.match(known.stdout, /^error C2004: /);
  const unknown = await cli(['explain', 'C9999']);
  assert.deepEqual([unknown.exit_code, unknown.stdout], [64, '']);
  assert.match(unknown.stderr, /^appscli: there is no code C9999; .*\n$/);
});

test('a field or header of a request is explained, whether it passes or decides something', async () => {
  assert.match(await explained(['field', 'service_tier']), /without a price[\s\S]*passes +auto, default/);
  assert.match(await explained(['field', 'judgeModel']), /model the caller may use/);
  assert.match(await explained(['field', 'plugins']), /allow_fields/);
  assert.match(await explained(['field', 'max_tool_calls']), /It passes/);
  assert.match(await explained(['field', 'temperature']), /It passes as it was sent/);
  assert.match(await explained(['header', 'OpenAI-Project']), /dropped unless\s+allow_headers/);
});

test("a header of an upstream's answer is explained, whether it passes or is kept back", async () => {
  assert.match(await explained(['header', 'Set-Cookie']), /kept from clients[\s\S]*set-cookie2/);
  assert.match(await explained(['header', 'access-control-of-the-future']), /kept from clients/);
  assert.match(await explained(['header', 'connection']), /ends there/);
  assert.match(await explained(['header', 'X-Accel-Buffering']), /Of an event stream it is "no"/);
  assert.match(await explained(['header', 'request-id']), /it passes/);
});
