/** The page of requests in a real browser: the reason of a rejection, new ones on arrival, one's own only. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { focusIsVisible } from '../../support/identity/page-checks.ts';
import { until } from '../../support/until.ts';
import { useConsole } from './scene.ts';

const site = useConsole();

async function openRequests(sub: string, search = ''): Promise<Page> {
  const { page } = await site.open(sub, `/console/requests${search}`);
  await page.getByRole('heading', { name: 'Requests', level: 1 }).waitFor();
  return page;
}

const rows = (page: Page) => page.locator('main tbody tr');
const why = (page: Page) => page.locator('.requests-why');

describe('the page of requests', () => {
  test('shows without a mouse the reason and rule of a rejection, and links to its limit', async () => {
    const page = await openRequests('anna', '?outcome=refused&user=mallory@example.com');
    const refused = rows(page).filter({ hasText: '429 rejected' }).first();
    await refused.getByRole('button').focus();
    assert.ok(await focusIsVisible(page));
    await page.keyboard.press('Enter');
    await why(page).waitFor();
    const sentence = (await why(page).textContent())!;
    assert.match(
      sentence,
      /Rejected: Retrying will not help: .* the daily limit of 0\.000001 USD for user mallory@example\.com.*gateway\.yaml:\d+/,
    );
    assert.match(new URL(page.url()).search, /request=[0-9a-f-]{36}/);
    const drawer = page.getByRole('dialog');
    assert.match((await drawer.textContent())!, /check-budget.*rejected/s);
    await drawer.getByRole('heading', { name: 'Exceeded limits' }).waitFor();
    assert.match((await drawer.textContent())!, /Routed to mainnot sent/);
    const limit = drawer.getByRole('link', { name: 'Show or change this limit' }).first();
    assert.match((await limit.getAttribute('href'))!, /\/console\/limits\?user=mallory%40example\.com$/);
    await drawer.getByRole('button', { name: 'What would happen now?' }).press('Enter');
    await drawer.getByText(/^It would /).waitFor();
    await page.keyboard.press('Escape');
    await why(page).waitFor({ state: 'detached' });
    assert.ok(!page.url().includes('request='));
    assert.equal(await page.evaluate('window.taken'), undefined, 'no name became a script');
  });

  test('shows new requests at the top while it is live, and keeps filters in the address', async () => {
    // Of one user: requests of other tests may still arrive.
    const { email } = site.newPerson();
    const page = await openRequests('anna', `?user=${email}`);
    await page.getByRole('button', { name: 'Watch live' }).click();
    await page.getByText('Live: new requests').waitFor();
    const id = await site.ask(email);
    await rows(page).first().waitFor();
    assert.match((await page.locator('.requests-live').textContent())!, /1 so far/);
    await rows(page).first().getByRole('button').click();
    await why(page).waitFor();
    assert.ok(page.url().includes(id));
    await page.goto(`${site.gateway.url}/console/requests?request=${id}&model=mapped-1`);
    await why(page).waitFor();
    assert.match((await why(page).textContent())!, /Served by main/);
    assert.equal(await page.getByRole('heading', { name: 'Exceeded limits' }).count(), 0);
    await page.keyboard.press('Escape');
    await until('the filter holds', async () =>
      (await rows(page).allTextContents()).every((text) => text.includes('mapped-1')),
    );
    await page.getByRole('searchbox', { name: 'Model' }).fill('no-such');
    await page.keyboard.press('Enter');
    await page.getByText('No matching requests').waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await until('all are back', async () => (await rows(page).count()) > 3);
  });

  test('treats the last day as included', async () => {
    const today = new Date().toISOString().slice(0, 10);
    const page = await openRequests('anna');
    await page.getByLabel('To (included)').fill(today);
    await until('the address has the day after', async () => page.url().includes('until='));
    await rows(page).first().waitFor();
    assert.ok(new URL(page.url()).searchParams.get('until')! > today);
    assert.equal(await page.getByLabel('To (included)').inputValue(), today);
  });
});
