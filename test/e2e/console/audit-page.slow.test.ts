/** The page of changes and rejected sign-ins in a real browser. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { parse } from 'csv-parse/sync';
import type { Page } from 'playwright-core';
import { dayAfter } from '../../../engine/edge/console/ranges.ts';
import { until } from '../../support/until.ts';
import { HOSTILE, useConsole } from './scene.ts';

const site = useConsole();
const openAudit = (sub: string, query = '') => site.open(sub, `/console/audit${query}`);

const sentences = (page: Page) => page.locator('.audit-words').allInnerTexts();

test('an administrator finds a change by its target, reads it fully and exports it, by keyboard alone', async () => {
  const { email } = site.newPerson();
  const anna = await site.signIn('anna');
  await anna.call('POST', '/admin/api/tokens', { user: email, group: 'all', name: 'desk' });
  const room = { user: email, window: 'day', usd: 20, reason: HOSTILE, expires_in_seconds: 86_400 };
  assert.equal((await anna.call('POST', '/admin/api/limits/grants', room)).status, 201);
  const { page, complaints } = await openAudit('anna');
  await page.getByLabel('Subject').focus();
  await page.keyboard.type(email);
  await page.keyboard.press('Enter');
  await page.waitForURL(/subject=person/);
  await page.getByRole('button', { name: 'Show all' }).waitFor();
  const granted = `granted 20 USD more per day to user ${email} until`;
  await page.getByText(granted).first().waitFor();
  // Until the response arrives, the list is the one before.
  let found: string[] = [];
  await until('only changes about them are listed', async () => {
    found = await sentences(page);
    return found.length === 2 && found.every((sentence) => sentence.includes(email));
  });

  const row = page.getByRole('row').filter({ hasText: granted });
  await row.getByRole('button').focus();
  await page.keyboard.press('Enter');
  const drawer = page.getByRole('dialog', { name: 'Limit raised temporarily' });
  assert.ok((await drawer.textContent())!.includes(HOSTILE), 'the reason is there, as text');
  assert.match(new URL(page.url()).searchParams.get('open')!, /^\d+$/);
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'hidden' });

  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'CSV' }).press('Enter'),
  ]);
  assert.equal(download.suggestedFilename(), 'changes.csv');
  const rows: { words: string }[] = parse(await readFile(await download.path()), { columns: true });
  assert.deepEqual(
    rows.map(({ words }) => words),
    found,
  );
  await page.getByRole('button', { name: 'Show all' }).press('Enter');
  await page.waitForURL((url) => url.searchParams.get('subject') === null);
  await page.goBack();
  await page.waitForURL(/subject=person/);
  assert.equal(await page.getByLabel('Subject').inputValue(), email);
  assert.deepEqual(complaints, []);
});

test('a link shows the same list, with days of the time zone of the gateway', async () => {
  const { email } = site.newPerson();
  const anna = await site.signIn('anna');
  const { body } = await anna.call('POST', '/admin/api/tokens', { user: email, group: 'all', name: 'desk' });
  const day = body.created_at.slice(0, 10);
  const until = dayAfter(day, 1);
  const { page } = await openAudit('anna', `?since=${day}&until=${until}&action=token.create&subject=${email}`);
  await page.getByText(`made the access token`).waitFor();
  assert.equal((await sentences(page)).length, 1);
  assert.equal(await page.getByLabel('From').inputValue(), day);
  assert.equal(await page.getByLabel('To (included)').inputValue(), day);
  const revoked = await anna.call('DELETE', `/admin/api/tokens/${body.id}`);
  assert.equal(revoked.status, 200);
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.getByText('revoked the access token').first().waitFor();
  const { page: later } = await openAudit('anna', '?since=2100-01-01');
  await later.getByText('No matching changes').waitFor();
});

test('who was turned away is listed with the reason, and names stay text', async () => {
  const { page, complaints } = await openAudit('anna', '?list=refused');
  await page.getByRole('row').filter({ hasText: 'eve@example.com' }).getByRole('button').first().click();
  const drawer = page.getByRole('dialog', { name: 'Refused: eve@example.com' });
  assert.match((await drawer.textContent())!, /verified/);
  assert.equal(await page.evaluate('window.taken'), undefined);
  assert.deepEqual(complaints, []);
});

test('a developer finds no such page in the list, and is shown its audience', async () => {
  const { page } = await openAudit('ben');
  await page.getByText(/admin role required/i).waitFor();
  assert.equal(await page.locator('.frame-side').getByRole('link', { name: 'Audit' }).count(), 0);
});
