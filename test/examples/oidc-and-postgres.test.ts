/** The example for a company, with its names replaced by those of a database, a provider and an upstream of this machine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cli } from '../cli/support.ts';
import { freePort } from '../support/free-port.ts';
import { startIdentityProvider } from '../support/identity/identity-provider.ts';
import { beginSignIn, confirmInBrowser, signIn } from '../support/identity/sign-in.ts';
import { standIn, use } from '../support/use.ts';
import { startExample } from './support.ts';

const person = (email: string, groups: readonly string[]) => ({ email, email_verified: true, name: email, groups });

const people = {
  dana: person('dana@example.com', ['engineering', 'search-eng', 'platform']),
  lee: person('lee@example.com', ['contractors']),
  guest: person('guest@example.com', ['guests']),
  rival: person('rival@example.net', ['engineering']),
};
const provider = use(() => startIdentityProvider({ people, client_id: 'model-gateway' }));
const example = use(async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  provider.register(`${url}/oauth/callback`);
  return startExample(
    'oidc-and-postgres',
    [
      ['listen: 127.0.0.1:8080', `listen: ${url.slice('http://'.length)}`],
      ['public_url: https://gateway.example.com', `public_url: ${url}`],
      ['issuer_url: https://id.example.com', `issuer_url: ${provider.issuer}`],
    ],
    { OIDC_CLIENT_SECRET: provider.client_secret, SESSION_SIGNING_KEY: 'a-session-signing-key-of-a-test-run' },
  );
});
const gateway = standIn(() => example.gateway);

async function get(path: string, token: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${token}` } });
  return { status: response.status, body: await response.json() };
}

async function modelsOf(token: string): Promise<string[]> {
  const { body } = await get('/v1/models', token);
  return (body as { data: { id: string }[] }).data.map(({ id }) => id);
}

test('an engineer signs in to every model and the base policy, a contractor to one model and both policies', async () => {
  const dana = await signIn(gateway.url, 'dana');
  assert.equal(dana.email, 'dana@example.com');
  assert.deepEqual(await modelsOf(dana.access_token), ['coder-1', 'coder-small-1']);
  const base = await get('/managed/settings', dana.access_token);
  assert.deepEqual((base.body as { settings: unknown }).settings, {
    model: 'coder-1',
    permissions: { deny: ['Read(./.env)', 'Read(./secrets/**)'] },
  });

  const lee = await signIn(gateway.url, 'lee');
  assert.deepEqual(await modelsOf(lee.access_token), ['coder-small-1']);
  const merged = await get('/managed/settings', lee.access_token);
  assert.deepEqual((merged.body as { settings: unknown }).settings, {
    model: 'coder-small-1',
    availableModels: ['coder-small-1'],
    permissions: { deny: ['Read(./.env)', 'Read(./secrets/**)', 'WebFetch'] },
  });
});

test('who is in no allowed group, or has an address elsewhere, is turned away', async () => {
  for (const sub of ['guest', 'rival']) {
    const { user_code } = await beginSignIn(gateway.url);
    const { status, text } = await confirmInBrowser(gateway.url, user_code, sub);
    assert.equal(status, 403, text);
  }
});

test('the live check finds the provider and names the redirect URI to register', async () => {
  const { stdout } = await cli(['check', '--config', example.config_file, '--live'], { env: example.env });
  assert.match(stdout, /^(?:ok|warning) +identity provider: discovery document and keys found, issuer matches/m);
  assert.match(stdout, new RegExp(`register there:\\s+${gateway.url}/oauth/callback$`, 'm'));
});
