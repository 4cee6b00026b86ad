/** The page of the configuration in a real browser. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Locator } from 'playwright-core';
import { overflow } from '../../support/identity/page-checks.ts';
import { until } from '../../support/until.ts';
import { seriousFaults } from './axe.ts';
import { HOSTILE_SHORT, loaded, useConsole } from './scene.ts';

const site = useConsole();
/** Opens a view as administrator. */
async function openView(query: string) {
  const watched = await site.open('anna', `/console/config${query}`);
  await loaded(watched.page, 'Configuration');
  return watched;
}

async function textOf(element: Locator): Promise<string> {
  return (await element.textContent()) ?? '';
}

describe('the page of the configuration', () => {
  /** Versions that were in force, the older one first. */
  let versions: readonly string[];

  before(async () => {
    const anna = await site.signIn('anna');
    const loads = await until('all loads are written down', async () => {
      const { body } = await anna.call('GET', '/admin/api/config/loads');
      return body.loads.length === 4 && body.loads;
    });
    const [newest, older] = loads.filter(({ failed }: { failed: boolean }) => !failed);
    versions = [older.version, newest.version];
  });

  test('links to a rule in words, beside its source', async () => {
    const { page, complaints } = await openView('?rule=routing:long-conversations');
    const rule = page.locator('.config-rule[aria-current]');
    assert.match(await textOf(rule), /goes to main when request\.message_count > 50/);
    assert.match(await textOf(rule.getByRole('region')), /mode: shadow/);
    await rule.getByRole('link', { name: /gateway\.yaml:/ }).click();
    const marked = page.locator('.config-line.marked');
    await marked.waitFor();
    assert.match(await textOf(marked), /- name: long-conversations/);
    assert.deepEqual(complaints, []);
  });

  test('shows the difference between two versions in words and in lines', async () => {
    const { page } = await openView(`?from=${versions[0]}&to=${versions[1]}`);
    await page.getByText('Before: goes to main, when request.message_count > 20').waitFor();
    assert.match(await textOf(page.locator('.config-line.removed')), /, 20\] \}/);
    assert.match(await textOf(page.locator('.config-line.added')), /, 50\] \}/);
    await page.setViewportSize({ width: 360, height: 800 });
    assert.equal(await overflow(page), 0);
    assert.deepEqual(await seriousFaults(page), []);
  });

  test('shows first that the last reload failed, with a remedy, and shows hostile texts as text', async () => {
    const { page, complaints } = await openView('');
    const failed = page.getByRole('region', { name: 'The last reload failed' });
    assert.match(await textOf(failed), /The previous configuration stays active/);
    await failed.getByRole('link', { name: /^gateway\.yaml:/ }).click();
    await until('the file is shown', async () => (await page.locator('.config-line.marked').count()) === 1);
    assert.ok((await textOf(page.locator('.config-yaml'))).includes(HOSTILE_SHORT));
    assert.equal(await page.evaluate('window.taken'), undefined);
    assert.deepEqual(complaints, []);
  });
});
