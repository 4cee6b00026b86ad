import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import type { TestGateway } from '../../support/gateway.ts';
import {
  type Endpoint,
  PEOPLE,
  startIdentityProvider,
  type TestIdentityProvider,
  type TestPerson,
} from '../../support/identity/identity-provider.ts';
import {
  askForToken,
  beginSignIn,
  bootSignIn,
  confirmInBrowser,
  pollWith,
  refreshWith,
  SIGNING_KEY,
  signIn,
} from '../../support/identity/sign-in.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, send } from '../support/client.ts';

let provider: TestIdentityProvider;
let upstream: ScriptedUpstream;
let gateway: TestGateway;
let clock: FrozenClock;

before(async () => {
  provider = await startIdentityProvider();
  upstream = await startUpstream();
  clock = frozenClock(Date.now());
  gateway = await bootSignIn({
    provider,
    upstream_url: upstream.url,
    clock,
    oidc: { allowed_groups: ['engineering'], timeout_seconds: 5 },
    auth: { limits: { device_authorizations: 1000, code_submissions: 1000, window_seconds: 600 } },
  });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await provider?.close();
});
beforeEach(() => {
  provider.setMode('up');
  for (const [sub, person] of Object.entries(PEOPLE)) provider.people.set(sub, structuredClone<TestPerson>(person));
  provider.only_in_userinfo.clear();
  provider.forgetEverything();
  upstream.script = answerJson(message());
});

const models = (token: string) =>
  send(gateway.url, { method: 'GET', path: '/v1/models?limit=1000', headers: ['authorization', `Bearer ${token}`] });
const renew = (refresh_token: string) => askForToken(gateway.url, refreshWith(refresh_token));
const revoke = (token: string) =>
  fetch(`${gateway.url}/oauth/revoke`, { method: 'POST', body: new URLSearchParams({ token }) });

/** How a session token is refused: by the very next request. */
async function refusalOf(token: string) {
  const answer = await models(token);
  assert.equal(answer.status, 401);
  return answer;
}

describe('somebody who signs in', () => {
  it('uses the gateway, renews the session token, signs out', async () => {
    const first = await signIn(gateway.url, 'anna');
    assert.deepEqual([first.expires_in, first.email], [3600, 'anna@example.com']);
    assert.equal((await models(first.access_token)).status, 200);
    assert.equal((await ask(gateway.url, first.access_token)).status, 200);

    const second = await renew(first.refresh_token);
    assert.equal(second.status, 200);
    assert.equal((await models(second.body.access_token)).status, 200);

    assert.equal((await revoke(second.body.access_token)).status, 200);
    const refusal = await refusalOf(second.body.access_token);
    assert.equal(refusal.headers['x-should-retry'], 'false');
    assert.equal(refusal.json().error.code, 'credential_revoked');
    assert.equal((await renew(second.body.refresh_token)).status, 401);
  });

  it('may send the session token as x-api-key too', async () => {
    const { access_token } = await signIn(gateway.url, 'anna');
    const answer = await send(gateway.url, { method: 'GET', path: '/v1/models', headers: ['x-api-key', access_token] });
    assert.equal(answer.status, 200);
  });

  it('is told so when it sends the refresh token instead', async () => {
    const { refresh_token } = await signIn(gateway.url, 'anna');
    const headers = ['authorization', `Bearer ${refresh_token}`];
    const { status, text } = await send(gateway.url, { method: 'GET', path: '/v1/models', headers });
    assert.equal(status, 401);
    assert.match(text, /This is a refresh token/);
    assert.ok(!text.includes(refresh_token));
  });

  it('has to renew the session token after an hour', async () => {
    const { access_token, refresh_token } = await signIn(gateway.url, 'anna');
    clock.advance(3600_000);
    const refusal = await models(access_token);
    assert.equal(refusal.status, 401);
    assert.equal(refusal.headers['x-should-retry'], 'false');
    assert.equal((await renew(refresh_token)).status, 200);
  });

  it('gets the same again from a refresh token that was used a moment ago', async () => {
    const first = await signIn(gateway.url, 'anna');
    const second = await renew(first.refresh_token);
    const again = await renew(first.refresh_token);
    assert.deepEqual([again.status, again.body.refresh_token], [200, second.body.refresh_token]);
    for (const { body } of [second, again]) assert.equal((await models(body.access_token)).status, 200);
    assert.equal((await renew(second.body.refresh_token)).status, 200);
  });

  it('gets one session from many requests with one device code', async () => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    await confirmInBrowser(gateway.url, user_code, 'anna');
    const answers = await Promise.all(Array.from({ length: 8 }, () => askForToken(gateway.url, pollWith(device_code))));
    for (const { status } of answers) assert.equal(status, 200);
    assert.equal(new Set(answers.map(({ body }) => body.refresh_token)).size, 1);
  });

  it('has ten minutes for it', async () => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    clock.advance(600_000);
    assert.equal((await askForToken(gateway.url, pollWith(device_code))).body.error, 'expired_token');
    const page = await confirmInBrowser(gateway.url, user_code, 'anna');
    assert.equal(page.status, 404);
  });

  it('is told to slow down, and waits, until the code is confirmed', async () => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    const poll = async () => (await askForToken(gateway.url, pollWith(device_code))).body.error;
    assert.equal(await poll(), 'authorization_pending');
    assert.equal(await poll(), 'slow_down');
    clock.advance(5000);
    assert.equal(await poll(), 'authorization_pending');
    await confirmInBrowser(gateway.url, user_code, 'anna');
    assert.equal(await poll(), undefined);
  });
});

