import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { approveAt } from '../../support/identity/identity-provider.ts';
import { askForToken, confirmInBrowser, pollWith } from '../../support/identity/sign-in.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({
  oidc: { allowed_groups: ['engineering', 'research'] },
  config: { branding: { name: 'Acme AI', support_url: 'https://help.example.com/ai' } },
  auth: { admin_groups: ['admins'] },
});

/** Begins a sign-in, by default as the Messages client does, and completes it in a browser. */
async function tryAs(sub: string, form: Record<string, string> = { surface: 'claude_code' }) {
  const { url } = scene.gateway;
  const response = await fetch(`${url}/oauth/device_authorization`, {
    method: 'POST',
    body: new URLSearchParams(form),
    headers: { 'user-agent': 'claude-code/2.1.330' },
  });
  const begun = (await response.json()) as { device_code: string; user_code: string };
  const page = await confirmInBrowser(url, begun.user_code, sub);
  return { ...begun, page, poll: () => askForToken(url, pollWith(begun.device_code)) };
}

/** The newest rejection of Ben that administrators see. */
async function refusalOfBen() {
  const { access_token } = await scene.signIn('anna');
  const { status, refused_sign_ins } = await scene.api(access_token, 'GET', 'refused-sign-ins?user=Ben@example.com');
  assert.equal(status, 200);
  const { id, at, detail, ...refusal } = refused_sign_ins[0];
  assert.equal(typeof id, 'number');
  assert.ok(Date.now() - new Date(at).getTime() < 60_000);
  return { detail, ...refusal };
}

const putInto = (groups: readonly string[]) => {
  scene.provider.people.get('ben')!.groups = groups;
};

describe('a user in no group of the gateway', () => {
  it('hears it in the Messages client, too, which has a sentence of its own for access_denied', async () => {
    const { status, body } = await (await tryAs('ben')).poll();
    assert.deepEqual([status, body.error], [403, 'invalid_grant']);
    assert.match(body.error_description ?? '', /in none of the groups/);
  });

  const LISTED = {
    email: 'ben@example.com',
    subject: 'ben',
    client: 'Claude Code 2.1.330',
    client_address: '127.0.0.1',
    refused: 'group',
    groups: ['/engineering', 'everybody'],
    expected: ['engineering', 'research'],
  };

  it('is in the log and in a list for administrators, with the received and the expected groups', async () => {
    putInto(['everybody', '/engineering']);
    const { page } = await tryAs('ben');
    const request_id = /request ([0-9a-f-]{36})/.exec(page.text)?.[1];
    const { detail, ...listed } = await refusalOfBen();
    assert.deepEqual(listed, { ...LISTED, issuer: scene.provider.issuer, request_id });
    assert.match(detail, /\/engineering came, and engineering is expected: the provider sends the full path/);
    putInto(['engineering']);
    const rejected = await scene.signIn('ben');
    const response = await scene.api(rejected.access_token, 'GET', 'refused-sign-ins?user=ben@example.com');
    assert.equal(response.status, 403, 'for administrators alone');
  });

  it('is there as well when they leave the groups and their session is to be renewed', async () => {
    putInto(['engineering']);
    const { body } = await (await tryAs('ben')).poll();
    putInto(['everybody', '/engineering']);
    const renewed = await scene.renew(body.refresh_token);
    assert.deepEqual([renewed.status, renewed.body.error], [401, 'invalid_grant']);
    const { detail, request_id, ...listed } = await refusalOfBen();
    assert.deepEqual(listed, { ...LISTED, issuer: scene.provider.issuer });
    assert.match(request_id, /^[0-9a-f-]{36}$/);
    assert.match(detail, /^when a session was to be renewed: ben@example\.com is in none of .*\/engineering came/);
  });
});

describe('the page of a rejected user', () => {
  /** The form on an error page, sent; returns its target. */
  const sendOther = async (user_code: string) =>
    fetch(`${scene.gateway.url}/device`, {
      method: 'POST',
      body: new URLSearchParams({ user_code, action: 'other' }),
      headers: { origin: scene.gateway.url },
      redirect: 'manual',
    });

  it('lets another user take over the sign-in, whom the provider asks for', async () => {
    const { user_code, page, poll } = await tryAs('ben', {});
    assert.match(page.text, /<form method="post" action="\.\.\/device">/);
    assert.match(page.text, /value="other">Use another account<\/button>/);
    const left = await sendOther(user_code);
    assert.equal(left.status, 303);
    const location = new URL(left.headers.get('location') ?? '');
    assert.equal(location.searchParams.get('prompt'), 'login');
    const cookie = left.headers.getSetCookie().map((set) => set.split(';', 1)[0]!);
    const done = await fetch(await approveAt(location.href, 'anna'), { headers: { cookie: cookie.join('; ') } });
    assert.equal(done.status, 200, await done.text());
    const { status, body } = await poll();
    assert.deepEqual([status, body.email], [200, 'anna@example.com']);
  });

  it('reports that the terminal has given up', async () => {
    const { user_code, poll } = await tryAs('ben', {});
    await poll();
    const late = await sendOther(user_code);
    assert.equal(late.status, 400);
    assert.match(await late.text(), /Your terminal has stopped waiting.*Use another account/s);
  });
});

it('every page has the name and help of the operator: sign-in, rejection, error, root in a browser', async () => {
  const { url } = scene.gateway;
  const browse = async (path: string) =>
    (await fetch(url + path, { headers: { accept: 'text/html,*/*;q=0.8' } })).text();
  const { user_code, page } = await tryAs('ben', {});
  const paths = ['/', '/device', `/device?user_code=${user_code}`, '/oauth/callback?state=nobody'];
  const pages = [...(await Promise.all(paths.map(browse))), page.text];
  for (const text of pages) {
    assert.match(text, / · Acme AI<\/title>/);
    assert.match(text, /<a href="https:\/\/help\.example\.com\/ai" rel="noreferrer">Get help<\/a>/);
  }
  assert.match(pages[0]!, /gateway to language models/);
  assert.match(pages.at(-1)!, /Access denied/);
});
