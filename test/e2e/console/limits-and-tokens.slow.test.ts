/** The pages of limits and of tokens, in a real browser. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import type { Changing } from '../../../engine/audit/admin-changes.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { count } from '../../http/admin/limits-config.ts';
import { openConsole } from '../../support/console.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { overflow } from '../../support/identity/page-checks.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { seriousFaults } from './axe.ts';

/** What a browser would act upon if a page took it for more than a text. */
const HOSTILE = `<img src=x onerror=document.title='broken'>"'{{7*7}}`;
const USD = 1_000_000_000;

let provider: TestIdentityProvider;
let gateway: TestGateway;
let by: Changing;
const browser = useBrowser();

before(async () => {
  provider = await startIdentityProvider({ host: 'localhost' });
  gateway = await bootSignIn({
    provider,
    auth: { admin_groups: ['admins'], session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'mapped-only' } },
    config: {
      spend_limits: {
        defaults: { user_daily_usd: 50 },
        rules: [{ name: HOSTILE, scope: 'team', window: 'month', limit_usd: 100 }],
      },
    },
  });
  const { database } = gateway;
  by = { database, clock: systemClock, actor: { kind: 'command', name: 'root@host' } };
  const today = `${new Date().toISOString().slice(0, 10)}T00:00:00Z`;
  await count(database, { scope: 'user', key: 'carla@example.com', window: 'day', start: today, spent: 50 * USD });
  await count(database, { scope: 'user', key: 'ben@example.com', window: 'day', start: today, spent: 2 * USD });
  const month = `${today.slice(0, 7)}-01T00:00:00Z`;
  await count(database, { scope: 'team', key: HOSTILE, window: 'month', start: month, spent: 99 * USD });
  await createToken(by, { user: 'machine@example.com', group: HOSTILE, name: HOSTILE, team: HOSTILE });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});

/** A page of the console as somebody sees it. */
async function open(sub: string, path: string) {
  const watched = await browser.open();
  await openConsole(watched.page, gateway.url, sub, path);
  return watched;
}

const textOf = async (page: Page | Locator, region: string | RegExp) =>
  (await page.getByRole('region', { name: region }).textContent()) ?? '';
