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
  it('accepts a bearer credential, whatever the case of the scheme, else x-api-key', async () => {
    const verifiedOf = async (headers: Record<string, string>) => (await authenticateWith(headers)).verified.join();
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  '])
      assert.equal(await verifiedOf({ authorization: `${scheme} gw_token`, 'x-api-key': 'gw_key' }), 'gw_token');
    assert.equal(await verifiedOf({ authorization: 'Bearer gw_token' }), 'gw_token');
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

  it('is synchronous when the token is cached', () => {
    const stage = openStage(authenticate, { verify: () => alice });
    const ctx = stage.request({ headers: { 'x-api-key': 'gw_token' } });
    assert.equal(stage.hooks.request!(ctx), undefined);
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
