import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import type { Page } from 'playwright-core';
import { openConsole, signInToConsole } from '../../support/console.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { PEOPLE, startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { overflow } from '../../support/identity/page-checks.ts';
import { bootSignIn, signIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';

const browser = useBrowser();
let provider: TestIdentityProvider;
let gateway: TestGateway;
const HOSTILE = `"><img src=x onerror=document.title='taken'>{{1}}`;

before(async () => {
  const mallory = {
    email: 'mallory@example.com',
    email_verified: true,
    name: HOSTILE,
    groups: [HOSTILE, 'b'.repeat(200)],
  };
  provider = await startIdentityProvider({ host: 'localhost', people: { ...PEOPLE, mallory } });
  gateway = await bootSignIn({
    provider,
    auth: { admin_groups: ['admins'], session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' } },
  });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});

const at = (page: Page) => new URL(page.url()).pathname;

it('an administrator finds somebody, sees what they are signed in with, and ends it', async () => {
  await signIn(gateway.url, 'ben');
  const ben = await signInToConsole(gateway.url, 'ben');
  const { page, complaints } = await browser.open();
  await openConsole(page, gateway.url, 'anna', '/console/people');
  await page.getByLabel('Find somebody').fill('BEN');
  await page.getByLabel('Find somebody').press('Enter');
  await until('nobody else is listed', async () => (await page.getByText('anna@example.com').count()) === 1);
  await page.locator('.frame-side').getByRole('link', { name: 'People' }).click();
  await until('everybody is listed again', async () => (await page.getByText('anna@example.com').count()) > 1);
  assert.equal(await page.getByLabel('Find somebody').inputValue(), '');
  await page.goBack();
  await until('nobody else is listed', async () => (await page.getByText('anna@example.com').count()) === 1);
  assert.equal(await page.getByLabel('Find somebody').inputValue(), 'BEN');
  await page.getByRole('button', { name: /ben@example\.com/ }).click();
  const drawer = page.getByRole('dialog');
  assert.equal(new URL(page.url()).search, '?search=BEN&user=ben%40example.com');
  await drawer.getByRole('button', { name: 'End the session of a browser' }).click();
  await page.getByRole('button', { name: 'End session' }).click();
  await page.getByText('The session has ended.').waitFor();
  assert.equal((await ben.call('GET', '/admin/api/me')).status, 401);
  await drawer.getByRole('button', { name: 'End all sessions' }).click();
  await page.getByText('Signed out within a second: 1 program.').waitFor();
  await page.getByRole('button', { name: 'End all sessions' }).last().click();
  await page.getByText('Ended of ben@example.com: 1 session.').waitFor();
  assert.deepEqual(complaints, []);
});

it('somebody takes away access, by keyboard alone', async () => {
  await signIn(gateway.url, 'ben');
  const { page } = await browser.open();
  await openConsole(page, gateway.url, 'anna', '/console/people?user=ben@example.com');
  await page.getByRole('button', { name: 'Take away access' }).focus();
  await page.keyboard.press('Enter');
  await page.getByLabel('Reason').focus();
  await page.keyboard.type('left the company');
  await page.keyboard.press('Enter');
  await page.getByText(/^Ended of ben@example\.com: /).waitFor();
  await page.keyboard.press('Escape');
  await until('the drawer is closed', () => !page.url().includes('user='));
  const anna = await signInToConsole(gateway.url, 'anna');
  const { changes } = (await anna.call('GET', '/admin/api/changes')).body;
  assert.ok(changes.some(({ after }: { after: { because?: string } | null }) => after?.because === 'left the company'));
});

it('whatever people are called is text, and makes no page wider', async () => {
  await signIn(gateway.url, 'mallory');
  const { page, complaints } = await browser.open({ viewport: { width: 360, height: 740 } });
  await openConsole(page, gateway.url, 'anna', '/console/people');
  await page.getByText(HOSTILE).first().waitFor();
  assert.equal(await overflow(page), 0);
  await page.getByRole('button', { name: /mallory@example\.com/ }).click();
  await page.getByRole('dialog').getByText(HOSTILE).first().waitFor();
  assert.notEqual(await page.title(), 'taken');
  assert.deepEqual(complaints, []);
});

it('a developer sees their own sessions, ends the others, and finds no page of everybody', async () => {
  await signIn(gateway.url, 'ben');
  const { page } = await browser.open();
  await openConsole(page, gateway.url, 'ben', '/console/sessions');
  await page.getByText('This browser').waitFor();
  assert.equal(await page.getByRole('link', { name: 'People' }).count(), 0);
  await page.getByRole('button', { name: 'Sign out everywhere else' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Sign out everywhere else' }).click();
  await page.getByText(/^Ended \d+ sessions?\.$/).waitFor();
  await until('one is left', async () => (await page.getByRole('button', { name: /^End the session/ }).count()) === 1);
  await page.goto(`${gateway.url}/console/people`);
  await page.getByRole('main').waitFor();
  assert.equal(await page.getByText('anna@example.com').count(), 0);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL((url) => url.pathname === '/console/signed-out');
  assert.equal(at(page), '/console/signed-out');
  await page.goto(`${gateway.url}/console/sessions`);
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
});
