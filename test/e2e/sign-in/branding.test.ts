import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { beginSignIn, bootSignIn, confirmInBrowser } from '../../support/identity/sign-in.ts';

let provider: TestIdentityProvider;
let gateway: TestGateway;

before(async () => {
  provider = await startIdentityProvider();
  gateway = await bootSignIn({
    provider,
    oidc: { allowed_groups: ['engineering'] },
    config: { branding: { name: 'Acme AI', support_url: 'https://help.example.com/ai' } },
  });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});

it('every page has the name and the help of the operator: sign-in, refusal, error, and the root in a browser', async () => {
  const browse = async (path: string) =>
    (await fetch(gateway.url + path, { headers: { accept: 'text/html,*/*;q=0.8' } })).text();
  const { user_code } = await beginSignIn(gateway.url);
  const pages = [
    await browse('/'),
    await browse('/device'),
    await browse(`/device?user_code=${user_code}`),
    await browse('/oauth/callback?state=nobody'),
    (await confirmInBrowser(gateway.url, user_code, 'ben')).text,
  ];
  for (const page of pages) {
    assert.match(page, / · Acme AI<\/title>/);
    assert.match(page, /<a href="https:\/\/help\.example\.com\/ai" rel="noreferrer">Get help<\/a>/);
  }
  assert.match(pages[0]!, /gateway to language models/);
  assert.match(pages.at(-1)!, /Access denied/);
});

it('the root is JSON for programs', async () => {
  const answer = await fetch(`${gateway.url}/`);
  assert.equal(answer.status, 200);
  const { name, base_urls } = (await answer.json()) as { name: string; base_urls: { messages: string } };
  assert.deepEqual([name, base_urls.messages.startsWith('http://127.0.0.1:')], ['Acme AI', true]);
});
