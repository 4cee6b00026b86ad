/** Home and Usage in a real browser: the numbers of the command line, with links. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { reportUsage, usageCsv } from '../../../engine/domain/budget/reports/usage.ts';
import { until } from '../../support/until.ts';
import { useConsole } from './scene.ts';

const site = useConsole();

/** A user with very recent usage, whatever day it is by now; their usage by model. */
async function somebodyWithUsage() {
  const { sub, email } = site.newPerson();
  const models = ['coder-1', 'coder-1', 'mapped-1'];
  for (const model of models) await site.ask(email, model);
  const rows = await until('all is settled', async () => {
    const found = await reportUsage(site.gateway.database, { user: email }, { by: ['model', 'user'] });
    return found.reduce((sum, { requests }) => sum + requests, 0) === models.length && found;
  });
  return { sub, email, rows };
}

const search = (page: Page) => Object.fromEntries(new URL(page.url()).searchParams);

describe('the page of usage', () => {
  test('shows an administrator all users, narrows down by a click, and goes back', async () => {
    const { email } = await somebodyWithUsage();
    const { page, complaints } = await site.open('anna', '/console/usage');
    const table = page.getByRole('region', { name: 'Usage' });
    await table.getByRole('link', { name: email }).click();
    await table.getByRole('columnheader', { name: 'Team' }).waitFor();
    assert.deepEqual(search(page), { user: email, by: 'team' });
    await page.getByLabel('Group by').selectOption('model');
    await table.getByRole('link', { name: 'coder-1', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await until('the filter is gone', async () => search(page).user === undefined);
    await page.goBack();
    await until('it is there again', async () => search(page).user === email);
    await page.getByLabel('Time', { exact: true }).selectOption('Today');
    await page.getByText('Cost per hour').waitFor();
    await page.getByRole('button', { name: 'Show as table' }).click();
    await page.getByRole('region', { name: 'Cost per hour' }).waitFor();
    assert.deepEqual(complaints, []);
  });

  test("shows the cost of the ledger, and exports it as the command's file", async () => {
    const { email, rows } = await somebodyWithUsage();
    const { page } = await site.open('anna', `/console/usage?by=model,user&user=${email}`);
    const cost = rows.reduce((sum, row) => sum + row.cost_nano_usd, 0n);
    const shown = page.locator('.figure-card', { hasText: 'Cost' }).first().locator('[title]').first();
    assert.equal(await shown.getAttribute('title'), `${Number(cost) / 1e9} USD`);
    const downloading = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download CSV' }).click();
    const file = await (await downloading).path();
    assert.equal(await readFile(file, 'utf8'), usageCsv(rows, ['model', 'user']));
  });

  test('ignores an invalid value in its address, and reports it', async () => {
    const { page } = await site.open('anna', '/console/usage?since=2027-02-30&by=model');
    await page.getByText(/^Removed from the URL: .*"since" is wrong: expected a date such as/).waitFor();
    await page.getByRole('region', { name: 'Usage' }).waitFor();
    assert.deepEqual(search(page), { by: 'model' });
  });
});

describe('the first page', () => {
  test('shows an administrator what to check, and leads there', async () => {
    await site.ask(site.newPerson().email, 'no-such-model');
    const { page, complaints } = await site.open('anna', '/console');
    const list = page.locator('section', { hasText: 'Issues' }).first();
    await list.getByText('The gateway cannot load the configuration').waitFor();
    await list.getByRole('button', { name: /^Show \d+ more/ }).click();
    await list.getByText(/second was drained by anna@example\.com/).waitFor();
    await list.getByText(/A sign-in was rejected in the last 24 hours/).waitFor();
    const refused = page.getByRole('region', { name: 'Rejections and errors today' });
    await refused.getByText('model_not_found').waitFor();
    assert.equal(await page.evaluate('window.taken'), undefined);
    await list.getByRole('link', { name: 'Upstreams' }).first().click();
    await page.getByRole('heading', { name: 'Upstreams', level: 1 }).waitFor();
    assert.deepEqual(complaints, []);
  });

  test('shows a developer their week, limits and tokens, and how to begin', async () => {
    const { page, complaints } = await site.open('ben', '/console');
    await page.getByText('Your limit per day').waitFor();
    await page.getByRole('meter', { name: 'Your limit per day' }).waitFor();
    await page.getByText('laptop').waitFor();
    const setup = page.getByRole('region', { name: 'Command that sets up the Messages client' });
    assert.match(
      (await setup.textContent()) ?? '',
      new RegExp(`${site.gateway.url}/client.tgz client messages --model \\S+ `),
    );
    assert.equal(await page.getByText('Issues').count(), 0);
    await page.getByRole('link', { name: 'My cost this week' }).click();
    await page.getByRole('region', { name: 'Usage' }).waitFor();
    assert.deepEqual(complaints, []);
  });
});
