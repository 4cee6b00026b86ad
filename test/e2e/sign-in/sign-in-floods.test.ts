import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { before, beforeEach, describe, it } from 'node:test';
import { OF_CONSOLE } from '../../support/console.ts';
import { confirmInBrowser, pollWith, refreshWith, type TokenAnswer } from '../../support/identity/sign-in.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const REFUSALS = 16;
const FLOOD = 56;

const scene = useSignInScene({
  auth: { limits: { device_authorizations: 5, code_submissions: 5, refused_credentials: REFUSALS, requests: 40 } },
  server: { trusted_proxies: ['127.0.0.1'] },
});
/** Names of statements of sign-in that reached the database. */
const asked: string[] = [];

before(() => {
  const { database } = scene.gateway;
  const query = database.query.bind(database);
  database.query = ((name: string, ...rest: [string, unknown[]]) => {
    if (/^(?:device|refresh|session_end|attempt)/.test(name)) asked.push(name);
    return query(name, ...rest);
  }) as typeof database.query;
});
beforeEach(() => {
  asked.length = 0;
});

interface Answered extends TokenAnswer {
  readonly retry_after: string | null;
  readonly text: string;
}

async function post(path: string, form: Record<string, string>, address: string): Promise<Answered> {
  const headers = { 'x-forwarded-for': address, origin: scene.gateway.url };
  const sent = { method: 'POST', body: new URLSearchParams(form), headers };
  const response = await fetch(`${scene.gateway.url}${path}`, sent);
  const text = await response.text();
  const is_json = response.headers.get('content-type') === 'application/json';
  const body = is_json ? JSON.parse(text) : {};
  return { status: response.status, body, text, retry_after: response.headers.get('retry-after') };
}

/** Sends many, twenty at a time; returns those with a retry hint. */
async function flood(send: (n: number) => Promise<Answered>): Promise<Answered[]> {
  const responses: Answered[] = [];
  let next = 0;
  const lane = async () => {
    while (next < FLOOD) responses.push(await send(next++));
  };
  await Promise.all(Array.from({ length: 20 }, lane));
  const refused = responses.filter(({ status }) => status === 429);
  for (const { retry_after } of refused) assert.match(String(retry_after), /^[1-9]\d*$/);
  return refused;
}

const random = () => randomBytes(32).toString('base64url');

describe('a flood from one address', () => {
  const madeUp: [string, () => [string, Record<string, string>]][] = [
    ['refresh tokens', () => ['/oauth/token', refreshWith(`gwr_${random()}`)]],
    ['refresh tokens with a mark', () => ['/oauth/token', refreshWith(`gwr_${random()}${random().slice(0, 16)}`)]],
    ['device codes', () => ['/oauth/token', pollWith(random())]],
    ['tokens to sign out', () => ['/oauth/revoke', { token: `gwr_${random()}` }]],
  ];
  for (const [at, [what, make]] of madeUp.entries()) {
    it(`of made-up ${what} queries the database a bounded number of times, and then gets a retry hint`, async () => {
      const refused = await flood(() => post(...make(), `192.0.2.${10 + at}`));
      assert.ok(asked.length >= REFUSALS && asked.length <= REFUSALS + 5, `${asked.length} statements`);
      assert.ok(refused.length >= FLOOD - REFUSALS - 5);
      const error = what === 'device codes' ? 'slow_down' : 'temporarily_unavailable';
      assert.ok(refused.every(({ body }) => body.error === error));
    });
  }

  const counted: [string, (n: number) => Promise<Answered>][] = [
    ['sign-ins begun', () => post('/oauth/device_authorization', {}, '192.0.2.31')],
    [
      'codes entered, whichever addresses of a network it comes from,',
      (n) => post('/device', { user_code: 'BCDF-GHJK', action: 'approve' }, `2001:db8:77:1::${n + 1}`),
    ],
  ];
  for (const [what, send] of counted) {
    it(`of ${what} stops querying it after a rejection`, async () => {
      assert.equal((await flood(send)).length, FLOOD - 5);
      assert.ok(asked.length <= 2 * 5 + 25, `${asked.length} statements`);
    });
  }

  it('of made-up console sessions gets 429 and a retry hint', async () => {
    const { port } = new URL(scene.gateway.url);
    const ask = async (): Promise<Answered> => {
      const cookie = `gw_session_${port}=${random()}${random().slice(0, 16)}`;
      const headers = { ...OF_CONSOLE, cookie, 'x-forwarded-for': '192.0.2.33' };
      const response = await fetch(`${scene.gateway.url}/admin/api/me`, { headers });
      const text = await response.text();
      return {
        status: response.status,
        body: JSON.parse(text),
        text,
        retry_after: response.headers.get('retry-after'),
      };
    };
    const refused = await flood(ask);
    assert.ok(refused.length >= FLOOD - REFUSALS - 5, `${refused.length} were rejected`);
    for (const { text } of refused) assert.equal(JSON.parse(text).error.code, 'rate_limit_exceeded');
  });

  it('of texts that are no tokens never queries it', async () => {
    const good = random();
    const spelt = [`${good}=`, ` ${good}`, `${good.slice(0, -1)}B`, `gwr_${good}\n`];
    for (const text of ['x', ...spelt, 'a.b.c', 'ey.ey.ey', 'x'.repeat(9000)]) {
      for (const form of [pollWith(text), refreshWith(text)]) {
        const response = await post('/oauth/token', form, '192.0.2.30');
        assert.ok(response.status === 400 || response.status === 401, `${response.status}`);
      }
      assert.equal((await post('/oauth/revoke', { token: text }, '192.0.2.30')).status, 200);
    }
    assert.deepEqual(asked, []);
  });
});

it('users at the address of a flood renew their sessions and poll as before', async () => {
  const address = '192.0.2.40';
  const begin = async () =>
    (await post('/oauth/device_authorization', {}, address)).body as unknown as {
      device_code: string;
      user_code: string;
    };
  const { device_code, user_code } = await begin();
  await confirmInBrowser(scene.gateway.url, user_code, 'anna');
  let { refresh_token } = (await post('/oauth/token', pollWith(device_code), address)).body;
  await flood(() => post('/oauth/token', refreshWith(`gwr_${random()}`), address));
  assert.equal((await post('/oauth/token', refreshWith(`gwr_${random()}`), address)).status, 429);
  for (let n = 0; n < 3; n++) {
    const renewed = await post('/oauth/token', refreshWith(refresh_token), address);
    assert.equal(renewed.status, 200, renewed.text);
    refresh_token = renewed.body.refresh_token;
  }
  const polled = await post('/oauth/token', pollWith((await begin()).device_code), address);
  assert.equal(polled.body.error, 'authorization_pending');
});
