import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import type { AuthConfig, OidcConfig } from '../../../engine/base/contract/config.ts';
import { checkLive } from '../../../engine/edge/doctor/host/live/check-live.ts';
import type { LiveCheck } from '../../../engine/edge/doctor/host/live/probe.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { oidcConfig } from '../../support/identity/oidc-config.ts';
import { answerJson, startScriptedProvider } from '../../support/identity/scripted-identity-provider.ts';

const SECRET = 'a-secret-with_unreserved.characters~';
const REDIRECT_URI = 'http://127.0.0.1/oauth/callback';

async function check(issuer: string, changes: Partial<OidcConfig> = {}, secret: string = SECRET): Promise<LiveCheck> {
  const config = stageConfig({
    database: { embedded: { data_dir: 'nowhere' } },
    auth: {
      oidc: oidcConfig(issuer, changes),
      session: { previous_signing_keys: [], ttl_minutes: 60, refresh_days: 30 },
      teams: [],
      projects: [],
    } as unknown as AuthConfig,
  });
  const found = (await checkLive(config, { OIDC_CLIENT_SECRET: secret }, 5)).find(
    ({ name }) => name === 'identity provider',
  );
  assert.ok(found);
  assert.ok(!JSON.stringify(found).includes(secret), 'no secret is reported');
  return found;
}

/** A provider with the client `gateway`, its secret, and one redirect URI, with responses of some real one. */
async function provider(
  t: TestContext,
  options: {
    readonly redirect_uris?: readonly string[];
    readonly takes?: 'header' | 'form';
    readonly wrong_id?: string;
    readonly wrong_secret?: string;
    readonly page?: (what: 'client' | 'redirect') => [number, string];
  } = {},
) {
  const {
    redirect_uris = [REDIRECT_URI],
    takes,
    wrong_id = 'invalid_client',
    wrong_secret = 'invalid_client',
  } = options;
  const { page = (what) => [400, what === 'client' ? 'Client not found.' : 'Invalid parameter: redirect_uri'] } =
    options;
  const scripted = await startScriptedProvider(t);
  const seen: string[] = [];
  scripted.token = (req, res, form) => {
    const basic = Buffer.from((req.headers.authorization ?? '').slice('Basic '.length), 'base64').toString();
    const [id, secret] = basic === '' ? [form.get('client_id'), form.get('client_secret')] : basic.split(':');
    seen.push(`${basic === '' ? 'form' : 'header'} ${form.get('grant_type')} ${form.get('redirect_uri')}`);
    const wrong_way = takes !== undefined && takes !== (basic === '' ? 'form' : 'header');
    if (wrong_way || id !== 'gateway') return answerJson(res, 401, { error: wrong_id });
    if (secret !== SECRET) return answerJson(res, 401, { error: wrong_secret });
    answerJson(res, 400, { error: 'invalid_grant' });
  };
  scripted.authorize = (req, res: ServerResponse) => {
    const query = new URL(req.url ?? '', 'http://x').searchParams;
    assert.equal(query.get('prompt'), 'none', 'no page is shown');
    const show = (what: 'client' | 'redirect') => {
      const [status, text] = page(what);
      res.writeHead(status, { 'content-type': 'text/html', location: '/login' }).end(`<p>${text}</p>`);
    };
    if (query.get('client_id') !== 'gateway') return show('client');
    if (!redirect_uris.includes(query.get('redirect_uri') ?? '')) return show('redirect');
    res.writeHead(302, { location: `${query.get('redirect_uri')}?error=login_required&state=x` }).end();
  };
  return { issuer: scripted.issuer, seen, scripted };
}

test("tests a provider's client with an invalid code, and a browser that may show nothing", async (t) => {
  const { issuer, seen } = await provider(t);
  const { ok, what, warnings } = await check(issuer, { email_verification: 'if_stated' });
  assert.ok(ok, what);
  assert.match(what, /issuer matches; accepts the client id, its secret or key, and the redirect URI$/);
  assert.deepEqual([warnings, seen], [[], [`header authorization_code ${REDIRECT_URI}`]]);
});

