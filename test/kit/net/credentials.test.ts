import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { verifyCaller } from '../../../engine/base/kit/net/credentials.ts';

const raise = (error: unknown) => () => {
  throw error;
};
/** What becomes of a credential, by its name. */
const CHECKS: Readonly<Record<string, () => string | Promise<string>>> = {
  ann: () => 'ann',
  ben: async () => 'ben',
  gone: raise(new StageError('credential_revoked', 'It was revoked.')),
  old: () => Promise.reject(new StageError('credential_expired', 'It has expired.')),
  away: () => Promise.reject(new StageError('store_unavailable', 'Nobody can tell.')),
  broken: raise(new TypeError('a mistake of ours')),
};

async function ask(first: string, second: string) {
  const checked: string[] = [];
  const headers = { authorization: `Bearer ${first}`, 'x-api-key': second };
  const verify = (token: string) => {
    checked.push(token);
    return CHECKS[token]!();
  };
  const asked = (async () => verifyCaller(headers, verify))();
  const outcome = await asked.catch((error) => error.code ?? error.name);
  return [outcome, ...checked];
}

/** Authorization, x-api-key, what comes of them, how many are checked. */
const TABLE: readonly (readonly [string, string, string, number])[] = [
  ['ann', 'ben', 'ann', 1],
  ['ben', 'ann', 'ben', 1],
  ['ann', 'ann', 'ann', 1],
  ['gone', 'gone', 'credential_revoked', 1],
  ['gone', 'ann', 'ann', 2],
  ['old', 'ben', 'ben', 2],
  ['gone', 'old', 'credential_revoked', 2],
  ['old', 'gone', 'credential_expired', 2],
  ['away', 'ann', 'ann', 2],
  ['away', 'gone', 'store_unavailable', 2],
  ['old', 'away', 'store_unavailable', 2],
  ['away', 'away', 'store_unavailable', 1],
  ['broken', 'ann', 'TypeError', 1],
  ['gone', 'broken', 'TypeError', 2],
];

for (const [first, second, outcome, checks] of TABLE) {
  test(`"${first}" beside "${second}" yields ${outcome} after ${checks} ${checks === 1 ? 'check' : 'checks'}`, async () => {
    assert.deepEqual(await ask(first, second), [outcome, ...[first, second].slice(0, checks)]);
  });
}

test('one that is known at once is not waited for, alone or behind a bad one', () => {
  const verify = (token: string) => CHECKS[token]!();
  assert.equal(verifyCaller({ authorization: 'bearer ann' }, verify), 'ann');
  assert.equal(verifyCaller({ authorization: 'Bearer gone', 'x-api-key': ' ann ' }, verify), 'ann');
  assert.equal(verifyCaller({ authorization: 'Basic YTpi', 'x-api-key': 'ann' }, verify), 'ann');
});
