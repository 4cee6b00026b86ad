/** The page of changes and rejected sign-ins in a real browser. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { parse } from 'csv-parse/sync';
import type { Page } from 'playwright-core';
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
  const drawer = page.getByRole('dialog', { name: 'Grant added' });
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
  const seen = rows.map(({ words }) => words);
  assert.deepEqual(seen, found);
  await page.getByRole('button', { name: 'Show all' }).press('Enter');
  await page.waitForURL((url) => url.searchParams.get('subject') === null);
  await page.goBack();
  await page.waitForURL(/subject=person/);
  assert.equal(await page.getByLabel('Subject').inputValue(), email);
  assert.deepEqual(complaints, []);
});
