/** The pages of limits and of tokens, in a real browser. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { createToken } from '../../../engine/domain/identity/tokens/tokens.ts';
import { count } from '../../http/admin/limits-config.ts';
import { until } from '../../support/until.ts';
import { useConsole } from './scene.ts';

const USD = 1_000_000_000;
const DAY_MS = 86_400_000;

const site = useConsole();

/** Records spending in this window and the next, which may begin at any moment. */
async function spend(scope: 'user' | 'team', key: string, window: 'day' | 'month', usd: number): Promise<void> {
  const starts = [Date.now(), Date.now() + DAY_MS].map((at) =>
    new Date(at).toISOString().slice(0, window === 'day' ? 10 : 7),
  );
  for (const start of new Set(starts)) {
    const day = window === 'day' ? start : `${start}-01`;
    await count(site.gateway.database, { scope, key, window, start: `${day}T00:00:00Z`, spent: usd * USD });
  }
}

const textOf = async (page: Page | Locator, region: string | RegExp) =>
  (await page.getByRole('region', { name: region }).textContent()) ?? '';
const dialog = (page: Page, name: string | RegExp) => page.getByRole('dialog', { name });
const statusWith = async (token: string) =>
  (await fetch(`${site.gateway.url}/v1/models`, { headers: { authorization: `Bearer ${token}` } })).status;

describe('the page of tokens', () => {
  it('creates a working token, and shows it once', async () => {
    const { page, complaints } = await site.open(site.newPerson().sub, '/console/tokens');
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
      /^npx --yes http:\/\/127\.0\.0\.1:\d+\/client\.tgz client build-cli --model mapped-1 --api-key-env GATEWAY_TOKEN$/,
    );
    await shown.getByRole('button', { name: 'I have it' }).click();
    await page.getByRole('row', { name: /laptop/ }).waitFor();
    assert.ok(!(await page.content()).includes(token.slice(8)));
    assert.deepEqual(complaints, []);
  });

  it('replaces a token, and revokes it with its predecessor', async () => {
    const { sub, email } = site.newPerson();
    const old = await createToken(site.by, {
      user: email,
      group: 'mapped-only',
      name: 'desk',
      self_service: true,
    });
    const { page } = await site.open(sub, '/console/tokens?search=desk');
    await page.getByRole('button', { name: 'Rotate desk' }).click();
    await page.getByRole('button', { name: 'Create the new token' }).click();
    const token = await textOf(page, 'The new token');
    assert.deepEqual([await statusWith(token), await statusWith(old.token)], [200, 200]);
    await page.getByRole('button', { name: 'I have it' }).click();
    const newest = page.getByRole('row').filter({ hasText: 'desk' }).filter({ hasText: 'active' });
    await newest.getByRole('button', { name: 'Revoke desk' }).click();
    await page.getByText('are rejected within a second').waitFor();
    await page.getByRole('button', { name: 'Revoke the token' }).click();
    await page.getByText(`Revoked desk of ${email} and the tokens it replaced.`).waitFor();
    await until(
      'both are rejected',
      async () => (await statusWith(token)) === 401 && (await statusWith(old.token)) === 401,
    );
  });

  it('shows administrators service tokens beside the others', async () => {
    const { email } = site.newPerson();
    await createToken(site.by, { user: email, group: 'all', name: 'of-somebody' });
    const { page } = await site.open('anna', `/console/tokens?user=${email}`);
    await page.getByRole('row', { name: /of-somebody/ }).waitFor();
    await page.getByRole('link', { name: 'Service tokens' }).click();
    const shown = page.getByRole('navigation', { name: 'Kinds of tokens' }).locator('[aria-current]');
    assert.deepEqual(await shown.allTextContents(), ['Service tokens']);
    await page.getByRole('button', { name: 'Create a service token' }).click();
    await page.getByLabel('Program').fill('report');
    await page.getByLabel(/see usage and costs/).check();
    await page.getByRole('button', { name: 'Create the token' }).click();
    const token = await textOf(page, 'The new token');
    assert.match(token, /^gws_\w{49}$/);
  });
});

