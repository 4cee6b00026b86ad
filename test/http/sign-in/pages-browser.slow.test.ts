import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pageHeaders } from '../../../engine/edge/http/sign-in/pages.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { contrasts, focusIsVisible, overflow, tabOrder } from '../../support/identity/page-checks.ts';
import { everyPage } from './sample-pages.ts';

const HOSTILE = `"'><script>document.title='taken'</script><img src="http://127.0.0.1:9/x" onerror="document.title='taken'"><style>main{display:none}</style>`;

/** A directory for pictures of every page, to be looked at. */
const PICTURES = process.env.APPSCLI_TEST_SCREENSHOTS;

const pages = everyPage();
const hostile = everyPage(HOSTILE);
const browser = useBrowser();

/** Replaces the identity provider, on another origin than the pages. */
let provider: Server;
let site: Server;
let provider_origin = '';
let origin = '';
const posted: string[] = [];

async function listen(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

before(async () => {
  provider = createServer((_request, response) => response.end('the identity provider'));
  provider_origin = await listen(provider);
  site = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://gateway.test');
    if (request.method === 'POST') {
      posted.push(`${request.headers.origin} ${request.headers['sec-fetch-site']}`);
      response.writeHead(303, { location: `${provider_origin}/authorize` }).end();
      return;
    }
    const shown = (url.searchParams.has('hostile') ? hostile : pages)[url.searchParams.get('page') ?? ''];
    const allowed = url.searchParams.has('unlisted') ? undefined : provider_origin;
    response.writeHead(shown === undefined ? 404 : 200, pageHeaders(allowed)).end(shown);
  });
  origin = await listen(site);
});

after(async () => {
  for (const server of [provider, site]) {
    server.closeAllConnections();
    server.close();
  }
});

const address = (page: string, more = '') => `${origin}/device?page=${page}${more}`;

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

  it('loads nothing besides itself, without browser errors', async () => {
    const { page, complaints, requested } = await browser.open();
    for (const name of Object.keys(pages)) await page.goto(address(name));
    assert.deepEqual(complaints, []);
    assert.deepEqual(
      requested.filter((url) => !url.startsWith('data:')),
      Object.keys(pages).map((name) => address(name)),
    );
  });

  it('blocks scripts and styles that got in all the same', async () => {
    const { page, complaints } = await browser.open();
    await page.goto(address('success'));
    await page.evaluate(`document.body.insertAdjacentHTML('beforeend', '<style>main{display:none}</style>')`);
    assert.equal(await page.locator('main').isVisible(), true);
    await page.evaluate(`(() => {
      const script = document.createElement('script');
      script.textContent = "document.title = 'taken'";
      document.body.append(script);
    })()`);
    assert.match(await page.title(), /Model gateway$/);
    assert.equal(complaints.filter((text) => text.includes('Content Security Policy')).length, 2);
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

describe('a keyboard is enough', () => {
  it('to answer, and nothing is chosen beforehand', async () => {
    const { page } = await browser.open();
    await page.goto(address('confirm'));
    assert.equal(await page.evaluate('document.activeElement === document.body'), true);
    assert.deepEqual(await tabOrder(page, 2), ['Continue to sign in', 'This was not me']);
    assert.equal(await focusIsVisible(page), true);
  });
});

describe('the form that confirms', () => {
  it('may end nowhere else', async () => {
    const { page, complaints } = await browser.open();
    await page.goto(address('confirm', '&unlisted'));
    const complained = page.waitForEvent('console');
    await page.getByRole('button', { name: 'Continue to sign in' }).click();
    await complained;
    assert.match(complaints.join(), /form-action/);
    assert.ok(page.url().startsWith(origin));
  });
});
