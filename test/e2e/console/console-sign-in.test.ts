import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Clock } from '../../../engine/api.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { OF_CONSOLE, personIn, signInToConsole } from '../../support/console.ts';
import { approveAt, createBrowser, PEOPLE } from '../../support/identity/identity-provider.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

let ahead_ms = 0;
const clock: Clock = { ...systemClock, now: () => Date.now() + ahead_ms };
const MINUTE = 60_000;
const AUTH = { admin_groups: ['admins'], session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' } };

const people = { host: 'localhost' } as const;
const { provider, gateway, other } = useSignInScene({ clock, replicas: 2, people, auth: AUTH });

it('an administrator and a developer sign in, and are who they are', async () => {
  const anna = await signInToConsole(gateway.url, 'anna');
  const ben = await signInToConsole(gateway.url, 'ben');
  const [of_anna, of_ben] = [await anna.call('GET', '/console/session'), await ben.call('GET', '/console/session')];
  assert.deepEqual(of_anna.body.person, { email: 'anna@example.com', name: 'Anna Adler', is_admin: true });
  assert.deepEqual([of_ben.body.person.is_admin, of_ben.body.sign_in], [false, 'provider']);
  assert.equal((await anna.call('GET', '/admin/api/people')).status, 200);
  assert.equal((await ben.call('GET', '/admin/api/people')).status, 403);
  const me = await ben.call('GET', '/admin/api/me');
  assert.deepEqual([me.status, me.body.email, me.body.groups], [200, 'ben@example.com', ['marketing']]);
  const made = await ben.call('POST', '/admin/api/tokens', { name: 'laptop' });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { sessions } = (await ben.call('GET', '/admin/api/sessions')).body;
  const { user, kind } = sessions.find(({ current }: { current: boolean }) => current);
  assert.deepEqual({ user, kind }, { user: 'ben@example.com', kind: 'console' });
});

it('the cookie is of no use to scripts and other sites, and is different each time', async () => {
  const browser = createBrowser();
  const left = await browser.request(`${gateway.url}/console/sign-in`);
  const back = await browser.request(await approveAt(left.headers.get('location')!, 'ben'));
  const set = back.headers.getSetCookie().find((line) => line.startsWith('gw_session'))!;
  assert.match(set, /^gw_session_\d+=[\w-]{59}; Path=\/; HttpOnly; SameSite=Lax$/);
  const first = personIn(gateway.url, browser).cookie;
  const again = await signInToConsole(gateway.url, 'ben', browser);
  assert.notEqual(again.cookie, first);
  const former = { ...OF_CONSOLE, cookie: first };
  assert.equal((await again.send('GET', '/admin/api/me', { headers: former })).status, 401, 'the former one ended');
});

it('a session ends half an hour after its last use, and after eight hours in any case', async () => {
  const ben = await signInToConsole(gateway.url, 'ben');
  const works = async () => (await ben.call('GET', '/admin/api/me')).status === 200;
  ahead_ms += 29 * MINUTE;
  assert.ok(await works());
  ahead_ms += 29 * MINUTE;
  assert.ok(await works(), 'use extends it');
  ahead_ms += 31 * MINUTE;
  assert.equal(await works(), false);
  const state = await ben.call('GET', '/console/session');
  assert.equal(state.body.person, null);
  assert.match(state.body.signed_out_because, /idle for 30 minutes/);
  const anew = await signInToConsole(gateway.url, 'ben');
  for (let passed = 0; passed < 8 * 60 - 20; passed += 20) {
    ahead_ms += 20 * MINUTE;
    assert.equal((await anew.call('GET', '/admin/api/me')).status, 200, `after ${passed} minutes`);
  }
  ahead_ms += 20 * MINUTE;
  assert.equal((await anew.call('GET', '/admin/api/me')).status, 401);
});

it('background requests of the page do not extend a session', async () => {
  const ben = await signInToConsole(gateway.url, 'ben');
  const poll = () => ben.send('GET', '/admin/api/me', { headers: { ...OF_CONSOLE, 'x-console': '0' } });
  ahead_ms += 20 * MINUTE;
  assert.equal((await poll()).status, 200);
  ahead_ms += 11 * MINUTE;
  assert.equal((await poll()).status, 401);
});

it('checks with the provider every quarter of an hour, and replaces the cookie when groups change', async () => {
  const anna = await signInToConsole(gateway.url, 'anna');
  const former = anna.cookie;
  provider.people.get('anna')!.groups = ['engineering'];
  assert.equal((await anna.call('GET', '/admin/api/people')).status, 200);
  ahead_ms += 16 * MINUTE;
  const refused = await anna.call('GET', '/admin/api/people');
  assert.equal(refused.status, 403);
  assert.notEqual(anna.cookie, former);
  assert.equal((await anna.call('GET', '/console/session')).body.person.is_admin, false);
  const with_former = { headers: { ...OF_CONSOLE, cookie: former } };
  assert.equal((await anna.send('GET', '/admin/api/me', with_former)).status, 200, 'requests that are under way');
  ahead_ms += MINUTE;
  assert.equal((await anna.send('GET', '/admin/api/me', with_former)).status, 401);
  assert.equal((await anna.call('GET', '/admin/api/me')).status, 200);
});

it('a deleted account is out at the next check, and at once when an administrator ends its sessions', async () => {
  const [anna, ben] = [await signInToConsole(gateway.url, 'anna'), await signInToConsole(gateway.url, 'ben')];
  provider.people.delete('ben');
  ahead_ms += 16 * MINUTE;
  assert.equal((await ben.call('GET', '/admin/api/me')).status, 401);
  provider.people.set('ben', structuredClone(PEOPLE.ben) as never);
  const again = await signInToConsole(gateway.url, 'ben');
  const ended = await anna.call('POST', '/admin/api/people/ben@example.com/deprovision', { tokens: 'none' });
  assert.equal(ended.status, 200, JSON.stringify(ended.body));
  assert.equal((await again.call('GET', '/admin/api/me')).status, 401);
});

it('while the provider is away a session goes on for a while, and then its state is unknown', async () => {
  const ben = await signInToConsole(gateway.url, 'ben');
  provider.setMode('down');
  ahead_ms += 20 * MINUTE;
  assert.equal((await ben.call('GET', '/admin/api/me')).status, 200);
  ahead_ms += 20 * MINUTE;
  assert.equal((await ben.call('GET', '/admin/api/me')).status, 200);
  ahead_ms += 25 * MINUTE;
  const { status, body } = await ben.call('GET', '/admin/api/me');
  assert.deepEqual([status, body.error.code], [503, 'temporarily_unavailable']);
  assert.equal((await ben.call('POST', '/console/sign-out')).status, 200, 'sign-out always works');
});

it('a session whose grant no key decrypts is rejected at the next check, and lasts no longer for it', async () => {
  const ben = await signInToConsole(gateway.url, 'ben');
  const { knex } = gateway.database;
  const [{ id, sealed_grant }] = await knex('sessions').orderBy('created_at', 'desc').limit(1);
  await knex('sessions').where({ id }).update({ sealed_grant: 'of another key' });
  assert.equal((await ben.call('GET', '/admin/api/me')).status, 200);
  ahead_ms += 20 * MINUTE;
  const { status, body } = await ben.call('GET', '/admin/api/me');
  assert.deepEqual([status, body.error.code], [401, 'credential_revoked']);
  assert.match(body.error.message, /keys of the gateway were changed/);
  await knex('sessions').where({ id }).update({ sealed_grant });
  assert.equal((await ben.call('GET', '/admin/api/me')).status, 200, 'as after a failed update that is undone');
  await knex('sessions').where({ id }).update({ sealed_grant: 'of another key' });
  ahead_ms += 20 * MINUTE;
  assert.equal((await ben.call('GET', '/admin/api/me')).status, 401);
  await knex('sessions').where({ id }).update({ sealed_grant });
  ahead_ms += 11 * MINUTE;
  assert.equal((await ben.call('GET', '/admin/api/me')).status, 401, 'it was idle meanwhile');
});

it('signing out ends the session, and lists the remaining ones', async () => {
  const ben = await signInToConsole(gateway.url, 'ben');
  const { cookie } = ben;
  const { status, body } = await ben.call('POST', '/console/sign-out');
  assert.deepEqual([status, body], [200, { location: `${gateway.url}/console/signed-out` }]);
  assert.equal(ben.cookie, '');
  assert.equal((await ben.call('POST', '/console/sign-out')).status, 200, 'once more does no harm');
  const stolen = { headers: { ...OF_CONSOLE, cookie } };
  assert.equal((await ben.send('GET', '/admin/api/me', stolen)).status, 401);
  const page = await ben.send('GET', '/console/signed-out');
  assert.match(page.body, /You are signed out of the console/);
  assert.match(page.body, new RegExp(`href="${provider.issuer}/session/end\\?client_id=gateway"`));
});

it('a session is good at every replica, and ends at all of them at once', async () => {
  const ben = await signInToConsole(gateway.url, 'ben');
  const headers = { ...OF_CONSOLE, cookie: ben.cookie };
  const statusThere = async () => (await fetch(`${other.url}/admin/api/me`, { headers })).status;
  assert.equal(await statusThere(), 200);
  await ben.call('POST', '/console/sign-out');
  assert.equal(await statusThere(), 401);
});

it('shows a rejected user the reason, and offers another account', async () => {
  const browser = createBrowser();
  const left = await browser.request(`${gateway.url}/console/sign-in?back_to=/console/usage`);
  const back = await browser.request(await approveAt(left.headers.get('location')!, 'cleo'));
  const page = await back.text();
  assert.equal(back.status, 403);
  assert.match(page, /has not verified your e-mail address cleo@example.net/);
  assert.match(page, /console\/sign-in\?back_to=%2Fconsole%2Fusage&amp;other=1"/);
  assert.equal([...browser.cookies(gateway.url)].length, 0);
  const anna = await signInToConsole(gateway.url, 'anna');
  const { body } = await anna.call('GET', '/admin/api/refused-sign-ins?user=cleo@example.net');
  assert.equal(body.refused_sign_ins[0].refused, 'email_unverified');
});
