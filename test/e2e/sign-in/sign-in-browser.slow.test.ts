import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { useBrowser } from '../../support/identity/browser.ts';
import { focusIsVisible } from '../../support/identity/page-checks.ts';
import { askForToken, type BegunSignIn, pollWith } from '../../support/identity/sign-in.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const NOTICE = 'Use is logged.';

const browser = useBrowser();
// Another site than the gateway's, as in production: cookies that are too strict would not return.
const scene = useSignInScene({ people: { host: 'localhost' }, auth: { login_notice: NOTICE } });
/** Public URL of the gateway. */
let url = '';

before(() => {
  ({ url } = scene.gateway);
});

async function begin(): Promise<BegunSignIn> {
  const headers = { 'user-agent': 'acme-cli/2.1 (linux)' };
  return (await fetch(`${url}/oauth/device_authorization`, { method: 'POST', headers })).json() as Promise<BegunSignIn>;
}

const poll = ({ device_code }: BegunSignIn) => askForToken(url, pollWith(device_code));

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();

/** Waits for the page with a heading, and fails with the heading of the actual page. */
async function arrive(page: Page, heading: string): Promise<void> {
  const there = page.getByRole('heading', { level: 1, name: heading, exact: true });
  await there.waitFor({ timeout: 10_000 }).catch(async () => {
    assert.equal(await page.locator('body').textContent(), heading, page.url());
  });
}

const textOf = async (page: Page, role: 'alert' | 'status' | 'main') =>
  (await page.getByRole(role).textContent()) ?? '';

describe('signing in with a browser', () => {
  it('works completely without JavaScript: confirm, sign in, use', async () => {
    const { page, context, complaints, requested } = await browser.open({ javaScriptEnabled: false });
    const grant = await begin();
    await page.goto(grant.verification_uri_complete);
    await arrive(page, 'Is this you signing in?');
    const shown = await textOf(page, 'main');
    for (const text of [grant.user_code, 'acme-cli/2.1', '127.0.0.1', NOTICE]) assert.ok(shown.includes(text), text);

    await press(page, 'Continue to sign in');
    await page.getByRole('button', { name: 'Sign in as anna' }).waitFor();
    const [cookie] = await context.cookies(url);
    assert.deepEqual([cookie?.httpOnly, cookie?.sameSite, cookie?.path], [true, 'Lax', '/']);
    await press(page, 'Sign in as anna');
    await arrive(page, 'You are signed in');
    assert.match(await textOf(page, 'status'), /acme-cli\/2\.1 now works as anna@example\.com/);
    assert.deepEqual(complaints, []);
    const origins = new Set(requested.filter((text) => !text.startsWith('data:')).map((text) => new URL(text).origin));
    assert.deepEqual(origins, new Set([url, scene.provider.issuer]));

    const { status, body: tokens } = await poll(grant);
    assert.equal(status, 200);
    assert.equal(tokens.email, 'anna@example.com');
    assert.equal(await scene.statusOf(tokens.access_token), 200);
  });

  it('needs no mouse, and accepts the code in small letters without its dash', async () => {
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