const dialog = (page: Page, name: string | RegExp) => page.getByRole('dialog', { name });
const statusWith = async (token: string) =>
  (await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${token}` } })).status;

describe('the page of tokens', () => {
  it('makes a token that works, and shows it once', async () => {
    const { page, complaints } = await open('ben', '/console/tokens');
    await page.getByRole('button', { name: 'Create a token', exact: true }).click();
    // The first field has the focus already.
    await page.keyboard.type('laptop');
    await page.keyboard.press('Enter');
    const shown = dialog(page, 'Your new token');
    const token = await textOf(shown, 'The new token');
    assert.match(token, /^gw_\w{49}$/);
    assert.equal(await statusWith(token), 200);
    assert.match(
      await textOf(shown, /Build CLI/),
      /^npx appscli client build-cli --base-url http:\/\/127\.0\.0\.1:\d+ --model mapped-1 --api-key-env GATEWAY_TOKEN$/,
    );
    await shown.getByRole('button', { name: 'I have it' }).click();
    await page.getByRole('row', { name: /laptop/ }).waitFor();
    assert.ok(!(await page.content()).includes(token.slice(8)));
    assert.deepEqual(complaints, []);
  });

  it('puts a new token in the place of one, and revokes it with what it replaced', async () => {
    const old = await createToken(by, {
      user: 'ben@example.com',
      group: 'mapped-only',
      name: 'desk',
      self_service: true,
    });
    const { page } = await open('ben', '/console/tokens?search=desk');
    await page.getByRole('button', { name: 'Rotate desk' }).click();
    await page.getByRole('button', { name: 'Make the new token' }).click();
    const token = await textOf(page, 'The new token');
    assert.deepEqual([await statusWith(token), await statusWith(old.token)], [200, 200]);
    await page.getByRole('button', { name: 'I have it' }).click();
    const newest = page.getByRole('row').filter({ hasText: 'desk' }).filter({ hasText: 'active' });
    await newest.getByRole('button', { name: 'Revoke desk' }).click();
    await page.getByText('is refused within a second').waitFor();
    await page.getByRole('button', { name: 'Revoke the token' }).click();
    await page.getByText('Revoked desk of ben@example.com, and what it replaced.').waitFor();
    await until(
      'both are refused',
      async () => (await statusWith(token)) === 401 && (await statusWith(old.token)) === 401,
    );
  });

  it("is of one's own tokens, and of everybody's for administrators, with service tokens beside them", async () => {
    await createToken(by, { user: 'carla@example.com', group: 'all', name: 'of-carla' });
    const { page: bens } = await open('ben', '/console/tokens?state=all&search=carla');
    await bens.getByText('No token is like that').waitFor();
    assert.equal(await bens.getByText('Service tokens').count(), 0);
    const { page } = await open('anna', '/console/tokens?user=carla@example.com');
    await page.getByRole('row', { name: /of-carla/ }).waitFor();
    await page.getByRole('link', { name: 'Service tokens' }).click();
    const shown = page.getByRole('navigation', { name: 'Kinds of tokens' }).locator('[aria-current]');
    assert.deepEqual(await shown.allTextContents(), ['Service tokens']);
    await page.getByRole('button', { name: 'Create a service token' }).click();
    await page.getByLabel('Which program is it for?').fill('report');
    await page.getByLabel(/see usage and costs/).check();
    await page.getByRole('button', { name: 'Create the token' }).click();
    const token = await textOf(page, 'The new token');
    assert.match(token, /^gws_\w{49}$/);
  });
});

describe('the page of limits', () => {
  it('gives a grant by keyboard alone, after showing what it changes', async () => {
    const { page, complaints } = await open('anna', '/console/limits');
    const give = page.getByRole('button', { name: 'Give a grant for carla@example.com per day' });
    await give.focus();
    await page.keyboard.press('Enter');
    await page.keyboard.type('20');
    await page.getByText('50 of 70 USD, 20 left').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.type('release week');
    await page.keyboard.press('Enter');
    await page.getByText(/^Granted 20 USD more for carla@example\.com per day, until /).waitFor();
    const row = page.getByRole('row', { name: /carla@example\.com per day/ });
    assert.match((await row.textContent()) ?? '', /20 USDrelease weekanna@example\.com/);
    await page.getByRole('button', { name: 'Close' }).click();
    await row.getByRole('button', { name: /Revoke/ }).click();
    await page.getByRole('button', { name: 'Revoke 20 USD' }).click();
    await page.getByText('Revoked 20 USD for carla@example.com per day: 0 USD are left now.').waitFor();
    assert.deepEqual(complaints, []);
  });

  it('sets a limit, and takes it back', async () => {
    const { page } = await open('anna', '/console/limits?user=dora@example.com');
    await page.getByRole('button', { name: 'Set the limit of dora@example.com per day' }).click();
    await page.getByLabel('New limit in USD').fill('7.5');
    await page.getByLabel('Why').fill('trial');
    await page.getByRole('button', { name: 'Set the limit', exact: true }).click();
    await page.getByText('0 of 7.50 USD, 7.50 left').waitFor();
    await page.getByRole('button', { name: /^Take back/ }).click();
    await page.getByRole('button', { name: 'Take it back' }).click();
    await page.getByText('Took back the limit of dora@example.com per day: its limit is 50 USD now.').waitFor();
  });

  it('shows a developer their own, and words to ask for more, whose link opens the grant for administrators', async () => {
    const { page } = await open('ben', '/console/limits?user=carla@example.com');
    await page.getByRole('meter', { name: 'Used' }).first().waitFor();
    assert.equal(await page.getByText('carla').count(), 0);
    assert.equal(await page.getByRole('button', { name: /grant/i }).count(), 0);
    await page.getByRole('button', { name: 'Ask for more of ben@example.com per day' }).click();
    await page.getByLabel('How much more').fill('10');
    const message = await textOf(page, 'Message to an administrator');
    assert.match(
      message,
      /^Ben Brook asks for 10 USD more for ben@example\.com per day\. 2 USD of 50 USD are used\.\nhttp/,
    );
    const link = new URL(message.split('\n')[1]!);
    const { page: annas } = await open('anna', link.pathname + link.search);
    await dialog(annas, 'Give a grant').getByText('2 of 60 USD, 58 left').waitFor();
  });

  it('shows names as the texts they are, whoever chose them', async () => {
    for (const path of [
      '/console/limits',
      '/console/tokens?state=all',
      `/console/limits?team=${encodeURIComponent(HOSTILE)}`,
    ]) {
      const { page, complaints } = await open('anna', path);
      await page.getByText(HOSTILE).first().waitFor();
      assert.notEqual(await page.title(), 'broken');
      assert.deepEqual(complaints, []);
    }
  });
});

it('has nothing serious for axe in any of its dialogs, and fits a phone', async () => {
  const carla = new URLSearchParams({ user: 'carla@example.com', window: 'day', unit: 'usd' }).toString();
  const of_carla = new URLSearchParams({ grant: carla, amount: '5' }).toString();
  const views: Readonly<Record<string, readonly (readonly [path: string, button?: string | RegExp])[]>> = {
    anna: [
      ['/console/limits?grant=new'],
      [`/console/limits?${of_carla}`],
      ['/console/limits?user=carla@example.com', /^Set the limit of .* per day/],
      ['/console/tokens?create=token', 'Create the token'],
      ['/console/tokens?tab=service&create=service'],
      ['/console/tokens?user=carla@example.com', 'Revoke of-carla'],
    ],
    ben: [['/console/limits', /^Ask for more of ben@example\.com per day/]],
  };
  for (const [sub, shown] of Object.entries(views)) {
    const { page } = await browser.open({ viewport: { width: 360, height: 800 }, reducedMotion: 'reduce' });
    await openConsole(page, gateway.url, sub);
    for (const [path, button] of shown) {
      await page.goto(gateway.url + path);
      if (path.includes('create=token')) await page.getByLabel('What is it for?').fill('for axe');
      if (button !== undefined) await page.getByRole('button', { name: button }).click();
      await page.getByRole('dialog').waitFor();
      if (path.includes('amount')) await page.getByText('50 of 55 USD, 5 left').waitFor();
      for (const colorScheme of ['dark', 'light'] as const) {
        await page.emulateMedia({ colorScheme });
        assert.equal(await overflow(page), 0, path);
        assert.deepEqual(await seriousFaults(page), [], `${path}, ${colorScheme}`);
      }
    }
  }
});
