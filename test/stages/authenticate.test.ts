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

/** Runs the stage on some headers and returns the credential it verified. */
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
  it('accepts a bearer credential, whatever the case of the scheme', async () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  ']) {
      const { verified } = await authenticateWith({ authorization: `${scheme} gw_token` });
      assert.deepEqual(verified, ['gw_token']);
    }
  });

  it('accepts x-api-key', async () => {
    assert.deepEqual((await authenticateWith({ 'x-api-key': ' gw_token ' })).verified, ['gw_token']);
  });

  it('uses the bearer credential when both are sent, and x-api-key when it is empty or of another scheme', async () => {
    const both = (authorization: string) => authenticateWith({ authorization, 'x-api-key': 'gw_key' });
    assert.deepEqual((await both('Bearer gw_bearer')).verified, ['gw_bearer']);
    assert.deepEqual((await both('Bearer ')).verified, ['gw_key']);
    assert.deepEqual((await both('Basic YTpi')).verified, ['gw_key']);
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
    const headers = { 'www-authenticate': 'Bearer', 'x-should-retry': 'false' };
    for (const sent of [{}, { authorization: '' }, { authorization: 'Bearer' }, { 'x-api-key': ' ' }]) {
      const expected = {
        code: 'credential_missing',
        status: 401,
        headers,
        message: /send an access token or session token as/,
      };
      await assert.rejects(authenticateWith(sent), expected);
    }
    for (const authorization of ['Basic YTpi', 'gw_token', 'Bearer two words']) {
      const expected = { code: 'credential_invalid', status: 401, headers, message: /must be the word "Bearer"/ };
      await assert.rejects(authenticateWith({ authorization }), expected);
    }
  });

  it('adds the same headers to rejections of the token, raised at once or later', async () => {
    const refused = new StageError('credential_revoked', 'The access token was revoked.');
    const headers = { 'www-authenticate': 'Bearer', 'x-should-retry': 'false' };
    for (const verify of [
      () => {
        throw refused;
      },
      () => Promise.reject(refused),
    ]) {
      await assert.rejects(authenticateWith({ 'x-api-key': 'gw_token' }, verify), {
        code: 'credential_revoked',
        message: refused.message,
        headers,
      });
    }
  });

  it('never blames the caller for a database outage', async () => {
    const away = new StageError('store_unavailable', 'The gateway cannot use its database.');
    await assert.rejects(
      authenticateWith({ 'x-api-key': 'gw_token' }, () => Promise.reject(away)),
      (error) => error === away,
    );
  });

  it('never quotes a credential', async () => {
    for (const sent of [{ authorization: 'Basic c2VjcmV0' }, { authorization: 'Bearer c2VjcmV0 c2VjcmV0' }]) {
      await assert.rejects(authenticateWith(sent), ({ message }: Error) => !message.includes('c2VjcmV0'));
    }
  });
});
