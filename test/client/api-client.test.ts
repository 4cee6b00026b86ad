import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { type ApiClient, openClient } from '../../engine/edge/client/api-client.ts';
import {
  type Backend,
  createBackend,
  credentialsFor,
  keep,
  kept,
  NOW,
  type ScriptedGateway,
  startScriptedGateway,
} from './scripted-gateway.ts';

let gateway: ScriptedGateway;
let backend: Backend;
const clock = frozenClock(NOW);

beforeEach(async () => {
  gateway = await startScriptedGateway();
  backend = createBackend();
  keep(backend, { [gateway.url]: credentialsFor(3000) });
});

const open = (): Promise<ApiClient> => openClient({ env: backend.env, clock });

test('a token that the gateway rejects is renewed once, despite its remaining lifetime', async () => {
  gateway.scripts.set('/admin/api/me', ({ headers }) =>
    headers.authorization === `Bearer ${gateway.access_token}` ? { body: {} } : { status: 401, body: {} },
  );
  gateway.access_token = 'another';
  const { status } = await (await open()).request('GET', '/admin/api/me');
  assert.equal(status, 200);
  assert.equal(gateway.to('/oauth/token').length, 1);
  assert.equal(kept(backend)[gateway.url]?.access_token, gateway.access_token);
});

test('rejected again, it is over', async () => {
  gateway.scripts.set('/admin/api/me', () => ({ status: 401, body: {} }));
  const client = await open();
  await assert.rejects(client.request('GET', '/admin/api/me'), {
    name: 'SignInOver',
    exit_code: 1,
    message: /has ended: the gateway rejects the token\. Run: appscli login/,
  });
  assert.equal(gateway.to('/admin/api/me').length, 2);
});

test('an unreachable or wrong gateway is exit code 69 with an explanation, and a path leads to no other', async () => {
  const client = await open();
  gateway.scripts.set('/page', () => ({ status: 502, body: '<html>' }));
  await assert.rejects(client.request('GET', '/page'), { exit_code: 69, message: /status 502, not in JSON/ });
  await assert.rejects(client.request('GET', '@evil.example.com/'), /begins with a slash/);
  gateway.close();
  await assert.rejects(client.request('GET', '/admin/api/me'), { exit_code: 69, message: /^no response from http/ });
});

test('reports a missing sign-in on open, and where none is possible', async () => {
  backend = createBackend();
  const not_found = { type: 'error', error: { type: 'not_found_error', message: 'There is nothing here.' } };
  gateway.scripts.set('/.well-known/oauth-authorization-server', () => ({ status: 404, body: not_found }));
  const refused = {
    exit_code: 1,
    message: /^you are not signed in at http\S+: it has no identity provider.*tokens create\)$/,
  };
  await assert.rejects(openClient({ env: backend.env, base_url: gateway.url }), refused);
  gateway.scripts.clear();
  const elsewhere = openClient({ env: backend.env, base_url: gateway.url });
  await assert.rejects(elsewhere, { exit_code: 1, message: /not signed in/ });
  await assert.rejects(open(), { exit_code: 64, message: /no gateway: name one/ });
});
