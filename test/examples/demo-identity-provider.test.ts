import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { get, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, afterEach, before, mock, test } from 'node:test';
import { type DemoIdentityProvider, startIdentityProvider } from '../../examples/demo/identity-provider.ts';
import { openIdentityStore } from '../../examples/demo/identity-store.ts';
import { loginPage } from '../../examples/demo/login-page.ts';
import { freePort } from '../support/free-port.ts';
import { type Browser, createBrowser } from '../support/identity/browser-by-fetch.ts';
import { ownDirectory } from '../support/own-directory.ts';

const CLIENT = {
  client_id: 'demo-gateway',
  client_secret: 'demo-client-secret',
  redirect_uri: 'http://127.0.0.1:8080/oauth/callback',
};
const BASIC = `Basic ${Buffer.from(`${CLIENT.client_id}:${CLIENT.client_secret}`).toString('base64')}`;
const VERIFIER = randomBytes(32).toString('base64url');
const printed = (['log', 'info', 'warn', 'error'] as const).map((level) => mock.method(console, level));

const directory = ownDirectory();
let issuer: string;
let provider: DemoIdentityProvider;

const start = () => startIdentityProvider(issuer, CLIENT, join(directory, 'state', 'identity.json'));
before(async () => {
  issuer = `http://127.0.0.1:${await freePort()}`;
  provider = await start();
});
after(async () => {
  mock.restoreAll();
  await provider.close();
});
afterEach(() => {
  for (const { mock } of printed) assert.deepEqual(mock.calls, [], 'it prints nothing');
});

function authorizationUrl(): URL {
  const url = new URL('/auth', issuer);
  const code_challenge = createHash('sha256').update(VERIFIER).digest('base64url');
  const { client_id, redirect_uri } = CLIENT;
  const scope = 'openid profile email offline_access';
  const asked = { client_id, redirect_uri, scope, response_type: 'code', state: 'state-1', nonce: 'nonce-1' };
  for (const [key, value] of Object.entries({ ...asked, code_challenge, code_challenge_method: 'S256' })) {
    url.searchParams.set(key, value);
  }
  return url;
}

/** Opens the page on which to pick a user. */
async function openPage(browser: Browser): Promise<{ url: URL; page: Response }> {
  const { headers } = await browser.request(authorizationUrl());
  const url = new URL(headers.get('location') ?? '', issuer);
  return { url, page: await browser.request(url) };
}

/** Fills the page in, and follows until the provider sends the browser away. */
async function fillIn(form: Record<string, string>, browser = createBrowser()): Promise<URL> {
  const { url } = await openPage(browser);
  let response = await browser.submit(url, form);
  for (let hops = 0; hops < 5; hops++) {
    const next = new URL(response.headers.get('location') ?? '', issuer);
    if (next.origin !== issuer) return next;
    response = await browser.request(next);
  }
  throw new Error('the provider never sent the browser away');
}

/** Asks on a connection of its own: one that was kept would break when the provider is started again. */
async function askForTokens(form: Record<string, string>): Promise<{ status: number; body: Record<string, string> }> {
  const headers = { authorization: BASIC, 'content-type': 'application/x-www-form-urlencoded' };
  const sent = request(`${issuer}/token`, { method: 'POST', agent: false, headers });
  sent.end(new URLSearchParams(form).toString());
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: JSON.parse(await text(response)) };
}

const redeem = (callback: URL) =>
  askForTokens({
    grant_type: 'authorization_code',
    code: callback.searchParams.get('code') ?? '',
    redirect_uri: CLIENT.redirect_uri,
    code_verifier: VERIFIER,
  });

const claimsOf = (token = ''): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

