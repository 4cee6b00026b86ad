/** Every page of the console in a real browser: as administrator and developer, wide and narrow, light and dark, without a mouse. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { openConsole } from '../../support/console.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { focusIsVisible, overflow } from '../../support/identity/page-checks.ts';
import { until } from '../../support/until.ts';
import { seriousFaults } from './axe.ts';
import { type ConsoleScene, openConsoleScene } from './scene.ts';

/** A directory for pictures of every page, to be looked at. */
const PICTURES = process.env.APPSCLI_TEST_SCREENSHOTS;

const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } } as const;
const WHO = { 'an administrator': 'anna', 'a developer': 'ben' } as const;

const browser = useBrowser();
let scene: ConsoleScene;
before(async () => {
  scene = await openConsoleScene();
});
after(() => scene?.close());

/** Every page in the list beside the pages. */
async function listedPages(page: Page): Promise<{ title: string; path: string }[]> {
  await page.locator('.frame-side .page-link').first().waitFor();
  return page.evaluate(
    "[...document.querySelectorAll('.frame-side .page-link')].map((link) => ({ title: link.textContent.trim(), path: link.getAttribute('href') }))",
  );
}

/** Shows a page, and waits until nothing loads any more. */
async function show(page: Page, path: string): Promise<void> {
  await page.goto(`${scene.gateway.url}${path}`);
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  await until(`${path} has loaded`, async () => (await page.locator('.skeleton, .stale').count()) === 0);
}

for (const [role, sub] of Object.entries(WHO)) {
  describe(`the console of ${role}`, () => {
    test('shows every page without a complaint of the browser, wide and narrow, light and dark, with nothing serious for axe', async () => {
      const { page, complaints } = await browser.open({ viewport: SIZES.wide });
      await openConsole(page, scene.gateway.url, sub);
      for (const { path, title } of await listedPages(page)) {
        await show(page, path);
        for (const [size, viewport] of Object.entries(SIZES)) {
          for (const colorScheme of ['light', 'dark'] as const) {
            await page.setViewportSize(viewport);
            await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
            const at = `${title}, ${size}, ${colorScheme}`;
            if (PICTURES !== undefined) {
              const name = `console-${role.split(' ')[1]}-${title.toLowerCase()}-${size}-${colorScheme}.png`;
              await page.screenshot({ path: join(PICTURES, name), fullPage: true });
            }
            assert.equal(await overflow(page), 0, `${at}: wider than the window`);
            // The colours of a theme and the layout of a width are the same in every pair of them.
            if ((size === 'wide') === (colorScheme === 'light')) assert.deepEqual(await seriousFaults(page), [], at);
          }
        }
        assert.deepEqual(complaints, [], title);
        assert.equal(await page.evaluate('window.taken'), undefined, `${title}: a name became a script`);
      }
    });

    test('can be used without a mouse: everything that can be reached shows that it is', async () => {
      const { page } = await browser.open({ viewport: SIZES.wide, reducedMotion: 'reduce' });
      await openConsole(page, scene.gateway.url, sub);
      for (const { path, title } of await listedPages(page)) {
        await show(page, path);
        const reachable = await page.evaluate<number>(
          "[...document.querySelectorAll('main a[href], main button:not(:disabled), main input:not([type=radio]:not(:checked)), main select')].filter((each) => each.checkVisibility()).length",
        );
        let reached = 0;
        for (let step = 0; step < reachable + 40; step++) {
          await page.keyboard.press('Tab');
          if (await page.evaluate('document.activeElement === document.body')) break;
          assert.ok(
            await focusIsVisible(page),
            `${title}: ${await page.evaluate('document.activeElement.outerHTML.slice(0, 200)')}`,
          );
          if (await page.evaluate("document.activeElement.closest('main') !== null")) reached++;
        }
        assert.ok(reached >= Math.min(reachable, 30), `${title}: ${reached} of ${reachable} reached`);
      }
    });
  });
}
