/**
 * Takes every path of sign-in that could reveal too much, then looks for its secrets in all output: log
 * records before masking, telemetry, responses, the output of commands, every table.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cli } from '../../cli/support.ts';
import { UPSTREAM_KEY } from '../../support/gateway.ts';
import {
  approveAt,
  createBrowser,
  denyAt,
  type Endpoint,
  type Mode,
  startIdentityProvider,
} from '../../support/identity/identity-provider.ts';
import {
  type BegunSignIn,
  beginSignIn,
  bootSignIn,
  pollWith,
  refreshWith,
  SIGNING_KEY,
  type TokenAnswer,
} from '../../support/identity/sign-in.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { startCollector } from '../../support/telemetry/collector.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { movableClock } from '../support/movable-clock.ts';
import { createSecretSearch, rowsAsText } from './secret-search.ts';

const PREVIOUS_KEY = 'planted-previous-key-1f6d3b82a94c57e0';
/** anna administers, ben is in no allowed group, the address of cleo is not verified. */
const PEOPLE = {
  anna: { email: 'anna@example.com', email_verified: true, groups: ['engineering', 'admins'] },
  ben: { email: 'ben@example.com', email_verified: true, groups: ['marketing'] },
  cleo: { email: 'cleo@example.com', email_verified: false, groups: ['engineering'] },
  dan: { email: 'dan@example.com', email_verified: true, groups: ['engineering'] },
};

const search = createSecretSearch();
const { plant } = search;

const clock = movableClock();
const provider = use(() => startIdentityProvider({ people: PEOPLE }));
const upstream = use(startUpstream);
const collector = use(startCollector);
const gateway = use(() => {
  const previous_signing_keys = [{ key_env: 'TEST_PREVIOUS_KEY' }];
  const telemetry = {
    otlp: { endpoint: collector.endpoint },
    metrics: { interval_seconds: 1 },
    caller: 'pseudonym',
  };
  return bootSignIn({
    ...{ provider, upstream_url: upstream.url, clock, config: { telemetry } },
    env: { TEST_PREVIOUS_KEY: PREVIOUS_KEY, OTEL_BSP_SCHEDULE_DELAY: '50' },
    oidc: { allowed_groups: ['engineering'] },
    auth: {
      session: { signing_key_env: 'TEST_SIGNING_KEY', previous_signing_keys, token_group: 'all' },
      admin_groups: ['admins'],
      limits: { device_authorizations: 1000, code_submissions: 1000 },
    },
  });
});

/** Sends a request, and keeps the response. `expected` is the status, or any that fails. */
async function hear(what: string, path: string, init: RequestInit, expected?: number): Promise<Response> {
  const response = await fetch(gateway.url + path, { redirect: 'manual', ...init });
  const text = await response.clone().text();
  if (expected === undefined) assert.ok(response.status >= 400, `${what}: ${response.status} ${text}`);
  else assert.equal(response.status, expected, `${what}: ${text}`);
  const headers = [...response.headers].filter(([name]) => response.status >= 400 || name !== 'set-cookie');
  search.look(`the answer to ${what}`, JSON.stringify(headers) + text);
  return response;
}