describe('somebody who may not', () => {
  const attempt = async (sub: string) => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    const page = await confirmInBrowser(gateway.url, user_code, sub);
    return { page, told: await askForToken(gateway.url, pollWith(device_code)) };
  };

  it('is told by the page and by the terminal: not in an allowed group', async () => {
    const { page, told } = await attempt('ben');
    assert.equal(page.status, 403);
    assert.match(page.text, /groups/);
    assert.deepEqual([told.status, told.body.error], [400, 'access_denied']);
  });

  it('is told likewise: an e-mail address nobody verified', async () => {
    const { page, told } = await attempt('cleo');
    assert.equal(page.status, 403);
    assert.match(page.text, /verified/);
    assert.equal(told.body.error, 'access_denied');
  });

  it('finds a list of groups that is none just as closed', async () => {
    for (const groups of [{ engineering: true }, [{ name: 'engineering' }], 'engineering,admins']) {
      provider.people.get('anna')!.groups = groups;
      provider.forgetEverything();
      const { page } = await attempt('anna');
      assert.equal(page.status, 403, JSON.stringify(groups));
    }
  });
});

describe('the identity provider, asked again at each refresh,', () => {
  it('takes a removed person away, and with the person the session', async () => {
    const { access_token, refresh_token } = await signIn(gateway.url, 'anna');
    provider.people.delete('anna');
    const answer = await renew(refresh_token);
    assert.deepEqual([answer.status, answer.body.error], [401, 'invalid_grant']);
    await refusalOf(access_token);
  });

  it('takes a person away who lost the group, and every other session too', async () => {
    const [one, other] = [await signIn(gateway.url, 'anna'), await signIn(gateway.url, 'anna')];
    provider.people.get('anna')!.groups = ['marketing'];
    const answer = await renew(one.refresh_token);
    assert.deepEqual([answer.status, answer.body.error], [401, 'invalid_grant']);
    assert.match(answer.body.error_description ?? '', /groups/);
    await refusalOf(one.access_token);
    await refusalOf(other.access_token);
    assert.equal((await renew(other.refresh_token)).status, 401);
  });

  it('gives a person new groups', async () => {
    const { refresh_token } = await signIn(gateway.url, 'anna');
    provider.people.get('anna')!.groups = ['engineering', 'on-call'];
    const { body } = await renew(refresh_token);
    const headers = { authorization: `Bearer ${body.access_token}` };
    const me = (await (await fetch(`${gateway.url}/admin/api/me`, { headers })).json()) as { groups: string[] };
    assert.deepEqual(me.groups, ['engineering', 'on-call']);
  });

  for (const mode of ['down', 'error500', 'garbage', 'hang'] as const) {
    it(`signs nobody out when it is ${mode}`, async () => {
      const { access_token, refresh_token } = await signIn(gateway.url, 'anna');
      provider.setMode(mode, 'token');
      provider.requests.length = 0;
      const asked = renew(refresh_token);
      if (mode === 'hang') await whileItHangs(refresh_token);
      const answer = await asked;
      assert.deepEqual([answer.status, answer.body.error], [503, 'temporarily_unavailable']);
      assert.equal((await models(access_token)).status, 200);
      provider.setMode('up');
      assert.equal((await renew(refresh_token)).status, 200);
    });
  }

  it('signs nobody out when it replaced its own refresh token and then failed', async () => {
    provider.only_in_userinfo.add('groups');
    const { refresh_token } = await signIn(gateway.url, 'anna');
    provider.setMode('down', 'userinfo');
    assert.equal((await renew(refresh_token)).body.error, 'temporarily_unavailable');
    provider.setMode('up');
    const { status, body } = await renew(refresh_token);
    assert.equal(status, 200);
    assert.equal((await renew(body.refresh_token)).status, 200);
  });
});