test('distinguishes a wrong secret, wrong client id, unregistered redirect URI and wrong secret method', async (t) => {
  for (const wrong_secret of ['invalid_client', 'unauthorized_client']) {
    const { issuer } = await provider(t, { wrong_secret });
    const refused = await check(issuer, {}, 'not-the-secret');
    assert.equal(refused.ok, false);
    assert.match(refused.what, /^it knows the client gateway, but rejects the secret in OIDC_CLIENT_SECRET$/);
    const unknown = await check(issuer, { client_id: 'gatewya' });
    assert.match(unknown.what, /^it does not know the client gatewya$/);
    assert.match(unknown.help ?? '', /auth\.oidc\.client_id/);
  }
  const elsewhere = await provider(t, { redirect_uris: ['https://old.example.com/oauth/callback'] });
  const unregistered = await check(elsewhere.issuer);
  assert.match(unregistered.what, /accepts the client, but not the redirect URI/);
  assert.match(unregistered.help ?? '', /register exactly http:\/\/127\.0\.0\.1\/oauth\/callback there/);
  const both = await check(elsewhere.issuer, {}, 'not-the-secret');
  assert.match(
    both.what,
    /knows the client gateway, but rejects the secret in OIDC_CLIENT_SECRET and the redirect URI/,
  );
  for (const [takes, configured, other] of [
    ['form', 'client_secret_basic', 'client_secret_post'],
    ['header', 'client_secret_post', 'client_secret_basic'],
  ] as const) {
    const { issuer } = await provider(t, { takes });
    const { ok, what, help } = await check(issuer, { token_endpoint_auth_method: configured });
    assert.equal(ok, false);
    assert.match(what, takes === 'form' ? /only in the form/ : /only in the Authorization header/);
    assert.equal(help, `set auth.oidc.token_endpoint_auth_method to ${other}`);
  }
});

test('reports what a provider does not disclose as unknown, not as wrong', async (t) => {
  const silent = await provider(t, { redirect_uris: [], page: () => [302, ''] });
  const unclear = await check(silent.issuer);
  assert.ok(unclear.ok, unclear.what);
  assert.match(unclear.what, /accepts the client id and its secret or key$/);
  assert.match((unclear.notes ?? []).join('\n'), /unknown whether the redirect URI is registered/);
  const refused = await check(silent.issuer, { client_id: 'gatewya' });
  assert.match(refused.what, /it rejects the client id gatewya or the secret in OIDC_CLIENT_SECRET/);
  silent.scripted.token = (_req, res) => answerJson(res, 400, { error: 'invalid_request' });
  const odd = await check(silent.issuer);
  assert.ok(odd.ok, odd.what);
  assert.match((odd.notes ?? []).join('\n'), /unknown whether .*: token endpoint: invalid_request/);
  // Dex, which looks at the code last.
  const error_description = 'Invalid or expired code parameter.';
  silent.scripted.token = (_req, res) => answerJson(res, 400, { error: 'invalid_request', error_description });
  assert.match((await check(silent.issuer)).what, /accepts the client id and its secret or key$/);
});

test('a provider with one error for every mistake does not prove the client, unless it sends browsers back', async (t) => {
  const { issuer, scripted } = await provider(t, { page: () => [403, ''] });
  scripted.token = (req, res, form) => {
    const basic = Buffer.from((req.headers.authorization ?? '').slice('Basic '.length), 'base64').toString();
    const right = basic === `gateway:${SECRET}` && form.get('redirect_uri') === REDIRECT_URI;
    answerJson(res, 403, { error: right ? 'invalid_code' : 'unauthorized_client' });
  };
  const good = await check(issuer);
  assert.match(good.what, /accepts the client id, its secret or key, and the redirect URI$/);
  const secret = await check(issuer, {}, 'not-the-secret');
  assert.match(secret.what, /^it knows the client gateway, but rejects the secret in OIDC_CLIENT_SECRET$/);
  const unknown = await check(issuer, { client_id: 'gatewya' });
  assert.match(unknown.what, /^it rejects the client id gatewya or the redirect URI$/);
  assert.match(unknown.help ?? '', /auth\.oidc\.client_id.*register http:\/\/127\.0\.0\.1\/oauth\/callback/);
});

test('a browser sent back with an error about the request is a failure', async (t) => {
  const { issuer, scripted } = await provider(t);
  scripted.authorize = (_req, res) => {
    res.writeHead(302, { location: `${REDIRECT_URI}?error=invalid_scope` }).end();
  };
  const { ok, what, help } = await check(issuer);
  assert.equal(ok, false);
  assert.match(what, /redirects browsers back with the error invalid_scope/);
  assert.match(help ?? '', /auth\.oidc\.scopes/);
});
