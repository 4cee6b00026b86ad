import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Principal, StageError } from '../../engine/api.ts';
import { openStage, type ServiceStubs } from '../../engine/edge/simulate/stage-harness.ts';
import authenticate from '../../stages/authenticate.ts';

const alice: Principal = {
  id: 'user:alice@example.com',
  email: 'alice@example.com',
  kind: 'access_token',
  groups: ['coders'],
  roles: [],
  team: 'search',
  project: undefined,
  token: { id: 'tok_1', name: 'laptop', group: 'coders' },
};

const FINAL = { 'www-authenticate': 'Bearer', 'x-should-retry': 'false' };

async function authenticateWith(headers: Record<string, string>, verify?: ServiceStubs['verify']) {
  const verified: string[] = [];
  const stage = openStage(authenticate, {
    verify(token) {
      verified.push(token);
      return verify === undefined ? alice : verify(token);
    },
  });
  const ctx = stage.request({ headers });
  await stage.hooks.request!(ctx);
  return { verified, facts: ctx.written };
}

describe('authenticate', () => {
  it('accepts a bearer credential, whatever the case of the scheme, and x-api-key', async () => {
    const verifiedOf = async (headers: Record<string, string>) => (await authenticateWith(headers)).verified.join();
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  '])
      assert.equal(await verifiedOf({ authorization: `${scheme} gw_token` }), 'gw_token');
    assert.equal(await verifiedOf({ 'x-api-key': ' gw_token ' }), 'gw_token');
    for (const authorization of ['Bearer ', 'Basic YTpi'])
      assert.equal(await verifiedOf({ authorization, 'x-api-key': 'gw_key' }), 'gw_key');
  });

  it('sets the facts of the caller', async () => {
    const { facts } = await authenticateWith({ 'x-api-key': 'gw_token' }, async () => alice);
    assert.deepEqual(facts, {
      'principal.id': 'user:alice@example.com',
      'principal.email': 'alice@example.com',
      'principal.kind': 'access_token',
      'principal.groups': ['coders'],
      'principal.roles': [],
      'principal.team': 'search',
      'principal.token.id': 'tok_1',
      'principal.token.name': 'laptop',
      'principal.token.group': 'coders',
    });
  });

  it('reports a missing or malformed credential, and that a retry will not help', async () => {
    const missing = { code: 'credential_missing', message: /send an access token or session token as/ };
    for (const sent of [{}, { authorization: '' }, { authorization: 'Bearer' }, { 'x-api-key': ' ' }])
      await assert.rejects(authenticateWith(sent), { ...missing, status: 401, headers: FINAL });
    const invalid = { code: 'credential_invalid', message: /must be the word "Bearer"/ };
    for (const authorization of ['Basic YTpi', 'gw_token', 'Bearer two words'])
      await assert.rejects(authenticateWith({ authorization }), { ...invalid, status: 401, headers: FINAL });
  });

  it('adds the same headers to rejections of the token, raised at once or later', async () => {
    const refused = new StageError('credential_revoked', 'The access token was revoked.');
    const atOnce = () => {
      throw refused;
    };
    for (const verify of [atOnce, () => Promise.reject(refused)]) {
      const { code, message } = refused;
      await assert.rejects(authenticateWith({ 'x-api-key': 'gw_token' }, verify), { code, message, headers: FINAL });
    }
  });

  it('never quotes a credential', async () => {
    for (const sent of [{ authorization: 'Basic c2VjcmV0' }, { authorization: 'Bearer c2VjcmV0 c2VjcmV0' }]) {
      await assert.rejects(authenticateWith(sent), ({ message }: Error) => !message.includes('c2VjcmV0'));
    }
  });
});

const raise = (error: unknown) => () => {
  throw error;
};
/** What becomes of a credential, by its name. */
const CHECKS: Readonly<Record<string, () => Principal | Promise<Principal>>> = {
  ann: () => ({ ...alice, id: 'ann' }),
  ben: async () => ({ ...alice, id: 'ben' }),
  gone: raise(new StageError('credential_revoked', 'It was revoked.')),
  old: () => Promise.reject(new StageError('credential_expired', 'It has expired.')),
  away: () => Promise.reject(new StageError('store_unavailable', 'Nobody can tell.')),
  broken: raise(new TypeError('a mistake of ours')),
};

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

describe('of two credentials', () => {
  for (const [first, second, outcome, checks] of TABLE) {
    it(`"${first}" beside "${second}" yields ${outcome} after ${checks} ${checks === 1 ? 'check' : 'checks'}`, async () => {
      const checked: string[] = [];
      const verify = (token: string) => {
        checked.push(token);
        return CHECKS[token]!();
      };
      const asked = authenticateWith({ authorization: `Bearer ${first}`, 'x-api-key': second }, verify);
      const found = await asked.then(({ facts }) => facts['principal.id']).catch((error) => error.code ?? error.name);
      assert.deepEqual([found, ...checked], [outcome, ...[first, second].slice(0, checks)]);
    });
  }

  it('one that is known at once is not waited for, alone or behind a bad one', () => {
    const stage = openStage(authenticate, { verify: (token) => CHECKS[token]!() });
    for (const headers of [{ authorization: 'bearer ann' }, { authorization: 'Bearer gone', 'x-api-key': ' ann ' }])
      assert.equal(stage.hooks.request!(stage.request({ headers })), undefined);
  });
});
