import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import {
  bootSignIn,
  confirmInBrowser,
  pollWith,
  refreshWith,
  type TokenAnswer,
} from '../../support/identity/sign-in.ts';

const REFUSALS = 16;
const FLOOD = 56;

let provider: TestIdentityProvider;
let gateway: TestGateway;
/** Names of statements of sign-in that reached the database. */
const asked: string[] = [];

before(async () => {
  provider = await startIdentityProvider();
  gateway = await bootSignIn({
    provider,
    auth: { limits: { device_authorizations: 5, code_submissions: 5, refused_credentials: REFUSALS, requests: 40 } },
    server: { trusted_proxies: ['127.0.0.1'] },
  });
  const { database } = gateway;
  const query = database.query.bind(database);
  database.query = ((name: string, ...rest: [string, unknown[]]) => {
    if (/^(?:device|refresh|session_end|attempt)/.test(name)) asked.push(name);
    return query(name, ...rest);
  }) as typeof database.query;
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});
beforeEach(() => {
  asked.length = 0;
});

interface Answered extends TokenAnswer {
  readonly retry_after: string | null;
  readonly text: string;
}

async function post(path: string, form: Record<string, string>, address: string, more = {}): Promise<Answered> {
  const headers = { 'x-forwarded-for': address, ...more };
  const response = await fetch(`${gateway.url}${path}`, { method: 'POST', body: new URLSearchParams(form), headers });
  const text = await response.text();
  const is_json = response.headers.get('content-type') === 'application/json';
  const body = is_json ? JSON.parse(text) : {};
  return { status: response.status, body, text, retry_after: response.headers.get('retry-after') };
}

/** Sends many, twenty at a time; what came of them, by status. */
async function flood(send: (n: number) => Promise<Answered>, times = FLOOD) {
  const answers: Answered[] = [];
  let next = 0;
  const lane = async () => {
    while (next < times) answers.push(await send(next++));
  };
  await Promise.all(Array.from({ length: 20 }, lane));
  const refused = answers.filter(({ status }) => status === 429);
  for (const { retry_after } of refused) assert.match(String(retry_after), /^[1-9]\d*$/);
  return { answers, refused };
}

/** Signs in from an address. */
async function signInFrom(address: string): Promise<TokenAnswer['body']> {
  const begun = await post('/oauth/device_authorization', {}, address);
  const { device_code, user_code } = begun.body as unknown as { device_code: string; user_code: string };
  await confirmInBrowser(gateway.url, user_code, 'anna');
  return (await post('/oauth/token', pollWith(device_code), address)).body;
}

const random = () => randomBytes(32).toString('base64url');
const madeUp: [string, () => [string, Record<string, string>]][] = [
  ['refresh tokens', () => ['/oauth/token', refreshWith(`gwr_${random()}`)]],
  ['refresh tokens with a mark', () => ['/oauth/token', refreshWith(`gwr_${random()}${random().slice(0, 16)}`)]],
  ['device codes', () => ['/oauth/token', pollWith(random())]],
  ['tokens to sign out', () => ['/oauth/revoke', { token: `gwr_${random()}` }]],
];

describe('a flood from one address', () => {
  for (const [at, [what, make]] of madeUp.entries()) {
    it(`of made-up ${what} asks the database a bounded number of times, and then is told to wait`, async () => {
      const { refused } = await flood(() => post(...make(), `192.0.2.${10 + at}`));
      assert.ok(asked.length >= REFUSALS && asked.length <= REFUSALS + 5, `${asked.length} statements`);
      assert.ok(refused.length >= FLOOD - REFUSALS - 5);
      const error = what === 'device codes' ? 'slow_down' : 'temporarily_unavailable';
      assert.ok(refused.every(({ body }) => body.error === error));
    });
  }

  it('of texts that are no tokens asks it nothing', async () => {
    const good = random();
    const texts = [
      'x',
      `${good}=`,
      ` ${good}`,
      `${good.slice(0, -1)}B`,
      'a.b.c',
      'ey.ey.ey',
      `gwr_${good}\n`,
      'x'.repeat(9000),
    ];
    for (const text of texts) {
      for (const form of [pollWith(text), refreshWith(text)]) {
        const answer = await post('/oauth/token', form, '192.0.2.30');
        assert.ok(answer.status === 400 || answer.status === 401, `${answer.status}`);
      }
      assert.equal((await post('/oauth/revoke', { token: text }, '192.0.2.30')).status, 200);
    }
    assert.deepEqual(asked, []);
  });

  it('of sign-ins begun asks it no more once it has refused', async () => {
    const { refused } = await flood(() => post('/oauth/device_authorization', {}, '192.0.2.31'));
    assert.equal(refused.length, FLOOD - 5);
    assert.ok(asked.length <= 2 * 5 + 25, `${asked.length} statements`);
  });

  it('of codes entered asks it no more once it has refused, whichever addresses of a network it comes from', async () => {
    const headers = { origin: gateway.url };
    const { refused } = await flood((n) =>
      post('/device', { user_code: 'BCDF-GHJK', action: 'approve' }, `2001:db8:77:1::${n + 1}`, headers),
    );
    assert.equal(refused.length, FLOOD - 5);
    assert.ok(asked.length <= 2 * 5 + 25, `${asked.length} statements`);
  });
});

describe('people at the address of a flood', () => {
  it('renew their sessions and poll as before', async () => {
    const address = '192.0.2.40';
    let { refresh_token } = await signInFrom(address);
    await flood(() => post('/oauth/token', refreshWith(`gwr_${random()}`), address));
    assert.equal((await post('/oauth/token', refreshWith(`gwr_${random()}`), address)).status, 429);
    for (let n = 0; n < 3; n++) {
      const renewed = await post('/oauth/token', refreshWith(refresh_token), address);
      assert.equal(renewed.status, 200, renewed.text);
      refresh_token = renewed.body.refresh_token;
    }
    const begun = await post('/oauth/device_authorization', {}, address);
    const { device_code } = begun.body as unknown as { device_code: string };
    assert.equal((await post('/oauth/token', pollWith(device_code), address)).body.error, 'authorization_pending');
  });
});
