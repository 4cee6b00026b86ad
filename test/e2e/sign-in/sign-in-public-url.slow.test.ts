import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { it } from 'node:test';
import { useBrowser } from '../../support/identity/browser.ts';
import { startIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, bootSignIn, pollWith } from '../../support/identity/sign-in.ts';
import { ownPort } from '../../support/net/own-port.ts';
import { closing, use } from '../../support/use.ts';

const browser = useBrowser();
const provider = use(() => startIdentityProvider({ host: 'localhost' }));

it('a gateway below a path, behind a proxy that takes it away, is signed in at', async () => {
  let gateway_url = '';
  const passOn = (req: IncomingMessage, res: ServerResponse) => {
    const { method, headers, url = '' } = req;
    assert.ok(url.startsWith('/models/'), `${url} is below the path`);
    const onward = request(new URL(url.slice('/models'.length), gateway_url), { method, headers, agent: false });
    onward.on('response', (response) => response.pipe(res.writeHead(response.statusCode!, response.headers)));
    req.pipe(onward);
  };
  const public_url = `http://127.0.0.1:${await ownPort(createServer(passOn))}/models`;
  await using gateway = closing(await bootSignIn({ provider, public_url }));
  gateway_url = gateway.url;
  const begun = await beginSignIn(public_url);
  const { page, complaints } = await browser.open();
  await page.goto(begun.verification_uri_complete);
  await page.getByRole('button', { name: 'Continue to sign in' }).click();
  await page.getByRole('button', { name: 'Sign in as anna' }).click();
  await page.getByRole('heading', { name: 'You are signed in' }).waitFor();
  assert.deepEqual(complaints, []);
  assert.equal((await askForToken(public_url, pollWith(begun.device_code))).body.email, 'anna@example.com');
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
});