test('the chosen user signs in, with groups, without a password', async () => {
  const { page } = await openPage(createBrowser());
  const html = await page.text();
  assert.equal(page.status, 200);
  assert.match(page.headers.get('content-security-policy') ?? '', /form-action 'self' http:\/\/127\.0\.0\.1:8080;/);
  for (const { name, email } of provider.people) assert.ok(html.includes(`${name}, ${email}`));

  const callback = await fillIn({ person: 'alice' });
  assert.equal(callback.origin + callback.pathname, CLIENT.redirect_uri);
  assert.equal(callback.searchParams.get('state'), 'state-1');
  const { status, body } = await redeem(callback);
  assert.equal(status, 200, JSON.stringify(body));
  assert.partialDeepStrictEqual(claimsOf(body.id_token), {
    sub: 'alice',
    email: 'alice@example.com',
    email_verified: true,
    groups: ['engineering', 'platform-admins'],
    nonce: 'nonce-1',
    iss: issuer,
  });
});

test('asks the same browser each time, so that a visitor can switch users', async () => {
  const browser = createBrowser();
  for (const person of ['alice', 'bob']) {
    const { body } = await redeem(await fillIn({ person }, browser));
    assert.equal(claimsOf(body.id_token).sub, person);
  }
});

test('a refresh token outlives a restart, in a private file', async () => {
  const { body } = await redeem(await fillIn({ person: 'bob' }));
  const refresh_token = body.refresh_token ?? '';
  assert.notEqual(refresh_token, '');
  await provider.close();
  provider = await start();
  const again = await askForTokens({ grant_type: 'refresh_token', refresh_token });
  assert.equal(again.status, 200, JSON.stringify(again.body));
  assert.deepEqual(claimsOf(again.body.id_token).groups, ['interns']);
  const { mode } = await stat(join(directory, 'state', 'identity.json'));
  assert.equal(mode & 0o777, 0o600);
});

test('a broken state file is begun anew', async () => {
  const file = join(directory, 'broken', 'identity.json');
  await openIdentityStore(file)('Grant').upsert('one', { accountId: 'alice' }, 60);
  assert.match(await readFile(file, 'utf8'), /alice/);
  await writeFile(file, '{"Grant:one"');
  assert.equal(await openIdentityStore(file)('Grant').find('one'), undefined);
});

test('a cancelled sign-in returns a denial', async () => {
  const callback = await fillIn({ cancel: 'yes' });
  assert.equal(callback.searchParams.get('error'), 'access_denied');
  assert.equal(callback.searchParams.get('code'), null);
});

test('strangers, other browsers and other names for the address get nowhere', async () => {
  const browser = createBrowser();
  const { url } = await openPage(browser);
  const stranger = await browser.submit(url, { person: 'mallory<script>' });
  assert.equal(stranger.status, 400);
  assert.doesNotMatch(await stranger.text(), /mallory/);
  const elsewhere = await createBrowser().submit(url, { person: 'alice' });
  assert.equal(elsewhere.status, 400);
  assert.match(await elsewhere.text(), /another browser/);
  await assert.rejects(browser.submit(url, { person: 'x'.repeat(10_000) }));
  const renamed = await new Promise<number | undefined>((resolve, reject) => {
    const headers = { host: 'rebound.example.com' };
    get(`${issuer}/jwks`, { headers }, ({ statusCode }) => resolve(statusCode)).on('error', reject);
  });
  assert.equal(renamed, 421);
  const misdirected = authorizationUrl();
  misdirected.searchParams.set('redirect_uri', 'https://elsewhere.example/oauth/callback');
  const refused = await browser.request(misdirected);
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /This sign-in cannot continue.*redirect_uri/s);
});

test('reports a port in use by its code', async () => {
  await assert.rejects(start(), { code: 'EADDRINUSE' });
});

test('names are shown, never executed', () => {
  const html = loginPage([
    { sub: '"><x', name: '<b>B</b>', email: 'a&b@example.com', groups: ['<g>'], is: 'a "test"' },
  ]);
  assert.doesNotMatch(html, /<b>|<x|<g>/);
  assert.match(html, /&lt;b&gt;B&lt;\/b&gt;, a&amp;b@example\.com/);
});
