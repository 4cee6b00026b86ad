import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import {
  approveAt,
  PEOPLE,
  startIdentityProvider,
  type TestIdentityProvider,
  type TestPerson,
} from '../../support/identity/identity-provider.ts';
import {
  askForToken,
  bootSignIn,
  confirmInBrowser,
  pollWith,
  refreshWith,
  signIn,
} from '../../support/identity/sign-in.ts';

let provider: TestIdentityProvider;
let gateway: TestGateway;

before(async () => {
  provider = await startIdentityProvider();
  gateway = await bootSignIn({
    provider,
    oidc: { allowed_groups: ['engineering', 'research'] },
    config: { branding: { name: 'Acme AI', support_url: 'https://help.example.com/ai' } },
    auth: {
      admin_groups: ['admins'],
      limits: { device_authorizations: 1000, code_submissions: 1000, window_seconds: 600 },
    },
  });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});
beforeEach(() => {
  for (const [sub, person] of Object.entries(PEOPLE)) provider.people.set(sub, structuredClone<TestPerson>(person));
  provider.forgetEverything();
});

async function begin(form: Record<string, string> = {}, agent = 'axios/1.15.2') {
  const answer = await fetch(`${gateway.url}/oauth/device_authorization`, {
    method: 'POST',
    body: new URLSearchParams(form),
    headers: { 'user-agent': agent },
  });
  return (await answer.json()) as { device_code: string; user_code: string };
}

const pathOfGroup = () => {
  provider.people.get('ben')!.groups = ['everybody', '/engineering'];
};

describe('somebody in no group that may use the gateway', () => {
  it('hears it in the Messages client, too, which has a sentence of its own for access_denied', async () => {
    const { device_code, user_code } = await begin({ surface: 'claude_code' });
    await confirmInBrowser(gateway.url, user_code, 'ben');
    const { status, body } = await askForToken(gateway.url, pollWith(device_code));
    assert.deepEqual([status, body.error], [403, 'invalid_grant']);
    assert.match(body.error_description ?? '', /in none of the groups/);
  });

  it('is in the log and in a list for administrators, with the groups that came and those expected', async () => {
    pathOfGroup();
    const { user_code } = await begin({ surface: 'claude_code' }, 'claude-code/2.1.330');
    const page = await confirmInBrowser(gateway.url, user_code, 'ben');
    const request_id = /request ([0-9a-f-]{36})/.exec(page.text)?.[1];
    const { access_token } = await signIn(gateway.url, 'anna');
    const ask = async (token: string) =>
      fetch(`${gateway.url}/admin/api/refused-sign-ins?user=Ben@example.com`, {
        headers: { authorization: `Bearer ${token}` },
      });
    const answer = await ask(access_token);
    assert.equal(answer.status, 200);
    const { refused_sign_ins } = (await answer.json()) as { refused_sign_ins: Record<string, unknown>[] };
    const { id, at, detail, ...first } = refused_sign_ins[0]!;
    assert.equal(typeof id, 'number');
    assert.deepEqual(first, {
      email: 'ben@example.com',
      subject: 'ben',
      issuer: provider.issuer,
      client: 'Claude Code 2.1.330',
      client_address: '127.0.0.1',
      request_id,
      refused: 'group',
      groups: ['/engineering', 'everybody'],
      expected: ['engineering', 'research'],
    });
    assert.match(String(detail), /\/engineering came, and engineering is expected: the provider sends the full path/);
    assert.ok(Date.now() - new Date(String(at)).getTime() < 60_000);
    provider.people.get('ben')!.groups = ['engineering'];
    const nobody = await signIn(gateway.url, 'ben');
    assert.equal((await ask(nobody.access_token)).status, 403, 'for administrators alone');
  });
});

describe('somebody who leaves the groups that may use the gateway', () => {
  it('is in the list as well when their session is to be renewed, with the groups that came and those expected', async () => {
    provider.people.get('ben')!.groups = ['engineering'];
    const { device_code, user_code } = await begin({ surface: 'claude_code' }, 'claude-code/2.1.330');
    await confirmInBrowser(gateway.url, user_code, 'ben');
    const { body } = await askForToken(gateway.url, pollWith(device_code));
    pathOfGroup();
    const renewed = await askForToken(gateway.url, refreshWith(body.refresh_token));
    assert.deepEqual([renewed.status, renewed.body.error], [401, 'invalid_grant']);
    const { access_token } = await signIn(gateway.url, 'anna');
    const answer = await fetch(`${gateway.url}/admin/api/refused-sign-ins?user=ben@example.com`, {
      headers: { authorization: `Bearer ${access_token}` },
    });
    const { refused_sign_ins } = (await answer.json()) as { refused_sign_ins: Record<string, unknown>[] };
    const { client, client_address, request_id, refused, detail, groups, expected } = refused_sign_ins[0]!;
    assert.deepEqual(
      { client, client_address, refused, groups, expected },
      {
        client: 'Claude Code 2.1.330',
        client_address: '127.0.0.1',
        refused: 'group',
        groups: ['/engineering', 'everybody'],
        expected: ['engineering', 'research'],
      },
    );
    assert.match(String(request_id), /^[0-9a-f-]{36}$/);
    assert.match(
      String(detail),
      /^when a session was to be renewed: ben@example\.com is in none of .*\/engineering came/,
    );
  });
});

describe('the page of somebody who is refused', () => {
  /** The form on a refused page, sent; where it leads. */
  const other = async (user_code: string) =>
    fetch(`${gateway.url}/device`, {
      method: 'POST',
      body: new URLSearchParams({ user_code, action: 'other' }),
      headers: { origin: gateway.url },
      redirect: 'manual',
    });

  it('lets somebody else take the sign-in on, whom the provider asks for', async () => {
    const { device_code, user_code } = await begin();
    const page = await confirmInBrowser(gateway.url, user_code, 'ben');
    assert.match(page.text, /<form method="post" action="\.\.\/device">/);
    assert.match(page.text, /value="other">Sign in as somebody else<\/button>/);
    const left = await other(user_code);
    assert.equal(left.status, 303);
    const location = new URL(left.headers.get('location') ?? '');
    assert.equal(location.searchParams.get('prompt'), 'login');
    const cookie = left.headers.getSetCookie().map((set) => set.split(';', 1)[0]!);
    const done = await fetch(await approveAt(location.href, 'anna'), { headers: { cookie: cookie.join('; ') } });
    assert.equal(done.status, 200, await done.text());
    const { status, body } = await askForToken(gateway.url, pollWith(device_code));
    assert.deepEqual([status, body.email], [200, 'anna@example.com']);
  });

  it('says so when the terminal has given up', async () => {
    const { device_code, user_code } = await begin();
    await confirmInBrowser(gateway.url, user_code, 'ben');
    await askForToken(gateway.url, pollWith(device_code));
    const late = await other(user_code);
    assert.equal(late.status, 400);
    assert.match(await late.text(), /Your terminal has stopped waiting.*Use another account/s);
  });
});

it('every page has the name and the help of the operator: sign-in, refusal, error, and the root in a browser', async () => {
  const browse = async (path: string) =>
    (await fetch(gateway.url + path, { headers: { accept: 'text/html,*/*;q=0.8' } })).text();
  const { user_code } = await begin();
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
