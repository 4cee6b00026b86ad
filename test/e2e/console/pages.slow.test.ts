/** Every page of the console in a real browser: as administrator and developer, wide and narrow, light and dark, without a mouse. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { overflow, tabThrough } from '../../support/identity/page-checks.ts';
import { seriousFaults } from './axe.ts';
import { HOSTILE_SHORT, loaded, useConsole } from './scene.ts';

/** A directory for pictures of every page, to be looked at. */
const PICTURES = process.env.APPSCLI_TEST_SCREENSHOTS;

const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } } as const;
const WHO = { 'an administrator': { sub: 'anna', pages: 11 }, 'a developer': { sub: 'ben', pages: 7 } } as const;

/** How many things of a page a keyboard should get to. */
const REACHABLE =
  "[...document.querySelectorAll('main a[href], main button:not(:disabled), main input:not([type=radio]:not(:checked)), main select')].filter((each) => each.checkVisibility()).length";

const site = useConsole();

for (const [role, { sub, pages }] of Object.entries(WHO)) {
  test(`${role} can see and use every page: wide and narrow, light and dark, without a mouse, with nothing serious for axe`, async () => {
    const { page, complaints } = await site.open(sub);
    const links = page.locator('.frame-side .page-link');
    await links.first().waitFor();
    const titles = await links.allInnerTexts();
    assert.equal(titles.length, pages, titles.join());
    for (const title of titles) {
      // The pages share a document, for it takes axe longer to load than to look at one.
      await links.getByText(title, { exact: true }).click();
      await loaded(page, title);
      for (const [size, viewport] of Object.entries(SIZES)) {
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.setViewportSize(viewport);
          await page.emulateMedia({ colorScheme });
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
      await page.setViewportSize(SIZES.wide);
      const { reached, hidden } = await tabThrough(page);
      assert.deepEqual(hidden, [], `${title}: has the focus and does not show it`);
      const reachable = await page.evaluate<number>(REACHABLE);
      assert.ok(reached >= Math.min(reachable, 30), `${title}: ${reached} of ${reachable} reached`);
      assert.deepEqual(complaints, [], title);
      assert.equal(await page.evaluate('window.taken'), undefined, `${title}: a name became a script`);
    }
  });
}

/** A part of every hostile name, as people see it where it is no more than a text. */
const PART = '<img src=x';

/** Pages, what is pressed there, and what of a hostile name has to be read in what opens. */
const OPENED: Readonly<Record<'anna' | 'ben', readonly (readonly [path: string, button: RegExp, shows: string])[]>> = {
  anna: [
    ['/console/requests?user=mallory@example.com', /\d\d:\d\d/, PART],
    ['/console/requests?user=ben@example.com&error=model_not_found', /\d\d:\d\d/, PART],
    ['/console/tokens?user=mallory@example.com', /^Rotate/, PART],
    ['/console/tokens?user=mallory@example.com', /^Revoke/, PART],
    ['/console/tokens?tab=service', RegExp(`^Revoke ${HOSTILE_SHORT}`), PART],
    ['/console/upstreams', /^Resume second/, PART],
    ['/console/audit?action=limit.grant&subject=ben@example.com', /\d\d:\d\d/, PART],
    ['/console/audit?list=refused', /\d\d:\d\d/, ''],
    ['/console/people?search=mallory', /^mallory@example\.com/, PART],
    ['/console/limits?user=mallory@example.com', /^Give a grant/, ''],
  ],
  ben: [['/console/limits', /^Ask for more/, '']],
};

describe('names that would like to be scripts', () => {
  for (const [sub, opened] of Object.entries(OPENED)) {
    test(`stay texts in whatever drawer or dialog ${sub === 'anna' ? 'an administrator' : 'a developer'} opens`, async () => {
      const { page, complaints } = await site.open(sub);
      for (const [path, button, shows] of opened) {
        await page.goto(`${site.gateway.url}${path}`);
        await page.locator('main').getByRole('button', { name: button }).first().click();
        const panel = page.getByRole('dialog');
        await panel.waitFor();
        if (shows !== '') await panel.getByText(shows, { exact: false }).first().waitFor();
        await panel.locator('.skeleton').first().waitFor({ state: 'detached' });
        assert.equal(await page.evaluate('window.taken'), undefined, `${path}: a name became a script`);
      }
      assert.deepEqual(complaints, []);
    });
  }
});
