/** Every page of the console in a real browser: as administrator and developer, wide and narrow, light and dark, without a mouse. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { overflow, tabThrough } from '../../support/identity/page-checks.ts';
import { until } from '../../support/until.ts';
import { seriousFaults } from './axe.ts';
import { HOSTILE_SHORT, loaded, useConsole } from './scene.ts';

/** A directory for pictures of every page, to be looked at. */
const PICTURES = process.env.APPSCLI_TEST_SCREENSHOTS;

const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } } as const;
const WHO = { 'an administrator': { sub: 'anna', pages: 11 }, 'a developer': { sub: 'ben', pages: 7 } } as const;

/** How many things of a page a keyboard should get to. */
const REACHABLE =
  "[...document.querySelectorAll('main a[href], main button:not(:disabled), main input, main select')].filter((each) => each.checkVisibility()).length";

const site = useConsole();

for (const [role, { sub, pages }] of Object.entries(WHO)) {
  test(`${role} can see and use every page: wide and narrow, light and dark, without a mouse, with nothing serious for axe`, async () => {
    const { page, complaints } = await site.open(sub);
    const links = page.locator('.frame-side .page-link');
    await links.first().waitFor();
    const titles = await links.allInnerTexts();
    assert.equal(titles.length, pages, titles.join());
    for (const title of titles) {
      // The pages share a document, as axe is slower to load than to check one.
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

/** A part of every hostile name, as users see it where it is only text. */
const PART = '<img src=x';

interface View {
  readonly path: string;
  /** Of a drawer or dialog: its opener, unless the address opens it. */
  readonly button?: RegExp;
  readonly is_dialog?: false;
  /** The text to be read in it. */
  readonly shows?: string;
}

const counter = new URLSearchParams({ user: 'ben@example.com', window: 'day', unit: 'usd' });
const grant = new URLSearchParams({ grant: counter.toString(), amount: '5' });

/** Drawers, dialogs and views beside those of the list of pages. */
const VIEWS: Readonly<Record<'anna' | 'ben', readonly View[]>> = {
  anna: [
    { path: 'requests?user=mallory@example.com', button: /\d\d:\d\d/, shows: PART },
    { path: 'requests?user=ben@example.com&error=model_not_found', button: /\d\d:\d\d/, shows: PART },
    { path: 'tokens?user=mallory@example.com', button: /^Rotate/, shows: PART },
    { path: 'tokens?user=mallory@example.com', button: /^Revoke/, shows: PART },
    { path: 'tokens?tab=service', button: RegExp(`^Revoke ${HOSTILE_SHORT}`), shows: PART },
    { path: 'tokens', button: /^Create a token$/, shows: 'Another owner' },
    { path: 'tokens?tab=service', button: /^Create a service token$/, shows: 'see usage and costs' },
    { path: 'upstreams', button: /^Resume second/, shows: PART },
    { path: 'audit?action=limit.grant&subject=ben@example.com', button: /\d\d:\d\d/, shows: PART },
    { path: 'audit?list=refused', button: /\d\d:\d\d/ },
    { path: 'people?search=mallory', button: /^mallory@example\.com/, shows: PART },
    { path: 'people', is_dialog: false, shows: PART },
    { path: 'limits?user=mallory@example.com', button: /^Grant more/ },
    { path: 'limits?user=mallory@example.com', button: /^Set limit/, shows: PART },
    { path: `limits?${grant}`, shows: 'With the grant' },
    { path: `limits?team=${encodeURIComponent(HOSTILE_SHORT)}`, is_dialog: false, shows: PART },
    { path: 'config?view=rules', is_dialog: false, shows: PART },
    { path: 'config?view=shadow', is_dialog: false },
    { path: 'config?view=files', is_dialog: false },
    { path: 'config?view=findings', is_dialog: false },
  ],
  ben: [{ path: 'limits', button: /^Ask for more/ }],
};

for (const [sub, views] of Object.entries(VIEWS)) {
  test(`drawers, dialogs and views of ${sub} fit a phone, with nothing serious for axe, and names there stay texts`, async () => {
    const { page, complaints } = await site.open(sub, '/console', { viewport: { width: 360, height: 800 } });
    for (const [i, { path, button, is_dialog = true, shows }] of views.entries()) {
      const at = `${path} ${button ?? ''}`;
      await page.emulateMedia({ colorScheme: i % 2 === 0 ? 'dark' : 'light' });
      await page.goto(`${site.gateway.url}/console/${path}`);
      if (button !== undefined) await page.locator('main').getByRole('button', { name: button }).first().click();
      const shown = is_dialog ? page.getByRole('dialog') : page.locator('main');
      await shown.waitFor();
      if (shows !== undefined) await shown.getByText(shows).first().waitFor();
      await until(`${at} has loaded`, async () => (await shown.locator('.skeleton, .stale').count()) === 0);
      assert.equal(await overflow(page), 0, at);
      assert.deepEqual(await seriousFaults(page), [], at);
      assert.equal(await page.evaluate('window.taken'), undefined, `${at}: a name became a script`);
    }
    assert.deepEqual(complaints, []);
  });
}
