import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import * as oauth from 'openid-client';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import type { TestGateway } from '../../support/gateway.ts';
import {
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
});

describe('somebody who may not', () => {
  const attempt = async (sub: string) => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    const page = await confirmInBrowser(gateway.url, user_code, sub);
    return { page, told: await askForToken(gateway.url, pollWith(device_code)) };
  };

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

  for (const mode of ['garbage', 'hang'] as const) {
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

it('a session that ends is revoked at the provider, once the account has no other; nobody waits for that', async () => {
  provider.people.set('dora', { ...provider.people.get('anna')!, email: 'dora@example.com' });
  const [first, second] = [await signIn(gateway.url, 'dora'), await signIn(gateway.url, 'dora')];
  const earlier = provider.requests.length;
  const revocations = () => provider.requests.slice(earlier).filter(({ url }) => url.includes('/revocation'));
  assert.equal((await revoke(first.access_token)).status, 200);
  const renewed = await renew(second.refresh_token);
  assert.equal(renewed.status, 200, 'the other terminal goes on');
  assert.deepEqual(revocations(), []);
  assert.equal((await revoke(renewed.body.access_token)).status, 200);
  await until('both are revoked', () => revocations().length === 2);
  for (const { body, headers } of revocations()) {
    const form = new URLSearchParams(body);
    assert.ok(form.get('token'));
    assert.equal(form.get('token_type_hint'), 'refresh_token');
    assert.match(headers.authorization ?? '', /^Basic /);
  }
});

describe('a device client that knows OAuth and nothing of this gateway', () => {
  it('signs in, renews, revokes', async () => {
    const client = await oauth.discovery(new URL(gateway.url), 'any-client', undefined, oauth.None(), {
      algorithm: 'oauth2',
      execute: [oauth.allowInsecureRequests],
    });
    const begun = await oauth.initiateDeviceAuthorization(client, { scope: 'openid profile' });
    await confirmInBrowser(gateway.url, begun.user_code, 'anna');
    // The first poll comes after an interval, and nobody is slowed down by one that is early when all is decided.
    const first = await oauth.pollDeviceAuthorizationGrant(client, { ...begun, interval: 0.01 });
    const second = await oauth.refreshTokenGrant(client, first.refresh_token!);
    assert.notEqual(second.refresh_token, first.refresh_token);
    await oauth.tokenRevocation(client, second.refresh_token!, { token_type_hint: 'refresh_token' });
    await assert.rejects(
      oauth.refreshTokenGrant(client, second.refresh_token!),
      (caught) =>
        caught instanceof oauth.ResponseBodyError &&
        caught.error === 'invalid_grant' &&
        caught.error_description !== undefined,
    );
  });
});
