/** Signing in to the console through a proxy that hides the browser's host, or by another name of the machine. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { freePort } from '../../support/free-port.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { startIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import { startNginx } from '../../support/proxies/nginx.ts';
import { blocksOf } from '../../support/readme-blocks.ts';
import { use } from '../../support/use.ts';

const browser = useBrowser();
const provider = use(() => startIdentityProvider({ host: 'localhost' }));

/** The recipe of the guide: the blocks beside the server, and its one location. */
const [RECIPE] = blocksOf('examples/proxies/README.md', 'nginx').map(({ text }) => text);
const OF_GUIDE = /^ {2}location \/ \{.*?^ {2}\}/ms.exec(RECIPE!)![0];
const UPSTREAM = /^upstream .*?^\}/ms.exec(RECIPE!)![0];
const FORWARDED = 'proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;';
/** A location with these lines, which passes everything on to the gateway. */
const passing = (...lines: string[]) => `location / { proxy_pass http://GATEWAY; ${lines.join(' ')} }`;

const BELOW = OF_GUIDE.replace('location /', 'location /gateway/');
const HOST = 'proxy_set_header Host';

/** The public URL with PORT in the place of its port, and the `location` with GATEWAY for the gateway's address. */
const CASES: Readonly<Record<string, readonly [public_url: string, location: string]>> = {
  'the recipe of the guide': ['http://127.0.0.1:PORT', OF_GUIDE],
  'the recipe, with TLS': ['https://localhost:PORT', OF_GUIDE],
  'the recipe, below a path that stays on': ['http://127.0.0.1:PORT/gateway', BELOW],
  'the recipe, below a path that is taken away': [
    'https://127.0.0.1:PORT/gateway/',
    BELOW.replace(/(proxy_pass \S+);/, '$1/;'),
  ],
  'no Host of its own, and another name': ['http://localhost:PORT', passing()],
  'no Host of its own, and HTTP/1.1': [
    'http://localhost:PORT',
    passing('proxy_http_version 1.1;', 'proxy_set_header Connection "";'),
  ],
  'Host with the port': ['http://127.0.0.1:PORT', passing(`${HOST} $http_host;`, FORWARDED)],
  'Host, and X-Forwarded-Host with the port of nginx': [
    'http://127.0.0.1:PORT',
    passing(`${HOST} $host:$server_port;`, 'proxy_set_header X-Forwarded-Host $host;'),
  ],
  'a name of another machine as Host': ['http://127.0.0.1:PORT', passing(`${HOST} gateway.internal;`)],
  IPv6: ['http://[::1]:PORT', passing(`${HOST} $host;`)],
};

/** Starts a gateway, and whatever is in front of it, for one test. */
async function open(public_url: string): Promise<{ readonly url: string; readonly gateway: TestGateway }> {
  const url = public_url.replace('PORT', String(await freePort()));
  provider.register(`${url.replace(/\/$/, '')}/oauth/callback`);
  return { url: url.replace(/\/$/, ''), gateway: await bootSignIn({ provider, public_url: url }) };
}

/** Signs in at this address from now on; every page of the gateway that the browser requested on the way. */
async function signInFrom(address: string, public_url: string): Promise<readonly string[]> {
  const { page, requested } = await browser.open({ ignoreHTTPSErrors: true });
  await page.goto(address);
  if (address.endsWith('/console')) await page.getByRole('link', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign in as anna' }).click();
  await page.locator('.frame-side').getByRole('button', { name: 'Sign out' }).waitFor();
  assert.ok(page.url().startsWith(`${public_url}/console`), page.url());
  return requested.filter((url) => new URL(url).pathname.endsWith('/console/sign-in'));
}

describe('behind a mock of nginx with', () => {
  for (const [name, [public_url, location]] of Object.entries(CASES)) {
    test(`${name}, people sign in at ${public_url}`, async (t) => {
      const { url, gateway } = await open(public_url);
      t.after(() => gateway.close());
      const { host } = new URL(gateway.url);
      const nginx = await startNginx({
        host: url.includes('[::1]') ? '::1' : '127.0.0.1',
        port: Number(new URL(url).port),
        tls: url.startsWith('https:'),
        locations: location.replace('GATEWAY', host),
        beside: UPSTREAM.replace(/server \S+;/, `server ${host};`).replace(/server 10\S+;/, ''),
      });
      t.after(() => nginx.close());
      for (const address of [`${url}/console`, `${url}/console/sign-in?back_to=%2Fconsole`]) {
        const asked = await signInFrom(address, url);
        assert.equal(asked.length, 1, asked.join('\n'));
      }
    });
  }
});

describe('without a proxy,', () => {
  for (const [public_name, came_by] of [
    ['127.0.0.1', 'localhost'],
    ['localhost', '127.0.0.1'],
  ] as const) {
    test(`a user who arrives at ${public_name} as ${came_by} signs in at ${public_name}`, async (t) => {
      const port = await freePort();
      const [public_url, other] = [`http://${public_name}:${port}`, `http://${came_by}:${port}`];
      provider.register(`${public_url}/oauth/callback`);
      const gateway = await bootSignIn({ provider, public_url, server: { listen: `127.0.0.1:${port}` } });
      t.after(() => gateway.close());
      assert.deepEqual(await signInFrom(`${other}/console`, public_url), [
        `${public_url}/console/sign-in?back_to=%2Fconsole`,
      ]);
    });
  }
});
