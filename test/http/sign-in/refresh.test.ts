import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ProviderError } from '../../../engine/identity/provider/provider.ts';
import { until } from '../../support/until.ts';
import { ANNA, type Ask, type Backstage, cookieOf, SAME_ORIGIN, useSignIn } from './support.ts';

let ask: Ask;
let backstage: Backstage;
let url: string;
useSignIn((opened) => ({ ask, backstage, url } = opened));

/** Signs Anna in. */
async function signIn() {
  const begun = (await ask('POST', '/oauth/device_authorization')).json();
  const form = { user_code: begun.user_code };
  const away = await ask('POST', '/device', { form, headers: SAME_ORIGIN });
  const state = new URL(String(away.headers.location)).searchParams.get('state');
  await ask('GET', `/oauth/callback?code=a&state=${state}`, { headers: { cookie: cookieOf(away) } });
  const grant_type = 'urn:ietf:params:oauth:grant-type:device_code';
  const answer = await ask('POST', '/oauth/token', { form: { grant_type, device_code: begun.device_code } });
  return answer.json() as { access_token: string; refresh_token: string };
}

const renew = (refresh_token: string) =>
  ask('POST', '/oauth/token', { form: { grant_type: 'refresh_token', refresh_token } });
const onlySession = () => [...backstage.sessions.values()][0]!;

/** Asserts an OAuth error as RFC 6749 has it. */
function assertError(answer: Awaited<ReturnType<Ask>>, status: number, error: string, words = /./) {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.headers['content-type'], 'application/json');
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.equal(answer.json().error, error);
  assert.match(answer.json().error_description, words);
}

/** Well-formed, and nobody's. */
const UNKNOWN = `gwr_${'x'.repeat(42)}A`;

