/** The frame of the pages: the size of the first one, a lost connection, the end of a session, themes, the menu on a phone. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PACKAGE_ROOT } from '../../../engine/base/kit/package-root.ts';
import { openAs, openConsole } from '../../support/console.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { until } from '../../support/until.ts';
import { useConsole } from './scene.ts';

const FIRST_PAGE_BYTES_MAX = 150_000;
/** Pages are fetched when there is nothing else to do, each with scripts of its own. */
const ALL_PAGES_ARE_THERE = `(async () => {
  const names = performance.getEntriesByType('resource').map(({ name }) => name);
  const scripts = new Set(names.filter((name) => name.endsWith('.js')));
  if (scripts.size < ${readdirSync(join(PACKAGE_ROOT, 'dist/console/assets')).filter((name) => name.endsWith('.js')).length}) return false;
  await Promise.all([...scripts].map((script) => import(script)));
  return true;
})()`;
const PHONE = { viewport: { width: 390, height: 844 } };

const browser = useBrowser();
const site = useConsole();

test(`the first page transfers less than ${FIRST_PAGE_BYTES_MAX} bytes with gzip, all its files together`, async () => {
  for (const sub of ['anna', 'ben']) {
    const { page } = await browser.open({ extraHTTPHeaders: { 'accept-encoding': 'gzip' } });
    // The other pages are fetched when there is nothing else to do.
    await page.addInitScript('window.requestIdleCallback = () => 0');
    const sizes: number[] = [];
    page.on('response', (response) => {
      if (new URL(response.url()).pathname.startsWith('/console')) {
        sizes.push(Number(response.headers()['content-length'] ?? 0));
      }
    });
    await openAs(page, site.gateway.url, sub, '/console');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await until('the first page has loaded', async () => (await page.locator('.skeleton').count()) === 0);
    const bytes = sizes.reduce((sum, each) => sum + each, 0);
    assert.ok(bytes > 50_000 && bytes < FIRST_PAGE_BYTES_MAX, `${sub}: ${bytes} bytes`);
  }
});

test('shows a lost connection, and recovers without a reload', async () => {
  const { page, context } = await site.open('ben', '/console/tokens');
  await page.getByText('laptop').first().waitFor();
  await page.evaluate('window.not_loaded_again = true');
  await until('all pages are there', () => page.evaluate<boolean>(ALL_PAGES_ARE_THERE));
  await context.setOffline(true);
  await page.locator('.frame-side').getByRole('link', { name: 'Limits' }).click();
  await page.getByText('Connection lost').waitFor();
  await context.setOffline(false);
  await page.getByText('Connection lost').waitFor({ state: 'detached' });
  await page.getByRole('heading', { level: 1, name: 'Limits' }).waitFor();
  assert.equal(await page.evaluate('window.not_loaded_again'), true);
});

test('a user signed out elsewhere is shown how to sign in, and returns to the page', async () => {
  const { page } = await browser.open();
  const { sub, email } = site.newPerson();
  await openConsole(page, site.gateway.url, sub, '/console/usage?since=7d');
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
  const admin = await site.signIn('anna');
  const { body } = await admin.call('GET', `/admin/api/sessions?user=${encodeURIComponent(email)}`);
  for (const { id } of body.sessions as { id: string }[]) await admin.call('DELETE', `/admin/api/sessions/${id}`);
  await page.locator('.frame-side').getByRole('link', { name: 'Tokens' }).click();
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.waitForURL((url) => url.pathname !== '/console/sign-in');
  const again = page.getByRole('button', { name: `Sign in as ${sub}` });
  if (await again.isVisible()) await again.click();
  await page.getByRole('heading', { level: 1, name: 'Tokens' }).waitFor();
});

test('a slow response has a skeleton in its place', async () => {
  const { page } = await site.open('ben');
  let response = () => {};
  const blocked = new Promise<void>((resolve) => {
    response = resolve;
  });
  await page.route('**/admin/api/tokens?*', async (route) => {
    await blocked;
    await route.continue();
  });
  await page.locator('.frame-side').getByRole('link', { name: 'Tokens' }).click();
  await page.locator('.skeleton-line').first().waitFor();
  response();
  await page.locator('.skeleton-line').first().waitFor({ state: 'detached' });
});

test("a chosen theme persists after the browser returns, whatever the system's theme", async () => {
  const { page } = await site.open('ben', '/console', { colorScheme: 'light' });
  const ground = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
  const light = await ground();
  await page.locator('.frame-side').getByLabel('Colours').selectOption('dark');
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  await page.getByRole('heading', { level: 1 }).waitFor();
  assert.equal(await ground(), dark);
});

test('on a phone the pages are in a menu that opens, leads on and closes by keyboard', async () => {
  const { page } = await site.open('ben', '/console', PHONE);
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.getByRole('button', { name: 'Pages' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByRole('link', { name: 'Usage' }).press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
});

test('signing out ends the session and shows how to sign in', async () => {
  const { page } = await site.open(site.newPerson().sub);
  await page.locator('.frame-side').getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL((url) => !url.pathname.endsWith('/console'));
  await page.goto(`${site.gateway.url}/console`);
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
});
