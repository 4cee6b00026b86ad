/** Upstreams and policies: what the gateway reports of them, and their pages in a real browser. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seriousFaults } from './axe.ts';
import { HOSTILE, HOSTILE_SHORT, useConsole } from './scene.ts';

const site = useConsole();

describe('in a browser', () => {
  it('an administrator drains an upstream by keyboard, sees what remains, and resumes it', async () => {
    const { page, complaints } = await site.open('anna', '/console/upstreams');
    await page.getByText('Breaker open for one model').waitFor();
    const incidents = page.getByRole('region', { name: 'Incidents' });
    await incidents.getByText('Breaker open status 529').waitFor();
    const models = page.getByRole('region', { name: 'Models at failing' });
    // Five open the breaker; the one after is routed to the other upstream at once.
    await models.getByRole('row', { name: /^large-1 5 0% 5 0 / }).waitFor();
    await page.getByRole('button', { name: 'Drain spare' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Drain spare?' }).waitFor();
    await page.getByLabel('Reason').fill(HOSTILE_SHORT);
    await page.keyboard.press('Enter');
    await page.getByText('Drained spare. Its routes use their other upstreams.').waitFor();
    await page.getByText(`: ${HOSTILE_SHORT}`).waitFor();
    await page.getByText('no other upstream').first().waitFor();
    await page.getByRole('button', { name: 'Drain failing' }).click();
    await page.getByText('No other upstream for the route').waitFor();
    assert.deepEqual(await seriousFaults(page), [], 'the dialog');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Resume spare' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume spare' }).click();
    await page.getByText('Resumed spare. It gets new requests again.').waitFor();
    await page.getByRole('button', { name: 'Drain spare' }).waitFor();
    await page.getByRole('button', { name: 'Show as table' }).first().click();
    await page
      .getByRole('region', { name: /^Attempts at/ })
      .getByRole('columnheader', { name: 'Failed' })
      .waitFor();
    assert.deepEqual(complaints, []);
  });

  it('an administrator previews policies as another user, whose clients never requested any', async () => {
    const { page, complaints } = await site.open('anna', '/console/policies');
    await page.getByLabel('E-mail address').fill('ben@example.com');
    await page.keyboard.press('Enter');
    await page.getByText('for members of marketing').waitFor();
    assert.match(page.url(), /user=ben(@|%40)example\.com/);
    await page.getByRole('cell', { name: 'standard', exact: true }).first().waitFor();
    await page.getByText('Never fetched').first().waitFor();
    assert.ok((await page.getByText(HOSTILE).count()) > 0);
    await page.getByRole('link', { name: 'dev@example.com' }).click();
    await page.getByRole('group', { name: 'Effective policy' }).getByText('dev@example.com', { exact: true }).waitFor();
    await page.locator('[aria-label="Effective policy"]:focus').waitFor();
    assert.deepEqual(complaints, []);
  });
});
