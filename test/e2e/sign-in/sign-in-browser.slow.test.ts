import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import type { Clock } from '../../../engine/api.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { freePort } from '../../support/free-port.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import {
  approveAt,
  createBrowser,
  PEOPLE,
  startIdentityProvider,
  type TestIdentityProvider,
  type TestPerson,
} from '../../support/identity/identity-provider.ts';
import { focusIsVisible } from '../../support/identity/page-checks.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const NOTICE = 'Use is logged.';

interface Grant {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
}

const browser = useBrowser();
let provider: TestIdentityProvider;
let upstream: ScriptedUpstream;
let gateway: TestGateway;
/** A site that wishes the gateway's people no good. */
let stranger: Server;
let stranger_url = '';
let stranger_page = '';
/** Public URL of the gateway. */
let url = '';

/** The machine's time and what a test adds to it: the identity provider has no other clock. */
let ahead_ms = 0;
const clock: Clock = { ...systemClock, now: () => Date.now() + ahead_ms };

before(async () => {
  // Another site than the gateway's, as it is in real life: cookies that are too strict would not come back.
  provider = await startIdentityProvider({ host: 'localhost' });
  upstream = await startUpstream();
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  provider.register(`${url}/oauth/callback`);
  gateway = await bootGateway({
    upstream_url: upstream.url,
    clock,
    env: { TEST_OIDC_SECRET: provider.client_secret },
    config: {
      server: { listen: `127.0.0.1:${port}`, public_url: url },
      auth: {
        login_notice: NOTICE,
        oidc: {
          issuer_url: provider.issuer,
          client_id: provider.client_id,
          client_secret_env: 'TEST_OIDC_SECRET',
          allowed_groups: ['engineering'],
        },
        limits: { device_authorizations: 1000, code_submissions: 1000 },
      },
    },
  });
  stranger = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html>${stranger_page}`);
  });
  await once(stranger.listen(0, '127.0.0.1'), 'listening');
  stranger_url = `http://localhost:${(stranger.address() as AddressInfo).port}/`;
});

after(async () => {
  stranger?.closeAllConnections();
  stranger?.close();
  await gateway?.close();
  await upstream?.close();
  await provider?.close();
});

beforeEach(() => {
  ahead_ms = 0;
  provider.setMode('up');
  provider.requests.length = 0;
  for (const [sub, person] of Object.entries(PEOPLE)) provider.people.set(sub, structuredClone<TestPerson>(person));
});

async function post(
  path: string,
  form: Record<string, string>,
): Promise<{ status: number; body: Record<string, string> }> {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    body: new URLSearchParams(form),
    headers: { 'user-agent': 'acme-cli/2.1 (linux)' },
  });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
}

async function begin(): Promise<Grant> {
  const { status, body } = await post('/oauth/device_authorization', {});
  assert.equal(status, 200);
  return body as unknown as Grant;
}

const poll = ({ device_code }: Grant) => post('/oauth/token', { grant_type: DEVICE_GRANT, device_code });

async function models(token: string): Promise<number> {
  const response = await fetch(`${url}/v1/models?limit=1000`, { headers: { authorization: `Bearer ${token}` } });
  await response.arrayBuffer();
  return response.status;
}

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();

/** Waits for the page with a heading, and fails with the heading of the page that came instead. */
async function arrive(page: Page, heading: string): Promise<void> {
  const there = page.getByRole('heading', { level: 1, name: heading, exact: true });
  await there.waitFor({ timeout: 10_000 }).catch(async () => {
    assert.equal(await page.locator('body').textContent(), heading, page.url());
  });
}

const told = async (page: Page, role: 'alert' | 'status' | 'main') => (await page.getByRole(role).textContent()) ?? '';

/** From the terminal's link to the page after the identity provider. */
async function signIn(page: Page, grant: Grant, person: string): Promise<void> {
  await page.goto(grant.verification_uri_complete);
  await press(page, 'Continue to sign in');
  await press(page, `Sign in as ${person}`);
}

describe('signing in with a browser', () => {
  it('goes all the way without JavaScript: confirm, sign in, use, refresh, revoke', async () => {
    const { page, context, complaints, requested } = await browser.open({ javaScriptEnabled: false });
    const grant = await begin();
    await page.goto(grant.verification_uri_complete);
    await arrive(page, 'Is this you signing in?');
    const shown = await told(page, 'main');
    for (const text of [grant.user_code, 'acme-cli/2.1', '127.0.0.1', NOTICE]) assert.ok(shown.includes(text), text);

    await press(page, 'Continue to sign in');
    await page.getByRole('button', { name: 'Sign in as anna' }).waitFor();
    const [cookie] = await context.cookies(url);
    assert.deepEqual([cookie?.httpOnly, cookie?.sameSite, cookie?.path], [true, 'Lax', '/']);
    await press(page, 'Sign in as anna');
    await arrive(page, 'You are signed in');
    assert.match(await told(page, 'status'), /acme-cli\/2\.1 now works as anna@example\.com/);
    assert.deepEqual(complaints, []);
    const origins = new Set(requested.filter((text) => !text.startsWith('data:')).map((text) => new URL(text).origin));
    assert.deepEqual(origins, new Set([url, provider.issuer]));

    const { status, body: tokens } = await poll(grant);
    assert.equal(status, 200);
    assert.equal(tokens.email, 'anna@example.com');
    assert.equal(await models(tokens.access_token ?? ''), 200);
    const refreshed = await post('/oauth/token', {
      grant_type: 'refresh_token',
      refresh_token: tokens.refresh_token ?? '',
    });
    assert.equal(refreshed.status, 200);
    assert.equal(await models(refreshed.body.access_token ?? ''), 200);
    await post('/oauth/revoke', { token: refreshed.body.access_token ?? '' });
    await until('the session is over', async () => (await models(refreshed.body.access_token ?? '')) === 401);
  });

  it('needs no mouse, and takes the code in small letters without its dash', async () => {
    const { page } = await browser.open();
    const grant = await begin();
    await page.goto(grant.verification_uri);
    await page.locator('#user_code:focus').waitFor();
    await page.keyboard.type(grant.user_code.toLowerCase().replace('-', ' '));
    await page.keyboard.press('Enter');
    await arrive(page, 'Is this you signing in?');
    await page.keyboard.press('Tab');
    assert.equal(await focusIsVisible(page), true);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Sign in as anna' }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await arrive(page, 'You are signed in');
    assert.equal((await poll(grant)).status, 200);
  });
});