const form = (fields: Record<string, string>, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  body: new URLSearchParams(fields),
  headers,
});
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const json = (token: string, body: unknown, method = 'POST'): RequestInit => ({
  method,
  headers: { ...bearer(token), 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

/** Sends a request with a token whose session was ended; every replica hears of that within a second. */
async function hearEnd(what: string, token: string): Promise<void> {
  const headers = bearer(token);
  await until('the session is rejected', async () => !(await fetch(`${gateway.url}/v1/models`, { headers })).ok);
  await hear(what, '/v1/models', { headers }, 401);
}

async function begin(): Promise<BegunSignIn> {
  const begun = await beginSignIn(gateway.url);
  plant('a device code', begun.device_code);
  plant('a user code', begun.user_code);
  return begun;
}

/** Confirms a code. Returns where the browser is sent, and the cookie it must bring back. */
async function leave(user_code: string): Promise<{ url: URL; cookie: string }> {
  const init = form({ user_code, action: 'approve' }, { origin: gateway.url });
  const response = await fetch(`${gateway.url}/device`, { ...init, redirect: 'manual' });
  assert.equal(response.status, 303, await response.text());
  const url = new URL(response.headers.get('location') ?? '');
  plant('a state', url.searchParams.get('state'));
  plant('a nonce', url.searchParams.get('nonce'));
  const cookie = response.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  plant('the cookie of a sign-in', cookie.slice(cookie.indexOf('=') + 1));
  return { url, cookie };
}

async function comeBack(what: string, callback: URL, cookie: string, expected?: number): Promise<Response> {
  const code = callback.searchParams.get('code');
  if (code !== null) plant('an authorization code', code);
  return hear(what, callback.pathname + callback.search, { headers: { cookie } }, expected);
}

/** Signs a user in at the provider, whatever the gateway makes of it. */
async function walk(what: string, sub: string, expected?: number): Promise<BegunSignIn> {
  const begun = await begin();
  const { url, cookie } = await leave(begun.user_code);
  await comeBack(what, await approveAt(url, sub), cookie, expected);
  return begun;
}

async function tokensOf(response: Response): Promise<TokenAnswer['body']> {
  const body = (await response.json()) as TokenAnswer['body'];
  assert.equal(response.status, 200, JSON.stringify(body));
  plant('a session token', body.access_token);
  plant('a refresh token', body.refresh_token);
  return body;
}

const askForToken = (fields: Record<string, string>) => fetch(`${gateway.url}/oauth/token`, form(fields));

async function signIn(sub: string): Promise<TokenAnswer['body']> {
  const { device_code } = await walk(`the callback of ${sub}`, sub, 200);
  return tokensOf(await askForToken(pollWith(device_code)));
}

/** Lets the provider misbehave at an endpoint during an action. */
async function during(mode: Mode, endpoint: Endpoint, work: () => Promise<unknown>): Promise<void> {
  provider.setMode(mode, endpoint);
  const before = provider.requests.length;
  let is_over = false;
  try {
    const working = work().finally(() => {
      is_over = true;
    });
    const is_asked = () => provider.requests.slice(before).some((request) => request.endpoint === endpoint);
    await until('the provider gets a request', () => is_asked() || is_over);
    if (mode === 'hang') clock.advance(LONGER_THAN_IT_MAY_TAKE_MS);
    await working;
  } finally {
    provider.setMode('up');
  }
}

/** Removes a table during an action: the failure of a statement with its parameters. */
async function without(table: string, work: () => Promise<unknown>): Promise<void> {
  const rename = (from: string, to: string) => gateway.database.knex.raw(`alter table ${from} rename to ${to}`);
  await rename(table, 'taken_away');
  try {
    await work();
  } finally {
    await rename('taken_away', table);
    await until('the database is ready again', async () => (await fetch(`${gateway.url}/readyz`)).ok);
  }
}

const WRITTEN = ['sessions', 'refresh_tokens', 'device_grants', 'admin_changes', 'principals', 'access_tokens'];
const COMMANDS = [
  'check --live',
  'tokens list --json',
  'sessions list --json',
  'audit changes --json',
  'audit tail',
  'usage --json',
];
const LONGER_THAN_IT_MAY_TAKE_MS = 30_000;
const MODES: readonly Mode[] = ['down', 'error500', 'garbage', 'hang'];

async function beginBadly(): Promise<void> {
  const { device_code, user_code, verification_uri_complete } = await begin();
  const { pathname, search } = new URL(verification_uri_complete);
  assert.equal((await fetch(`${gateway.url}${pathname}${search}`)).status, 200);
  const approve = { user_code, action: 'approve' };
  await hear('a form from elsewhere', '/device', form(approve, { origin: 'https://evil.example' }));
  await hear('a form with too much', `/device?x=${user_code}`, form({ ...approve, user_code: `${user_code}-X` }));
  await hear('a pending poll', '/oauth/token', form(pollWith(device_code)), 400);
  await hear('a hasty poll', '/oauth/token', form(pollWith(device_code)));
  await hear('a poll with half a code', '/oauth/token', form(pollWith(device_code.slice(0, -1))), 400);
  await hear('a code in the query', `/oauth/token?device_code=${device_code}`, form({}), 400);
  await hear('a code given twice', '/oauth/token', {
    method: 'POST',
    body: `grant_type=x&device_code=${device_code}&device_code=${device_code}`,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
  await hear('a code as JSON', '/oauth/token', json('none', { device_code }), 400);
  await hear('a code at a wrong path', `/nowhere/${device_code}`, {}, 404);
  await without('device_grants', () => hear('a poll without its table', '/oauth/token', form(pollWith(device_code))));
  await hear('a form that denies', '/device', form({ user_code, action: 'deny' }, { origin: gateway.url }), 200);
  await hear('a denied poll', '/oauth/token', form(pollWith(device_code)), 400);
}

async function comeBackBadly(): Promise<void> {
  const { user_code } = await begin();
  const { url, cookie } = await leave(user_code);
  const callback = await approveAt(url, 'anna');
  await comeBack('a callback without the cookie', callback, 'a=b', 400);
  const other = await leave((await begin()).user_code);
  await comeBack('a callback of another browser', callback, other.cookie, 400);
  const tampered = new URL(callback);
  tampered.searchParams.set('code', `${callback.searchParams.get('code')}x`);
  await comeBack('a callback with another code', tampered, cookie);
  await comeBack('a callback that comes again', callback, cookie, 400);
  const no = await leave((await begin()).user_code);
  await comeBack('a callback that says no', await denyAt(no.url, createBrowser()), no.cookie, 403);
  await walk('the callback of a user in no allowed group', 'ben', 403);
  await walk('the callback of a user without a verified address', 'cleo', 403);
  for (const mode of MODES) {
    const left = await leave((await begin()).user_code);
    const back = await approveAt(left.url, 'anna');
    await during(mode, 'token', () => comeBack(`a callback while the provider is ${mode}`, back, left.cookie));
  }
  const left = await leave((await begin()).user_code);
  const back = await approveAt(left.url, 'anna');
  await without('device_grants', () => comeBack('a callback without its table', back, left.cookie));
}

async function refreshBadly(): Promise<void> {
  const anna = await signIn('anna');
  const refresh = (what: string, token: string, status?: number) =>
    hear(what, '/oauth/token', form(refreshWith(token)), status);
  await refresh('a refresh token with a slip', `${anna.refresh_token}x`, 401);
  for (const mode of MODES) {
    await during(mode, 'token', () => refresh(`a refresh while the provider is ${mode}`, anna.refresh_token, 503));
  }
  await without('refresh_tokens', () => refresh('a refresh without its table', anna.refresh_token));
  const renewed = await tokensOf(await askForToken(refreshWith(anna.refresh_token)));
  const newest = await tokensOf(await askForToken(refreshWith(renewed.refresh_token)));
  await refresh('a refresh token whose successor was used', anna.refresh_token, 503);
  await refresh('that refresh token once more', anna.refresh_token, 401);
  await hear('the end of a session', '/oauth/revoke', form({ token: newest.refresh_token }), 200);
  await refresh('a refresh of an ended session', newest.refresh_token, 401);
  await hearEnd('a token of an ended session', newest.access_token);

  const dan = await signIn('dan');
  provider.people.get('dan')!.groups = ['marketing'];
  await refresh('a refresh of a user who left the group', dan.refresh_token, 401);
  provider.people.get('dan')!.groups = ['engineering'];
  const again = await signIn('dan');
  provider.people.delete('dan');
  await refresh('a refresh of a deleted user', again.refresh_token, 401);
}

async function useBadly(): Promise<void> {
  const { access_token, refresh_token } = await signIn('anna');
  const request = { model: 'coder-1', max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] };
  await hear('a request', '/v1/messages', json(access_token, request), 200);
  await hear('a token that was changed', '/v1/messages', json(`${access_token}x`, request), 401);
  await hear('a refresh token as a bearer', '/v1/messages', json(refresh_token, request), 401);
  await hear('a token in the query', `/v1/messages?token=${access_token}`, json('none', request), 401);
  await hear('an unknown model', '/v1/messages', json(access_token, { ...request, model: 'none' }), 404);

  const made = await fetch(`${gateway.url}/admin/api/tokens`, json(access_token, { name: 'laptop', group: 'all' }));
  const { id, token } = (await made.json()) as { id: string; token: string };
  plant('an access token', token);
  const rotated = await fetch(`${gateway.url}/admin/api/tokens/${id}/rotate`, json(access_token, {}));
  plant('a rotated access token', ((await rotated.json()) as { token: string }).token);
  await hear('a token that is no person', '/admin/api/me', { headers: bearer(token) }, 403);
  await hear('a body that is too curious', '/admin/api/tokens', json(access_token, { [refresh_token]: token }), 400);
  await hear(
    'a body that is broken',
    '/admin/api/tokens',
    { ...json(access_token, ''), body: `{"name":"${token}` },
    400,
  );
  await hear('a token for an id', `/admin/api/tokens/${token}`, { headers: bearer(access_token) }, 404);
  for (const list of ['me', 'tokens', 'sessions', 'changes']) {
    await hear(`the list ${list}`, `/admin/api/${list}`, { headers: bearer(access_token) }, 200);
  }
  await without('admin_changes', () =>
    hear('a change without its table', '/admin/api/tokens', json(access_token, { name: 'x', group: 'all' })),
  );
  await hear('a revocation of nothing', '/oauth/revoke', form({ token: `${refresh_token}x` }), 200);
  await hear('a revocation of an access token', '/oauth/revoke', form({ token }));
  await hear('a revocation', '/oauth/revoke', form({ token: access_token }), 200);
  await hearEnd('a revoked session token', access_token);
}

/** A secret that only the provider got, and only it may know. */
function plantWhatTheProviderSaw(): void {
  const bodies = provider.requests.filter(({ endpoint }) => endpoint === 'token').map(({ body }) => body);
  const forms = bodies.map((body) => new URLSearchParams(body));
  for (const name of ['code_verifier', 'refresh_token', 'code']) {
    const sent = new Set(forms.flatMap((sent) => sent.get(name) ?? []));
    assert.ok(sent.size > 0, `the provider was sent a ${name}`);
    for (const secret of sent) plant(`a ${name} of the provider`, secret);
  }
  const headers = new Set(provider.requests.flatMap((request) => request.headers.authorization ?? []));
  for (const header of headers) plant('what the provider was sent in a header', header.split(' ').at(-1));
}

test('no secret of sign-in is in any log record, response, output or table', async () => {
  plant('the client secret', provider.client_secret);
  plant('the signing key', SIGNING_KEY);
  plant('the previous signing key', PREVIOUS_KEY);
  plant("the upstream's key", UPSTREAM_KEY);
  plant('the database password', new URL(gateway.env.TEST_DATABASE_URL!).password);
  plant("the caller's access token", gateway.token);
  for (const mode of MODES) {
    const { user_code } = await begin();
    const approval = form({ user_code, action: 'approve' }, { origin: gateway.url });
    await during(mode, 'discovery', () => hear(`a code while the provider is ${mode}`, '/device', approval));
  }
  await beginBadly();
  await comeBackBadly();
  await refreshBadly();
  await useBadly();
  plantWhatTheProviderSaw();

  const { config_file, env, logs } = gateway;
  const with_config = ['--config', config_file];
  for (const command of COMMANDS) {
    const { stdout, stderr } = await cli([...command.split(' '), ...with_config], { env });
    assert.ok(stdout + stderr !== '', `${command} says something`);
    search.look(`the output of ${command}`, stdout + stderr);
  }
  search.look('the log', logs.join('\n'));
  await collector.point('gateway.sign_ins');
  await collector.span('that of a sign-in', ({ name }) => name === 'gateway.sign_in');
  search.look('the telemetry', collector.wire());
  const tables: { table_name: string }[] = await gateway.database
    .knex('information_schema.tables')
    .where({ table_schema: 'public', table_type: 'BASE TABLE' })
    .select('table_name');
  for (const { table_name } of tables) {
    const rows = await gateway.database.knex(table_name).select('*');
    assert.ok(rows.length > 0 || !WRITTEN.includes(table_name), `there is something in ${table_name}`);
    search.look(`the table ${table_name}`, rowsAsText(rows));
  }
  assert.match(logs.join('\n'), /anna@example\.com.*dan@example\.com/s, 'there is a log to look at');
  assert.ok(search.planted() > 100, `there are ${search.planted()} secrets to look for`);
  // A user code is what the pages of its own sign-in are about, and by what its grant is found.
  const own =
    /^the (table device_grants|answer to (a (form|code while|callback while|callback with another code|callback that says no)|the callback of a user))/;
  const found = search.found().filter(({ what, place }) => !(what === 'a user code' && own.test(place)));
  assert.deepEqual(found, []);
});