describe('a refresh', () => {
  it('gives a new session token and a new refresh token', async () => {
    const { refresh_token } = await signIn();
    const answer = await renew(refresh_token);
    assert.equal(answer.status, 200);
    const tokens = answer.json();
    assert.deepEqual([tokens.token_type, tokens.expires_in, tokens.email], ['Bearer', 3600, ANNA.email]);
    assert.notEqual(tokens.refresh_token, refresh_token);
    assert.equal((await renew(tokens.refresh_token)).status, 200);
  });

  it('carries what the identity provider now says', async () => {
    const { refresh_token } = await signIn();
    backstage.admit = () => ({
      person: { issuer: ANNA.iss, subject: ANNA.sub, email: ANNA.email, groups: ['contractors'] },
    });
    const { access_token } = (await renew(refresh_token)).json();
    const claims = JSON.parse(Buffer.from(access_token.split('.')[1], 'base64url').toString());
    assert.deepEqual(claims.groups, ['contractors']);
    assert.deepEqual(onlySession().open.person.groups, ['contractors']);
  });

  it('keeps what the identity provider gave out last', async () => {
    const { refresh_token } = await signIn();
    const before = onlySession().sealed_grant;
    await renew(refresh_token);
    assert.notEqual(onlySession().sealed_grant, before);
    assert.ok(!onlySession().sealed_grant.includes('provider-refresh-77'));
  });

  it('is refused with 401 invalid_grant for tokens that are good for nothing', async () => {
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

  it('waits for another one of the same session that is under way, and ends nothing', async () => {
    backstage.refresh_outcome = 'busy';
    const answer = await renew(UNKNOWN);
    assertError(answer, 503, 'temporarily_unavailable', /another request/);
    assert.equal(answer.headers['retry-after'], '1');
  });
});

describe('the identity provider, asked at a refresh,', () => {
  const fails = (problem: ProviderError['problem']) => () => {
    throw new ProviderError(problem, 'the token endpoint said something');
  };

  for (const problem of ['unavailable', 'invalid'] as const) {
    it(`may be ${problem}: 503, and the refresh token stays good`, async () => {
      const { refresh_token } = await signIn();
      const { recheck } = backstage.provider;
      backstage.provider.recheck = fails(problem);
      const answer = await renew(refresh_token);
      assertError(answer, 503, 'temporarily_unavailable');
      assert.ok(Number(answer.headers['retry-after']) > 0);
      assert.ok(!answer.text.includes('said something'));
      assert.match(backstage.logs.join('\n'), /said something/);
      backstage.provider.recheck = recheck;
      assert.equal((await renew(refresh_token)).status, 200);
    });
  }

  it('may fail after it replaced its own refresh token: the new one is used next', async () => {
    const { refresh_token } = await signIn();
    const { recheck } = backstage.provider;
    backstage.provider.recheck = () => {
      throw new ProviderError('unavailable', 'userinfo is down', {
        grant: { subject: ANNA.sub, refresh_token: 'replaced-88' },
      });
    };
    assertError(await renew(refresh_token), 503, 'temporarily_unavailable');
    const asked: unknown[] = [];
    backstage.provider.recheck = (grant) => {
      asked.push(grant.refresh_token);
      return recheck(grant);
    };
    assert.equal((await renew(refresh_token)).status, 200);
    assert.deepEqual(asked, ['replaced-88']);
  });

  it('may take longer than the client waits: its refresh token stays good, and what was replaced is kept', async () => {
    const { refresh_token } = await signIn();
    const { recheck } = backstage.provider;
    const giving_up = new AbortController();
    backstage.provider.recheck = async (grant) => {
      giving_up.abort();
      // By the time another request is answered, the end of this one's connection has been seen.
      await ask('GET', '/device');
      return { ...(await recheck(grant)), grant: { subject: ANNA.sub, refresh_token: 'replaced-99' } };
    };
    const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token });
    await assert.rejects(fetch(`${url}/oauth/token`, { method: 'POST', body, signal: giving_up.signal }));
    await until('the refresh is over', () => !onlySession().busy);
    const asked: unknown[] = [];
    backstage.provider.recheck = (grant) => {
      asked.push(grant.refresh_token);
      return recheck(grant);
    };
    assert.equal((await renew(refresh_token)).status, 200);
    assert.deepEqual(asked, ['replaced-99']);
  });

  it('may refuse the person: 401, and the session is over', async () => {
    const { refresh_token } = await signIn();
    backstage.provider.recheck = fails('refused');
    assertError(await renew(refresh_token), 401, 'invalid_grant');
    assert.match(onlySession().ended ?? '', /refused/);
    assert.equal(backstage.statements.at(-1), 'person_suspend', 'what they made is suspended at once');
  });

  it('may describe somebody who is not admitted any more: 401, and everything of the person ends', async () => {
    const { refresh_token } = await signIn();
    const message = 'Only members of engineering may sign in.';
    backstage.admit = () => ({ refused: 'group', message, detail: 'no group of allowed_groups' });
    assertError(await renew(refresh_token), 401, 'invalid_grant', /Only members/);
    assert.deepEqual(backstage.statements.slice(-3), ['deprovision', 'session_client', 'refused_note']);
  });

  it('may describe another person: 401, and the session is over', async () => {
    for (const other of [
      { subject: 'mallory' },
      { email: 'renamed@example.com' },
      { issuer: 'https://other.example' },
    ]) {
      const { refresh_token } = await signIn();
      backstage.admit = () => ({
        person: { issuer: ANNA.iss, subject: ANNA.sub, email: ANNA.email, groups: [], ...other },
      });
      assertError(await renew(refresh_token), 401, 'invalid_grant', /differently/);
      backstage.admit = () => ({
        person: { issuer: ANNA.iss, subject: ANNA.sub, email: ANNA.email, groups: [] },
      });
    }
    for (const { ended } of backstage.sessions.values()) assert.match(ended ?? '', /another identity/);
  });

  it('may break in an unforeseen way: 500 without a stack, and the refresh token stays good', async () => {
    const { refresh_token } = await signIn();
    const { recheck } = backstage.provider;
    backstage.provider.recheck = () => {
      throw new TypeError('cannot read properties of the moon');
    };
    const answer = await renew(refresh_token);
    assertError(answer, 500, 'server_error');
    assert.ok(!answer.text.includes('moon'));
    backstage.provider.recheck = recheck;
    assert.equal((await renew(refresh_token)).status, 200);
  });

  it('is not asked while nothing can be opened that was kept of it', async () => {
    const { refresh_token } = await signIn();
    onlySession().sealed_grant = 'eyJhbGciOiJkaXIifQ..made.up';
    assertError(await renew(refresh_token), 401, 'invalid_grant', /keys/);
    assert.deepEqual([onlySession().ended, onlySession().busy], [undefined, false], 'the key may come back');
  });

  it('may take so long that the session is ended meanwhile: 401', async () => {
    const { refresh_token } = await signIn();
    const { recheck } = backstage.provider;
    backstage.provider.recheck = () => {
      onlySession().ended = 'by an administrator';
      return recheck({ subject: ANNA.sub });
    };
    assertError(await renew(refresh_token), 401, 'invalid_grant', /ended/);
  });
});

describe('a revocation', () => {
  const revoke = (token: string, more: object = {}) => ask('POST', '/oauth/revoke', { form: { token, ...more } });

  it('ends the session of a session token and of a refresh token alike', async () => {
    for (const kind of ['access_token', 'refresh_token'] as const) {
      const tokens = await signIn();
      const answer = await revoke(tokens[kind], { token_type_hint: 'refresh_token' });
      assert.equal(answer.status, 200);
      assertError(await renew(tokens.refresh_token), 401, 'invalid_grant');
    }
    for (const { ended } of backstage.sessions.values()) assert.equal(ended, 'signed out');
  });

  it('is content with tokens that mean nothing, and with being repeated', async () => {
    const { access_token } = await signIn();
    const forged = `${access_token.slice(0, -6)}AAAAAA`;
    for (const token of ['x', 'gwr_unknown', 'a.b.c', forged, 'x'.repeat(20_000), access_token, access_token]) {
      assert.equal((await revoke(token)).status, 200, token.slice(0, 20));
    }
  });

  it('says where access tokens are revoked', async () => {
    assertError(await revoke(`gw_${'a'.repeat(49)}`), 400, 'unsupported_token_type', /appscli tokens revoke/);
  });

  it('needs a token', async () => {
    assertError(await ask('POST', '/oauth/revoke', { form: {} }), 400, 'invalid_request', /'token'/);
  });
});