describe('somebody who may not sign in is told so in the browser, and the terminal too', () => {
  it('because of their groups', async () => {
    const { page } = await browser.open();
    const grant = await begin();
    await signIn(page, grant, 'ben');
    await arrive(page, 'Access denied');
    assert.match(await told(page, 'alert'), /group/);
    assert.equal((await poll(grant)).body.error, 'access_denied');
  });
});

describe('a sign-in that does not go to plan', () => {
  it('is over ten minutes after it began, wherever it was', async () => {
    const { page } = await browser.open();
    const grant = await begin();
    await page.goto(grant.verification_uri_complete);
    ahead_ms = 601_000;
    await press(page, 'Continue to sign in');
    assert.match(await told(page, 'alert'), /older than ten minutes/);
    assert.equal((await poll(grant)).body.error, 'expired_token');
  });

  it('begins again from the page that says the identity provider is down', async () => {
    const { page } = await browser.open();
    const grant = await begin();
    provider.setMode('error500', 'token');
    await signIn(page, grant, 'anna');
    await arrive(page, 'The identity provider does not answer');
    assert.equal((await poll(grant)).body.error, 'authorization_pending');
    provider.setMode('up');
    await page.getByRole('link', { name: 'Try again' }).click();
    await press(page, 'Continue to sign in');
    await arrive(page, 'You are signed in');
    assert.equal((await poll(grant)).status, 200);
  });

  it('is not repeated by loading its last page again', async () => {
    const { page } = await browser.open();
    const grant = await begin();
    await signIn(page, grant, 'anna');
    await arrive(page, 'You are signed in');
    await page.reload();
    await arrive(page, 'You are signed in');
    assert.match(await told(page, 'status'), /anna@example\.com/);
    const { status, body } = await poll(grant);
    assert.equal(status, 200);
    await page.reload();
    await arrive(page, 'You are signed in');
    assert.equal(provider.requests.filter(({ endpoint }) => endpoint === 'token').length, 1);
    assert.equal((await poll(grant)).body.refresh_token, body.refresh_token, 'no other session was made');
  });

  it('does not disturb another one that is under way in the same browser', async () => {
    const { page, context } = await browser.open();
    const other = await context.newPage();
    const [first, second] = [await begin(), await begin()];
    await page.goto(first.verification_uri_complete);
    await other.goto(second.verification_uri_complete);
    await press(page, 'Continue to sign in');
    await page.getByRole('button', { name: 'Sign in as anna' }).waitFor();
    await press(other, 'Continue to sign in');
    await press(other, 'Sign in as anna');
    await arrive(other, 'You are signed in');
    await press(page, 'Sign in as anna');
    await arrive(page, 'You are signed in');
    for (const grant of [first, second]) assert.equal((await poll(grant)).status, 200);
  });
});

describe('another site', () => {
  it("can't have a browser finish a sign-in that began in another one", async () => {
    const grant = await begin();
    const theirs = createBrowser();
    const form = { user_code: grant.user_code, action: 'approve' };
    const away = await theirs.submit(`${url}/device`, form);
    const callback = await approveAt(away.headers.get('location') ?? '', 'anna', theirs);

    const { page } = await browser.open();
    await page.goto(callback.href);
    await arrive(page, 'There is no sign-in to finish here');
    assert.equal((await poll(grant)).body.error, 'authorization_pending');
  });

  it("can't have a browser confirm a code", async () => {
    const grant = await begin();
    stranger_page = `<form method="post" action="${url}/device"><input name="user_code" value="${grant.user_code}"><button>Win</button></form>`;
    const { page } = await browser.open();
    await page.goto(stranger_url);
    await press(page, 'Win');
    await arrive(page, 'This form came from elsewhere');
    assert.equal((await poll(grant)).body.error, 'authorization_pending');
    assert.equal(provider.requests.filter(({ endpoint }) => endpoint === 'authorization').length, 0);
  });

  it("can't show the page inside its own", async () => {
    const grant = await begin();
    stranger_page = `<iframe src="${grant.verification_uri_complete}"></iframe>`;
    const { page, complaints } = await browser.open();
    await page.goto(stranger_url, { waitUntil: 'load' });
    assert.equal(await page.frameLocator('iframe').getByRole('heading').count(), 0);
    assert.match(complaints.join(), /frame-ancestors|X-Frame-Options/i);
  });
});
