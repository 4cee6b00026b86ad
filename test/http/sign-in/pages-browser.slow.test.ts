import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Router } from 'express';
import { pageHeaders } from '../../../engine/edge/http/sign-in/pages.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { contrasts, overflow } from '../../support/identity/page-checks.ts';
import { use } from '../../support/use.ts';
import { everyPage } from './sample-pages.ts';
import { serve } from './support.ts';

/** A directory for pictures of every page, to be looked at. */
const PICTURES = process.env.APPSCLI_TEST_SCREENSHOTS;

const pages = everyPage();
const browser = useBrowser();

const router = Router();
router.get('/device', ({ query }, res) => {
  res.writeHead(200, pageHeaders('https://id.example.com')).end(pages[String(query.page)]);
});
const served = use(() => serve(router));

const address = (page: string) => `${served.url}/device?page=${page}`;

describe('every page in a browser', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`are readable in ${colorScheme} colours: texts have a contrast of 4.5 to 1, fields 3 to 1`, async () => {
      const { page } = await browser.open({ colorScheme });
      for (const name of Object.keys(pages)) {
        await page.goto(address(name));
        const faint = (await contrasts(page)).filter(({ text, ratio }) => ratio < (/^edge/.test(text) ? 3 : 4.5));
        assert.deepEqual(faint, [], name);
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}-${colorScheme}.png`) });
      }
    });
  }

  it('fits a window of 320 pixels, and one of 640 with letters of twice the size', async () => {
    for (const [width, size] of [
      [320, '100%'],
      [640, '200%'],
    ] as const) {
      const { page } = await browser.open({ viewport: { width, height: 600 } });
      for (const name of Object.keys(pages)) {
        await page.goto(address(name));
        await page.evaluate(`document.documentElement.style.fontSize = '${size}'`);
        assert.equal(await overflow(page), 0, `${name} at ${width}`);
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}-${width}.png`), fullPage: true });
      }
    }
  });
});

describe('the output for a screen reader', () => {
  const announced = async (name: string) => {
    const { page } = await browser.open();
    await page.goto(address(name));
    return page.locator('main').ariaSnapshot();
  };

  it('of the page for the code', async () => {
    assert.equal(
      await announced('enter-code'),
      `- main:
  - heading "Enter your code" [level=1]
  - paragraph: Your terminal shows a code of eight letters. Type it here to sign in on that terminal.
  - text: Code
  - textbox "Code"
  - paragraph: Like WDJB-MJHT. Case and the dash don't matter.
  - button "Continue"`,
    );
  });

  it('of the page that confirms a sign-in', async () => {
    assert.match(await announced('confirm'), /heading "Is this you signing in\?" \[level=1\]/);
    assert.match(
      await announced('confirm'),
      /- button "Continue to sign in"\n {2}- button "This was not me"\n {2}- button "Use another account"$/,
    );
  });

  it('of how it ended', async () => {
    assert.match(await announced('success'), /- status:\n {4}- heading "You are signed in"/);
    assert.match(await announced('expired'), /- alert:\n {4}- heading "This code is no longer valid"/);
  });
});