/** Another refresh is told to wait; then the time that the identity provider may take runs out. */
async function whileItHangs(refresh_token: string): Promise<void> {
  await until('the identity provider was asked', () => provider.requests.some(({ endpoint }) => endpoint === 'token'));
  const second = await renew(refresh_token);
  assert.deepEqual([second.status, second.body.error], [503, 'temporarily_unavailable']);
  assert.match(second.body.error_description ?? '', /another request/);
  clock.advance(5000);
}

describe('the identity provider, out of order,', () => {
  it('costs a person nothing but a second try, wherever on the way it fails', async () => {
    const steps: readonly Endpoint[] = ['discovery', 'token', 'jwks', 'userinfo'];
    provider.only_in_userinfo.add('groups');
    for (const endpoint of steps) {
      // Another gateway for each, since what was fetched once is kept.
      const fresh = await bootSignIn({ provider, clock });
      try {
        const { device_code, user_code } = await beginSignIn(fresh.url);
        provider.setMode('down', endpoint);
        const page = await confirmInBrowser(fresh.url, user_code, 'anna');
        assert.equal(page.status, 503, `${endpoint}: ${page.text}`);
        assert.ok(page.text.includes(`href="${fresh.url}/device?user_code=${user_code}"`), endpoint);
        provider.setMode('up');
        assert.equal((await confirmInBrowser(fresh.url, user_code, 'anna')).status, 200, endpoint);
        assert.equal((await askForToken(fresh.url, pollWith(device_code))).status, 200, endpoint);
      } finally {
        await fresh.close();
      }
    }
  });

  it('is not asked about a bad token, which gets its 401 in JSON while the provider hangs', async () => {
    provider.setMode('hang');
    const asked = provider.requests.length;
    for (const token of ['gw_nonsense', 'ey.nonsense.x', '']) {
      const answer = await models(token);
      assert.equal(answer.status, 401);
      assert.equal(answer.json().type, 'error');
    }
    const begun = await beginSignIn(gateway.url);
    assert.ok(begun.user_code);
    // What another test left under way may still be asked.
    assert.doesNotMatch(JSON.stringify(provider.requests.slice(asked)), /nonsense/);
  });
});

describe('nothing secret', () => {
  it('is in the log, the audit table or the record of changes', async () => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    await confirmInBrowser(gateway.url, user_code, 'anna');
    const { body: first } = await askForToken(gateway.url, pollWith(device_code));
    const { body: second } = await renew(first.refresh_token);
    await ask(gateway.url, second.access_token);
    provider.people.get('anna')!.groups = [];
    await renew(second.refresh_token);
    await revoke(second.refresh_token);

    const tables = [
      'audit_log',
      'admin_changes',
      'principals',
      'sessions',
      'refresh_tokens',
      'device_grants',
      'attempts',
    ];
    const rows = await Promise.all(tables.map((table) => gateway.database.knex(table).select()));
    const written = `${gateway.logs.join('\n')}\n${JSON.stringify(rows)}`;
    assert.match(written, /anna@example\.com/);
    const [code] = provider.requests.flatMap(({ body }) => /(?:^|&)code=([^&]+)/.exec(body)?.[1] ?? []).slice(-1);
    const provider_tokens = provider.requests.flatMap(({ body }) => /refresh_token=([^&]+)/.exec(body)?.[1] ?? []);
    const tokens = [first, second].flatMap(({ access_token, refresh_token }) => [access_token, refresh_token]);
    assert.ok(code !== undefined && provider_tokens.length > 0);
    for (const secret of [...tokens, device_code, code, ...provider_tokens, provider.client_secret, SIGNING_KEY]) {
      assert.ok(!written.includes(secret), `${secret} is written somewhere`);
    }
    assert.ok(!gateway.logs.join('\n').includes(user_code));
  });
});
