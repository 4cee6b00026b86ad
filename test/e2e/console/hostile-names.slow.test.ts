/** Names that would like to be scripts, in what opens over a page: drawers and dialogs. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { openConsole } from '../../support/console.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { type ConsoleScene, openConsoleScene } from './scene.ts';

const browser = useBrowser();
let scene: ConsoleScene;
before(async () => {
  scene = await openConsoleScene();
});
after(() => scene?.close());

/** A part of every hostile name, as people see it where it is no more than a text. */
const PART = '<img src=x';

/** Pages, what is pressed there, and what of a hostile name has to be read in what opens. */
const OPENED: Readonly<Record<'anna' | 'ben', readonly (readonly [path: string, button: RegExp, shows: string])[]>> = {
  anna: [
    ['/console/requests?user=mallory@example.com', /^\d\d:/, PART],
    ['/console/requests?error=model_not_found', /^\d\d:/, PART],
    ['/console/tokens?user=mallory@example.com', /^Rotate/, PART],
    ['/console/tokens?user=mallory@example.com', /^Revoke/, PART],
    ['/console/tokens?tab=service', /^Revoke/, PART],
    ['/console/upstreams', /^Resume/, PART],
    ['/console/audit?action=limit.grant', /^\d\d:/, PART],
    ['/console/audit?list=refused', /^\d\d:/, ''],
    ['/console/people', /^mallory@example\.com/, PART],
    ['/console/limits?user=mallory@example.com', /^Give a grant/, ''],
  ],
  ben: [['/console/limits', /^Ask for more/, '']],
};

for (const [sub, opened] of Object.entries(OPENED)) {
  it(`stay texts in whatever ${sub === 'anna' ? 'an administrator' : 'a developer'} opens`, async () => {
    const { page, complaints } = await browser.open({ reducedMotion: 'reduce' });
    await openConsole(page, scene.gateway.url, sub);
    for (const [path, button, shows] of opened) {
      await page.goto(`${scene.gateway.url}${path}`);
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
