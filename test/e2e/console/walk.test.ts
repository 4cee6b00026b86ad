import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openConsole } from '../../support/console.ts';
import { closeBrowser, useBrowser } from '../../support/identity/browser.ts';
import { closeScene, loaded, useConsole } from './scene.ts';

const browser = useBrowser();
const site = useConsole();
// Other files of this process need neither.
after(async () => {
  await closeScene();
  await closeBrowser();
});

test('an administrator signs in with a browser and opens every page, of which the browser has nothing to complain', async () => {
  const { page, complaints } = await browser.open();
  await openConsole(page, site.gateway.url, 'anna');
  const list = page.locator('.frame-side');
  await list.getByRole('link').first().waitFor();
  const titles = await list.locator('.page-link').allInnerTexts();
  assert.ok(titles.length > 10, titles.join());
  for (const title of titles) {
    await list.getByRole('link', { name: title, exact: true }).click();
    await loaded(page, title);
    assert.deepEqual(complaints, [], title);
  }
});
