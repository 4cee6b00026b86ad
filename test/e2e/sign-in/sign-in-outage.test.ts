/** Outages longer than the life of a session token: what becomes of each credential, and that no user signs in again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { token } from '../../../engine/edge/cli/sign-in.ts';
import { type Backend, createBackend, drive, keep, kept } from '../../client/scripted-gateway.ts';
import type { TokenAnswer } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({
  frozen: true,
  relayed: true,
  auth: { session: { signing_key_env: 'TEST_SIGNING_KEY', ttl_minutes: 1 } },
});
const { renew, signIn } = scene;

async function ask(bearer: string) {
  const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ model: 'coder-1', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] });
  const response = await fetch(`${scene.gateway.url}/v1/messages`, { method: 'POST', headers, body });
  return { status: response.status, text: await response.text() };
}

/** The credentials of a user who signed in with the command line. */
function backendWith({ access_token, refresh_token, expires_in }: TokenAnswer['body']): Backend {
  const backend = createBackend();
  const { clock, gateway } = scene;
  const expires_at = new Date(clock.now() + expires_in * 1000).toISOString();
  keep(backend, { [gateway.url]: { access_token, refresh_token, expires_at, lifetime_seconds: expires_in } });
  return backend;
}

/** The result of the key helper: its output, or its error. */
async function helper(backend: Backend) {
  const printed = backend.data().length;
  const problem = await token({ ...backend.context, clock: scene.clock }, {}).then(
    () => undefined,
    (error) => error as { exit_code: number; message: string },
  );
  return { problem, said: backend.data().slice(printed).trim() };
}

test("an identity provider outage longer than a token's lifetime signs no user out", async () => {
  const { clock, gateway, provider } = scene;
  const person = await signIn('anna');
  const backend = backendWith(person);
  const own = await gateway.newToken();
  provider.setMode('down');
  assert.equal((await helper(backend)).said, person.access_token, 'a live token needs no provider');
  for (let minutes = 0; minutes < 30; minutes += 10) {
    clock.advance(600_000);
    const expired = await ask(person.access_token);
    assert.equal(expired.status, 401);
    assert.match(expired.text, /expired/);
    const refused = await renew(person.refresh_token);
    assert.deepEqual([refused.status, refused.body.error], [503, 'temporarily_unavailable']);
    const { problem, said } = await helper(backend);
    assert.equal(said, '');
    assert.equal(problem?.exit_code, 69);
    assert.match(problem?.message ?? '', /identity provider is not available .* You are still signed in: try/);
    assert.equal((await ask(own)).status, 200, 'access tokens need no identity provider');
  }
  provider.setMode('up');
  const { said, problem } = await helper(backend);
  assert.equal(problem, undefined);
  assert.equal((await ask(said)).status, 200);
  assert.notEqual(kept(backend)[gateway.url]?.refresh_token, person.refresh_token);
});

for (const mode of ['garbage', 'hang'] as const) {
  test(`a rejected bearer gets a response at once and never reaches an identity provider in mode ${mode}`, async () => {
    const { clock, provider } = scene;
    const { access_token, refresh_token } = await signIn('anna');
    provider.setMode(mode, 'token');
    provider.requests.length = 0;
    const asked = renew(refresh_token);
    await until('the identity provider got a request', () => provider.requests.length > 0);
    for (const bearer of ['gw_nonsense', 'ey.nonsense.x', '']) {
      const { status, text } = await ask(bearer);
      assert.deepEqual([status, JSON.parse(text).type], [401, 'error']);
    }
    assert.equal((await ask(access_token)).status, 200);
    assert.doesNotMatch(JSON.stringify(provider.requests), /nonsense/);
    clock.advance(60_000);
    assert.equal((await asked).status, 503);
  });
}

test("a database outage longer than a token's lifetime signs no user out", async () => {
  const { clock, gateway, way } = scene;
  const person = await signIn('anna');
  const backend = backendWith(person);
  const own = await gateway.newToken();
  await way.stop();
  assert.deepEqual([(await ask(person.access_token)).status, (await ask(own)).status], [503, 503]);
  clock.advance(600_000);
  assert.equal((await drive(clock, ask(person.access_token))).status, 401);
  const refused = await drive(clock, renew(person.refresh_token));
  assert.deepEqual([refused.status, refused.body.error], [503, 'temporarily_unavailable']);
  const { problem, said } = await drive(clock, helper(backend));
  assert.deepEqual([said, problem?.exit_code], ['', 69]);
  assert.match(problem?.message ?? '', /You are still signed in/);
  await way.start();
  const renewed = await until('the helper prints a token again', async () => {
    const now = await helper(backend);
    return now.problem === undefined && now.said;
  });
  assert.equal((await ask(renewed)).status, 200);
});
