import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { logout } from '../../../engine/cli/sign-in/logout.ts';
import { held, keep, kept } from '../../client/keep-credentials.ts';
import {
  type Backend,
  createBackend,
  type ScriptedGateway,
  startScriptedGateway,
} from '../../client/scripted-gateway.ts';

let gateway: ScriptedGateway;
let backend: Backend;
const other = 'https://other.example.com';

beforeEach(async () => {
  gateway = await startScriptedGateway();
  backend = createBackend();
});

test('signing out ends the session and the token at the gateway, and forgets them here', async () => {
  keep(backend, { [gateway.url]: held(3000), [other]: held(3000) });
  assert.equal(await logout(backend.context, { baseUrl: gateway.url }), 0);
  assert.deepEqual(
    gateway.to('/oauth/revoke').map(({ form }) => form),
    [
      { token: 'refresh-0', token_type_hint: 'refresh_token' },
      { token: 'access-0', token_type_hint: 'access_token' },
    ],
  );
  assert.deepEqual(Object.keys(kept(backend)), [other]);
  assert.equal(backend.info(), `Signed out at ${gateway.url}.\n`);
});

test('a gateway that is away is not told, and it says that the sign-in lives on', async () => {
  keep(backend, { [gateway.url]: held(3000) });
  gateway.close();
  assert.equal(await logout(backend.context, {}), 69);
  assert.deepEqual(kept(backend), {});
  assert.match(backend.info(), /^appscli: no answer from .*: connection refused$/m);
  assert.match(backend.info(), /it\s+lives\s+on\s+until\s+it\s+expires,\s+or\s+"appscli\s+sessions\s+end"\s+ends\s+it/);
  for (const line of backend.info().split('\n')) assert.ok(line.length <= 80, line);
});

test('a gateway that refuses, or can not revoke, is no reason to keep the credentials', async () => {
  keep(backend, { [gateway.url]: held(3000) });
  gateway.scripts.set('/oauth/revoke', () => ({ status: 503, body: { error: 'temporarily_unavailable' } }));
  assert.equal(await logout(backend.context, {}), 69);
  assert.deepEqual(kept(backend), {});
  keep(backend, { [gateway.url]: held(3000) });
  delete gateway.discovery.revocation_endpoint;
  assert.equal(await logout(backend.context, {}), 69);
  assert.deepEqual(kept(backend), {});
});

test('--all signs out everywhere', async () => {
  const second = await startScriptedGateway();
  keep(backend, { [gateway.url]: held(3000), [second.url]: held(3000) });
  assert.equal(await logout(backend.context, { all: true }), 0);
  assert.deepEqual(kept(backend), {});
  assert.equal(gateway.to('/oauth/revoke').length + second.to('/oauth/revoke').length, 4);
});

test('who is not signed in is told so', async () => {
  assert.equal(await logout(backend.context, {}), 0);
  assert.equal(await logout(backend.context, { all: true }), 0);
  assert.equal(await logout(backend.context, { baseUrl: other }), 0);
  assert.equal(
    backend.info(),
    `You are not signed in anywhere.\nYou are not signed in anywhere.\nYou are not signed in at ${other}.\n`,
  );
});
