import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CheckResult } from '../../engine/contract/checks.ts';
import { NotAsked } from '../../engine/selfcheck/ask.ts';
import type { SelfCheck, Subject } from '../../engine/selfcheck/check.ts';
import { runChecks } from '../../engine/selfcheck/run.ts';

const SUBJECT: Subject = {
  root_url: 'https://gateway.example.com',
  model: 'coder-1',
  limit_token: undefined,
  header_prefixes: ['vendor'],
  echo: undefined,
  holdsToken: () => false,
  ask: async () => {
    throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
  },
};

const named = (id: string): SelfCheck => ({
  id,
  title: 'a list of models',
  expected: 'a list',
  run: async (subject) => {
    await subject.ask({ path: '/v1/models' });
    return { verdict: 'ok', found: 'a list' };
  },
});

async function all(checks: readonly SelfCheck[]): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  for await (const result of runChecks(checks, SUBJECT)) results.push(result);
  return results;
}

test('a check whose request got no answer fails with the reason, and the next one is made', async () => {
  const later: SelfCheck = { ...named('later'), run: async () => ({ verdict: 'ok', found: 'it is there' }) };
  const results = await all([named('models.list'), later]);
  assert.deepEqual(
    results.map(({ id, verdict, found }) => [id, verdict, found]),
    [
      ['models.list', 'failed', 'no answer: connection refused'],
      ['later', 'ok', 'it is there'],
    ],
  );
});

test('a check that says why it can not be made is skipped', async () => {
  const check = { ...named('limits'), skipped: () => 'name a token with --limit-token-env' };
  const [result] = await all([check]);
  assert.equal(result?.verdict, 'skipped');
  assert.equal(result?.found, 'name a token with --limit-token-env');
});

test('a check that breaks is a warning that asks to be reported, and says nothing about the gateway', async () => {
  const breaks = async () => {
    throw new TypeError('x is not a function');
  };
  const [result] = await all([{ ...named('messages.json'), run: breaks }]);
  assert.equal(result?.verdict, 'warning');
  assert.match(
    result.found,
    /^this check broke \(TypeError: x is not a function\), which says nothing about the gateway$/,
  );
  assert.match(result.remedy ?? '', /report it/);
});

test('an answer that nobody can read is a fault of the gateway', async () => {
  const recurse = (depth: number): number => 1 + recurse(depth + 1);
  const [result] = await all([{ ...named('messages.json'), run: async () => ({ found: `${recurse(0)}` }) as never }]);
  assert.deepEqual(
    [result?.verdict, result?.found],
    ['failed', 'its answer is too large or nested too deeply to be read'],
  );
});

test('once it is stopped, what is under way is not waited for, and what is left is skipped with the reason', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const stop = new AbortController();
  const results: CheckResult[] = [];
  const hangs: SelfCheck = { ...named('hangs'), run: () => new Promise(() => {}) };
  const begin = () => {
    stop.abort(new NotAsked('it was stopped'));
    // Cleaning up has its time, which is over at once here.
    queueMicrotask(() => t.mock.timers.runAll());
  };
  for await (const result of runChecks([hangs, named('later')], { ...SUBJECT, signal: stop.signal }, { begin })) {
    results.push(result);
  }
  assert.deepEqual(
    results.map(({ id, verdict, found }) => [id, verdict, found]),
    [
      ['hangs', 'skipped', 'not made: it was stopped'],
      ['later', 'skipped', 'not made: it was stopped'],
    ],
  );
});
