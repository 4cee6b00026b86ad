import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { request as requestByTls } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { LOOPBACK_CERTIFICATE } from '../../support/certificates.ts';
import { freePort } from '../../support/free-port.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { type BegunSignIn, bootSignIn, pollWith, type TokenAnswer } from '../../support/identity/sign-in.ts';
import { ownDirectory } from '../../support/own-directory.ts';

const browser = useBrowser();
let provider: TestIdentityProvider;
before(async () => {
  provider = await startIdentityProvider({ host: 'localhost' });
});
after(() => provider?.close());

/** Posts a form as a device does, trusting the certificate of the tests. */
async function post<T>(url: string, form: Record<string, string>): Promise<T> {
  const send = url.startsWith('https:') ? requestByTls : request;
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const sent = send(url, { method: 'POST', headers, ca: LOOPBACK_CERTIFICATE.cert, agent: false });
  sent.end(new URLSearchParams(form).toString());
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return JSON.parse((await response.toArray()).join('')) as T;
}

/** Signs Anna in at a public URL, by a browser; returns the browser's state. */
async function signInAt(public_url: string) {
  const begun = await post<BegunSignIn>(`${public_url}/oauth/device_authorization`, {});
  const { page, context, complaints } = await browser.open({ ignoreHTTPSErrors: true });
  await page.goto(begun.verification_uri_complete);
  await page.getByRole('button', { name: 'Continue to sign in' }).click();
  await page.getByRole('button', { name: 'Sign in as anna' }).click();
  await page.getByRole('heading', { name: 'You are signed in' }).waitFor();
  assert.deepEqual(complaints, []);
  const tokens = await post<TokenAnswer['body']>(`${public_url}/oauth/token`, pollWith(begun.device_code));
  assert.equal(tokens.email, 'anna@example.com');
  return { page, cookies: await context.cookies(public_url), begun };
}

describe('a gateway is signed in at', () => {
  it('by TLS of its own, with a cookie that no other host can set', async (t) => {
    const directory = ownDirectory();
    const [cert_file, key_file] = [join(directory, 'tls.crt'), join(directory, 'tls.key')];
    await writeFile(cert_file, LOOPBACK_CERTIFICATE.cert);
    await writeFile(key_file, LOOPBACK_CERTIFICATE.key);
    const listen = `127.0.0.1:${await freePort()}`;
    const public_url = `https://${listen}`;
    const gateway = await bootSignIn({ provider, public_url, server: { listen, tls: { cert_file, key_file } } });
    t.after(() => gateway.close());
    const { cookies } = await signInAt(public_url);
    assert.match(cookies[0]?.name ?? '', /^__Host-appscli-sign-in-/);
    assert.equal(cookies[0]?.secure, true);
  });

  for (const [what, taken] of [
    ['takes it away', '/models'],
    ['leaves it on', ''],
  ] as const)
    it(`below a path, behind a proxy that ${what}`, (t) => signInBelowAPath(t, taken));

  async function signInBelowAPath(t: TestContext, taken: string) {
    let gateway_url = '';
    const passOn = (req: IncomingMessage, res: ServerResponse) => {
      const { method, headers, url = '' } = req;
      assert.ok(url.startsWith('/models/'), `${url} is below the path`);
      const onward = request(new URL(url.slice(taken.length), gateway_url), { method, headers, agent: false });
      onward.on('response', (response) => response.pipe(res.writeHead(response.statusCode!, response.headers)));
      req.pipe(onward);
    };
    const proxy = createServer(passOn).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    t.after(() => {
      proxy.closeAllConnections();
      proxy.close();
    });
    const public_url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/models`;
    const gateway = await bootSignIn({ provider, public_url });
    t.after(() => gateway.close());
    gateway_url = gateway.url;
    const { page, begun } = await signInAt(public_url);
    await page.goto(begun.verification_uri);
    await page.getByLabel('Code').fill('BCDF-GHJK');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('alert').waitFor();
    assert.equal(page.url(), `${public_url}/device?user_code=BCDF-GHJK`);
    const at_root = await fetch(`${gateway_url}/.well-known/oauth-authorization-server/models`);
    assert.equal(((await at_root.json()) as { issuer: string }).issuer, public_url);
    for (const path of ['/v1/models', '/managed/settings', '/admin/api/me'])
      assert.equal((await fetch(`${public_url}${path}`)).status, 401, path);
    for (const path of ['/protocol', '/healthz', '/admin/api/openapi.json'])
      assert.equal((await fetch(`${public_url}${path}`)).status, 200, path);
  }
});
