import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CheckResult } from '../../engine/contract/checks.ts';
import type { SelfCheck } from '../../engine/selfcheck/check.ts';
import { runChecks } from '../../engine/selfcheck/run.ts';
import type { Subject } from '../../engine/selfcheck/subject.ts';

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
