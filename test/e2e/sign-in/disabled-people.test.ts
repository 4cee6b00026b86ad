import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { cli } from '../../cli/support.ts';
import { createTestDatabase } from '../../support/database.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { PEOPLE, startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, bootSignIn, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** How often the provider is asked about somebody. */
const INTERVAL = 8 * HOUR;

let provider: TestIdentityProvider;
let shared: Awaited<ReturnType<typeof createTestDatabase>>;
let clocks: FrozenClock[];
let one: TestGateway;
let other: TestGateway;

/** Two replicas; nobody is verified longer than two days. */
async function boot(public_url?: string): Promise<TestGateway> {
  const clock = frozenClock(Date.now());
  clocks.push(clock);
  return bootSignIn({
    provider,
    clock,
    database_url: shared.url,
    auth: {
      self_made_tokens: { suspend_after_days: 2, check_minutes: INTERVAL / 60_000 },
      session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' },
      limits: { device_authorizations: 1000, code_submissions: 1000 },
    },
    ...(public_url === undefined ? {} : { public_url }),
  });
}

before(async () => {
  provider = await startIdentityProvider();
  shared = await createTestDatabase();
  clocks = [];
  one = await boot();
  other = await boot(one.url);
});
after(async () => {
  await other?.close();
  await one?.close();
  await shared?.drop();
  await provider?.close();
});
beforeEach(async () => {
  await one.database.query('test_forget', 'update sessions set expires_at = created_at', []);
  provider.setMode('up');
  provider.people.set('ben', structuredClone(PEOPLE.ben));
  provider.requests.length = 0;
});

async function api(gateway: TestGateway, token: string, method: string, path: string, body?: object) {
  const response = await fetch(gateway.url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever is in there
  return { status: response.status, ...((await response.json()) as any) };
}

async function makeOwn(session: { readonly access_token: string }, name = 'ci'): Promise<string> {
  const { token } = await api(one, session.access_token, 'POST', '/admin/api/tokens', { name });
  return token;
}

const use = (gateway: TestGateway, token: string) => api(gateway, token, 'GET', '/v1/models');
const both = async (token: string) => [(await use(one, token)).status, (await use(other, token)).status];
const asks = () => provider.requests.filter(({ endpoint }) => endpoint === 'token').length;

const rounds = ({ logs }: TestGateway) =>
  logs.filter((line) => line.includes('asked about people who were due')).length;

/** Lets time pass on both replicas, an interval at a time, so that each of their checks comes due and is done. */
async function pass(milliseconds: number): Promise<void> {
  for (let left = milliseconds; left > 0; left -= INTERVAL) {
    for (const [at, gateway] of [one, other].entries()) {
      const before = rounds(gateway);
      clocks[at]!.advance(Math.min(left, INTERVAL));
      if (left >= INTERVAL / 4) await until('the check is done', () => rounds(gateway) > before);
    }
  }
}

describe('somebody whom the identity provider disables', () => {
  it('loses what they made on every replica when a renewal is refused, keeps what they were given, and wakes it by signing in', async () => {
    const session = await signIn(one.url, 'ben');
    const [own, given] = [await makeOwn(session), await one.newToken({ user: 'ben@example.com' })];
    assert.deepEqual(await both(own), [200, 200]);
    provider.people.delete('ben');
    assert.equal((await askForToken(one.url, refreshWith(session.refresh_token))).status, 401);
    const { status, error } = await use(one, own);
    assert.equal(status, 401);
    assert.match(error.message, /did not renew your sign-in.*Sign in again \("npx --yes \S+\/client\.tgz login"\)/);
    await until('the other replica refuses it, too', async () => (await use(other, own)).status === 401);
    assert.deepEqual(await both(given), [200, 200]);

    provider.people.set('ben', structuredClone(PEOPLE.ben));
    await signIn(one.url, 'ben');
    await until('it works again', async () => (await both(own)).join() === '200,200');
  });

  it('loses it without renewing anything, within the interval of the check, and is asked about once', async () => {
    const own = await makeOwn(await signIn(one.url, 'ben'));
    await one.newToken({ user: 'ben@example.com' });
    provider.people.delete('ben');
    provider.requests.length = 0;
    await pass(2 * INTERVAL);
    await until('both refuse it', async () => (await both(own)).join() === '401,401');
    assert.equal(asks(), 1, 'one replica asks about a person');
    const [changed] = await one.database.query<{ subject: string; after: object }>(
      'test_changes',
      `select subject, after from admin_changes where action = 'person.suspend' order by id desc limit 1`,
      [],
    );
    assert.deepEqual(changed, {
      subject: 'ben@example.com',
      after: { because: 'the identity provider refused to renew the sign-in' },
    });
    const { stdout } = await cli(['people', 'list', '--config', one.config_file], { env: one.env });
    assert.match(stdout, /ben@example\.com .* now .*tokens of an/);
  });
});

describe('somebody who never renews', () => {
  it('keeps it through an outage of the provider that is longer than its word counts', async () => {
    const own = await makeOwn(await signIn(one.url, 'ben'));
    provider.setMode('down');
    await pass(3 * DAY);
    assert.deepEqual(await both(own), [200, 200]);
    provider.setMode('up');
    await pass(INTERVAL);
    assert.deepEqual(await both(own), [200, 200], 'and nothing is suspended because it was long');
  });

  it('is told by lists when it will rest where there is nothing to ask with, and it does', async () => {
    const session = await signIn(one.url, 'ben');
    const own = await makeOwn(session, 'unasked');
    await one.database.query('test_end', `update sessions set expires_at = created_at where revoked_at is null`, []);
    const { own_tokens_suspend_at, own_tokens_suspended } = await api(
      one,
      session.access_token,
      'GET',
      '/admin/api/me',
    );
    assert.equal(own_tokens_suspended, false);
    const { tokens } = await api(one, session.access_token, 'GET', '/admin/api/tokens');
    const shown = (tokens as { name: string; suspends_at: string }[]).find(({ name }) => name === 'unasked')!;
    assert.equal(shown.suspends_at, own_tokens_suspend_at);
    assert.equal(Date.parse(shown.suspends_at) - (clocks[0]!.now() + 2 * DAY) < 60_000, true);
    await pass(2 * DAY - HOUR);
    assert.deepEqual(await both(own), [200, 200]);
    await pass(HOUR + 60_000);
    assert.deepEqual(await both(own), [401, 401]);
    assert.match((await use(one, own)).error.message, /not signed in for 2 days/);
  });
});