describe('the page of limits', () => {
  it('grants more temporarily by keyboard alone, with a preview', async () => {
    const { email } = site.newPerson();
    await spend('user', email, 'day', 50);
    const { page, complaints } = await site.open('anna', '/console/limits');
    const grant = page.getByRole('button', { name: `Grant more temporarily for ${email} per day` });
    await grant.focus();
    await page.keyboard.press('Enter');
    await page.keyboard.type('20');
    await page.getByText('50 of 70 USD, 20 left').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.type('release week');
    await page.keyboard.press('Enter');
    await page.getByText(`Granted 20 USD more for ${email} per day until `).waitFor();
    const row = page.getByRole('row', { name: `${email} per day` });
    assert.match((await row.textContent()) ?? '', /20 USDrelease weekanna@example\.com/);
    await page.getByRole('button', { name: 'Close' }).click();
    await row.getByRole('button', { name: /Revoke/ }).click();
    await page.getByRole('button', { name: 'Revoke 20 USD' }).click();
    await page.getByText(`Revoked 20 USD for ${email} per day: 0 USD left now.`).waitFor();
    assert.deepEqual(complaints, []);
  });

  it('grants one person more of a shared limit, before anything is spent', async () => {
    const { email } = site.newPerson();
    const { page } = await site.open('anna', `/console/limits?user=${email}&team=search`);
    const counter = `${email} and team search per month`;
    await page.getByRole('button', { name: `Grant more temporarily for ${counter}` }).click();
    await page.getByLabel('Additional amount').fill('5');
    await page.getByLabel('Reason').fill('release week');
    await page.getByRole('button', { name: 'Grant 5 USD' }).click();
    await page.getByText(`Granted 5 USD more for ${counter} until `).waitFor();
    await page.getByText('0 of 5 USD, 5 left').waitFor();
  });

  it('sets a limit, and clears it', async () => {
    const { email } = site.newPerson();
    const { page } = await site.open('anna', `/console/limits?user=${email}`);
    await page.getByRole('button', { name: `Set limit of ${email} per day` }).click();
    await page.getByLabel('New limit in USD').fill('5000000');
    await page.getByLabel('Reason').fill('trial');
    await page.getByRole('button', { name: 'Set limit', exact: true }).click();
    await page.getByRole('alert').getByText('expected a number from 0 up to 4000000').waitFor();
    assert.equal(await page.getByLabel('New limit in USD').getAttribute('aria-invalid'), 'true');
    await page.getByLabel('New limit in USD').fill('7.5');
    await page.getByRole('button', { name: 'Set limit', exact: true }).click();
    await page.getByText('0 of 7.50 USD, 7.50 left').waitFor();
    await page.getByRole('button', { name: /^Remove override/ }).click();
    await page.getByRole('button', { name: 'Remove override', exact: true }).click();
    await page.getByText(`Removed the override of ${email} per day: 50 USD now.`).waitFor();
  });

  it('shows developers their own, with a request for more, whose link opens the grant for administrators', async () => {
    const { sub, email } = site.newPerson({ name: 'Dora Dahl' });
    await spend('user', email, 'day', 2);
    const { page } = await site.open(sub, '/console/limits?user=ben@example.com');
    await page.getByRole('meter', { name: 'Used' }).first().waitFor();
    assert.equal(await page.getByText('ben@example.com').count(), 0);
    assert.equal(await page.getByRole('button', { name: /grant/i }).count(), 0);
    await page.getByRole('button', { name: `Ask for more of ${email} per day` }).click();
    await page.getByLabel('Additional amount').fill('10');
    const message = await textOf(page, 'Message to an administrator');
    const words = `Dora Dahl asks for 10 USD more for ${email} per day. 2 USD of 50 USD are used.\nhttp`;
    assert.equal(message.slice(0, words.length), words);
    const link = new URL(message.split('\n')[1]!);
    const { page: annas } = await site.open('anna', link.pathname + link.search);
    await dialog(annas, 'Grant more temporarily').getByText('2 of 60 USD, 58 left').waitFor();
  });
});
