import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ProviderGrant } from '../../../engine/domain/identity/provider/provider.ts';
import { until } from '../../support/until.ts';
import { ANNA, assertError, fails, useSignIn } from './support.ts';

const { served, backstage, rows, ask, renew, signIn } = useSignIn();
const onlySession = async () => (await rows('sessions'))[0]!;
const change = (columns: object) => rows('sessions').update(columns);

/** Anna, as the gateway then has her. */
const admit = (more: object) => {
  const person = { issuer: ANNA.iss, subject: ANNA.sub, email: ANNA.email, groups: [], ...more };
  backstage.admit = () => ({ person });
};

/** Asserts that a refresh token is valid, and with which grant of the identity provider it is renewed. */
async function assertStillGood(refresh_token: string, recheck: typeof backstage.provider.recheck, asked_with: string) {
  const asked: unknown[] = [];
  backstage.provider.recheck = (grant) => {
    asked.push(grant.refresh_token);
    return recheck(grant);
  };
  assert.equal((await renew(refresh_token)).status, 200);
  assert.deepEqual(asked, [asked_with]);
}

/** Well-formed, and unassigned. */
const UNKNOWN = `gwr_${'x'.repeat(42)}A`;

describe('a refresh', () => {
  it('is rejected with 401 invalid_grant for useless tokens', async () => {
    const unknown = await renew(UNKNOWN);
    assertError(unknown, 401, 'invalid_grant', /unknown/);
    // OAuth clients that see a challenge look no further.
    assert.equal(unknown.headers['www-authenticate'], undefined);
    const said = { expired: /over/, revoked: /ended/, replaced: /stored credentials/ } as const;
    for (const [outcome, words] of Object.entries(said)) {
      backstage.refresh_outcome = outcome as keyof typeof said;
      assertError(await renew(UNKNOWN), 401, 'invalid_grant', words);
    }
  });

  it('is rejected for a replaced token for a while, then for good', async () => {
    const { refresh_token } = await signIn();
    backstage.clock.advance(60_000);
    assert.equal((await renew(refresh_token)).status, 200);
    await change({ seen_at: new Date(backstage.clock.now()) });
    backstage.clock.advance(60_000);
    assertError(await renew(refresh_token), 503, 'temporarily_unavailable', /Read the stored credentials again/);
    assertError(await renew(refresh_token), 401, 'invalid_grant', /may have been copied/);
  });

  it('waits for another one of the same session that is under way, and ends nothing', async () => {
    backstage.refresh_outcome = 'busy';
    const response = await renew(UNKNOWN);
    assertError(response, 503, 'temporarily_unavailable', /Another request/);
    assert.equal(response.headers['retry-after'], '1');
  });
});

describe('the identity provider, queried at a refresh,', () => {
  const moon = () => {
    throw new TypeError('cannot read properties of the moon');
  };
  const failures: [string, () => never, number, string][] = [
    ['be unavailable', fails('unavailable'), 503, 'temporarily_unavailable'],
    ['be invalid', fails('invalid'), 503, 'temporarily_unavailable'],
    ['break in an unforeseen way', moon, 500, 'server_error'],
  ];
  for (const [what, failure, status, error] of failures) {
    it(`may ${what}: ${status}, the details only in the log, and the refresh token stays valid`, async () => {
      const { refresh_token } = await signIn();
      const { recheck } = backstage.provider;
      backstage.provider.recheck = failure;
      const response = await renew(refresh_token);
      assertError(response, status, error);
      if (status === 503) assert.ok(Number(response.headers['retry-after']) > 0);
      assert.doesNotMatch(response.text, /not nice|moon/);
      assert.match(backstage.logs.join('\n'), /not nice|a sign-in request failed/);
      backstage.provider.recheck = recheck;
      assert.equal((await renew(refresh_token)).status, 200);
    });
  }

  const replaced: ProviderGrant = { subject: ANNA.sub, refresh_token: 'replaced-88' };

  it('may fail after it replaced its own refresh token: the new one is used next', async () => {
    const { refresh_token } = await signIn();
    const { recheck } = backstage.provider;
    backstage.provider.recheck = fails('unavailable', 'userinfo is down', { grant: replaced });
    assertError(await renew(refresh_token), 503, 'temporarily_unavailable');
    await assertStillGood(refresh_token, recheck, 'replaced-88');
  });

  it("may outlast the client's timeout: its refresh token stays valid, and the replacement is stored", async () => {
    const { refresh_token } = await signIn();
    const { recheck } = backstage.provider;
    const giving_up = new AbortController();
    backstage.provider.recheck = async (grant) => {
      giving_up.abort();
      // By the time another request has its response, the end of this one's connection has been seen.
      await ask('GET', '/device');
      return { ...(await recheck(grant)), grant: replaced };
    };
    const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token });
    await assert.rejects(fetch(`${served.url}/oauth/token`, { method: 'POST', body, signal: giving_up.signal }));
    await until('the refresh is over', async () => (await onlySession()).refreshing_until === null);
    await assertStillGood(refresh_token, recheck, 'replaced-88');
  });

  it('may describe another user: 401, and the session is over', async () => {
    const others = [{ subject: 'mallory' }, { email: 'renamed@example.com' }, { issuer: 'https://other.example' }];
    for (const other of others) {
      admit({});
      const { refresh_token } = await signIn();
      admit(other);
      assertError(await renew(refresh_token), 401, 'invalid_grant', /another identity/);
    }
    for (const { revoked_because } of await rows('sessions')) assert.match(revoked_because, /another identity/);
  });

  it('is not queried while its stored data cannot be opened', async () => {
    const { refresh_token } = await signIn();
    await change({ sealed_grant: 'eyJhbGciOiJkaXIifQ..made.up' });
    assertError(await renew(refresh_token), 401, 'invalid_grant', /keys/);
    const { revoked_at, refreshing_until } = await onlySession();
    assert.deepEqual([revoked_at, refreshing_until], [null, null], 'the key may come back');
  });

  it('may take so long that the session is ended meanwhile: 401', async () => {
    const { refresh_token } = await signIn();
    const { recheck } = backstage.provider;
    backstage.provider.recheck = async () => {
      await change({ revoked_at: new Date(backstage.clock.now()) });
      return recheck({ subject: ANNA.sub });
    };
    assertError(await renew(refresh_token), 401, 'invalid_grant', /ended/);
  });
});

describe('a revocation', () => {
  const revoke = (token: string, more: object = {}) => ask('POST', '/oauth/revoke', { form: { token, ...more } });

  it('is content with tokens that mean nothing, and with being repeated', async () => {
    const { access_token } = await signIn();
    const forged = `${access_token.slice(0, -6)}AAAAAA`;
    for (const token of ['x', 'gwr_unknown', 'a.b.c', forged, 'x'.repeat(20_000), access_token, access_token]) {
      assert.equal((await revoke(token)).status, 200, token.slice(0, 20));
    }
  });

  it('requires a token, and explains where access tokens are revoked', async () => {
    assertError(await ask('POST', '/oauth/revoke', { form: {} }), 400, 'invalid_request', /'token'/);
    assertError(await revoke(`gw_${'a'.repeat(49)}`), 400, 'unsupported_token_type', /appscli tokens revoke/);
  });
});
