import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { cli } from '../../cli/support.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { PEOPLE } from '../../support/identity/identity-provider.ts';
import { until } from '../../support/until.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** How often the provider is asked about a user. */
const INTERVAL = 8 * HOUR;

/** Two replicas; no verification lasts longer than two days. */
const scene = useSignInScene({
  replicas: 2,
  frozen: true,
  auth: {
    personal_tokens: { suspend_after_days: 2, check_minutes: INTERVAL / 60_000 },
    session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' },
  },
});
const { ownToken, use } = scene;

const endSessions = () =>
  scene.gateway.database.query('test_forget', 'update sessions set expires_at = created_at', []);
beforeEach(endSessions);

const both = (token: string) => Promise.all(scene.gateways.map((gateway) => scene.statusOf(token, gateway)));
const becomes = (token: string, status: number) =>
  until(`both answer ${status}`, async () => (await both(token)).join() === `${status},${status}`);
const rounds = ({ logs }: TestGateway) => logs.filter((line) => line.includes('checked people who were due')).length;

/** Passes time, an interval at a time, so that the checks of both replicas become due and finish. */
async function pass(milliseconds: number): Promise<void> {
  for (let left = milliseconds; left > 0; left -= INTERVAL) {
    const before = scene.gateways.map(rounds);
    scene.clock.advance(Math.min(left, INTERVAL));
    if (left < INTERVAL / 4) continue;
    await until('the checks are done', () => scene.gateways.every((gateway, n) => rounds(gateway) > before[n]!));
  }
}

describe('a user disabled by the identity provider', () => {
  it('loses personal tokens everywhere when a renewal is rejected, and restores them by signing in', async () => {
    const session = await scene.signIn('ben');
    const own = await ownToken(session.access_token);
    const input = await scene.gateway.newToken({ user: 'ben@example.com' });
    assert.deepEqual(await both(own), [200, 200]);
    scene.provider.people.delete('ben');
    assert.equal((await scene.renew(session.refresh_token)).status, 401);
    const { status, text } = await use(own);
    assert.equal(status, 401);
    assert.match(text, /did not renew your sign-in.*Sign in again \(\\"npx --yes \S+\/client\.tgz login\\"\)/);
    await becomes(own, 401);
    assert.deepEqual(await both(input), [200, 200]);

    scene.provider.people.set('ben', structuredClone(PEOPLE.ben));
    await scene.signIn('ben');
    await becomes(own, 200);
  });

  it('loses it without a renewal, within the interval of the check, after one check', async () => {
    const own = await ownToken((await scene.signIn('ben')).access_token);
    const { gateway, provider } = scene;
    await gateway.newToken({ user: 'ben@example.com' });
    provider.people.delete('ben');
    provider.requests.length = 0;
    await pass(2 * INTERVAL);
    await becomes(own, 401);
    const asked = provider.requests.filter(({ endpoint }) => endpoint === 'token').length;
    assert.equal(asked, 1, 'one replica checks a user');
    const [changed] = await gateway.database.query<{ subject: string; after: object }>(
      'test_changes',
      `select subject, after from admin_changes where action = 'person.suspend' order by id desc limit 1`,
      [],
    );
    const because = 'the identity provider did not renew the sign-in';
    assert.deepEqual(changed, { subject: 'ben@example.com', after: { because } });
    const { stdout } = await cli(['users', 'list', '--config', gateway.config_file], { env: gateway.env });
    assert.match(stdout, /ben@example\.com .* now .*tokens of an/);
  });
});

describe('a user who never renews', () => {
  it('keeps it through an outage of the provider beyond the validity of its last response', async () => {
    const own = await ownToken((await scene.signIn('ben')).access_token);
    scene.provider.setMode('down');
    await pass(3 * DAY);
    assert.deepEqual(await both(own), [200, 200]);
    scene.provider.setMode('up');
    await pass(INTERVAL);
    assert.deepEqual(await both(own), [200, 200], 'and nothing is suspended because it was long');
  });

  it('is announced in lists if it cannot be checked, and is suspended then', async () => {
    const { access_token } = await scene.signIn('ben');
    const own = await ownToken(access_token, 'unasked');
    await endSessions();
    const { own_tokens_suspend_at, own_tokens_suspended } = await scene.api(access_token, 'GET', 'me');
    assert.equal(own_tokens_suspended, false);
    const { tokens } = await scene.api(access_token, 'GET', 'tokens');
    const shown = (tokens as { name: string; suspends_at: string }[]).find(({ name }) => name === 'unasked')!;
    assert.equal(shown.suspends_at, own_tokens_suspend_at);
    assert.ok(Date.parse(shown.suspends_at) - (scene.clock.now() + 2 * DAY) < 60_000);
    await pass(2 * DAY - HOUR);
    assert.deepEqual(await both(own), [200, 200]);
    await pass(HOUR + 60_000);
    assert.deepEqual(await both(own), [401, 401]);
    const { text } = await use(own);
    assert.match(text, /has not confirmed you for 2 days/);
    assert.match(text, /credential_revoked/);
  });
});
