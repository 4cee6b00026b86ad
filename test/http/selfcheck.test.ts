import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import { StageError } from '../../engine/contract/errors.ts';
import type { Principal } from '../../engine/contract/services.ts';
import { selfcheckRoute } from '../../engine/http/selfcheck/selfcheck-route.ts';
import { type FrozenClock, frozenClock } from '../../engine/kit/clock.ts';
import { exchange } from '../../engine/kit/net/exchange.ts';
import { quietLog } from '../support/store.ts';
import { until } from '../support/until.ts';
import { serve, signInConfig } from './sign-in/support.ts';

const TOKEN = 'gw_a-token-for-tests';
const SECONDS = 60;
const clock: FrozenClock = frozenClock('2026-11-23T10:00:00Z');
const rejected: string[] = [];
let served: Awaited<ReturnType<typeof serve>>;
let tokens: readonly string[] = [TOKEN];

before(async () => {
  const timeouts = { request_body_seconds: 60, request_silence_seconds: 30 };
  const server = { trusted_proxies: ['127.0.0.1/32'], timeouts, limits: { body_bytes: 100_000 } };
  served = await serve(
    selfcheckRoute({
      config: signInConfig({ server }),
      verify: async (token) => {
        if (!tokens.includes(token)) throw new StageError('credential_invalid', 'The token is unknown.');
        return { id: token } as Principal;
      },
      clock,
      log: quietLog,
      telemetry: { requestRejected: (status, code) => rejected.push(`${status} ${code}`) },
    }),
  );
});
after(() => served?.close());
beforeEach(() => {
  rejected.length = 0;
  // Whoever asked in the test before has all they may ask again.
  clock.advance(600_000);
});

function ask(body: string | Buffer, headers: Record<string, string> = {}, method = 'POST', query = '') {
  return exchange(`${served.url}/v1/selfcheck${query}`, {
    method,
    headers: { authorization: `Bearer ${TOKEN}`, ...headers },
    body,
    seconds: SECONDS,
  });
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');

describe('POST /v1/selfcheck', () => {
  test('says how a request arrived, and nothing that is secret or was not asked for', async () => {
    const body = '{ "stream": false, "text": "\\u00e9", "n": 1.0 }';
    const answer = await ask(
      body,
      {
        'vendor-version': '2023-06-01',
        'vendor-beta': 'one,two',
        'user-agent': 'coder/1.2',
        'accept-encoding': 'gzip, br',
        'x-selfcheck-probe': 'here',
        'x-api-key': TOKEN,
        'x-forwarded-for': '192.0.2.7, 10.0.0.1',
        'x-forwarded-proto': 'https',
        cookie: 'session=planted-cookie',
        'x-other': 'planted-value',
        'proxy-authorization': 'Basic planted-proxy',
      },
      'POST',
      '?beta=true&x=a%20b',
    );
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['content-type'], 'application/json');
    assert.equal(answer.headers['cache-control'], 'no-store');
    const { version, instance, ...arrived } = JSON.parse(answer.body.toString());
    assert.match(version, /^\d+\.\d+/);
    assert.match(instance, /^[0-9a-f-]{36}$/);
    assert.deepEqual(arrived, {
      type: 'selfcheck.arrived',
      time: new Date(clock.now()).toISOString(),
      query: 'beta=true&x=a%20b',
      http: '1.1',
      tls: false,
      credentials: ['authorization', 'x-api-key'],
      headers: {
        'vendor-version': '2023-06-01',
        'vendor-beta': 'one,two',
        'user-agent': 'coder/1.2',
        'accept-encoding': 'gzip, br',
        'x-selfcheck-probe': 'here',
      },
      forwarded: { for_hops: 2, proto: 'https', host: null, believed: true },
      body: { bytes: Buffer.byteLength(body), sha256: sha256(body) },
    });
    assert.doesNotMatch(answer.body.toString(), /planted|gw_a-token/);
  });

  test('digests any body: compressed, broken, empty, in pieces', async () => {
    for (const body of [randomBytes(90_000), '{"stream":', '', '{"stream":"true"}', '[]', 'null']) {
      const answer = await ask(body, { 'content-encoding': 'br' });
      assert.equal(answer.status, 200, String(body).slice(0, 20));
      assert.deepEqual(JSON.parse(answer.body.toString()).body, { bytes: body.length, sha256: sha256(body) });
    }
  });

  test('streams events at known times, in a form that proxies know to pass on at once', async () => {
    const under_way = ask('{"stream": true}');
    for (let tick = 0; tick < 10; tick++) {
      await until('the next tick waits', () => clock.next() === 150);
      clock.advance(150);
    }
    const answer = await under_way;
    assert.equal(answer.headers['content-type'], 'text/event-stream');
    assert.equal(answer.headers['x-accel-buffering'], 'no');
    const events = answer.body.toString().trimEnd().split('\n\n');
    const names = events.map((event) => /^event: (\S+)\ndata: \{"type":"(\S+?)"/.exec(event)!.slice(1));
    assert.ok(names.every(([event, type]) => event === type));
    assert.deepEqual(
      names.map(([event]) => event),
      ['selfcheck.arrived', ...Array(10).fill('selfcheck.tick'), 'selfcheck.done'],
    );
    assert.equal(answer.ending, 'whole');
  });

  test('is refused in JSON without a credential, with a wrong one, and by another method', async () => {
    const refusals = [
      await exchange(`${served.url}/v1/selfcheck`, { method: 'POST', body: '{}', seconds: SECONDS }),
      await ask('{}', { authorization: 'Bearer gw_wrong' }),
      await ask('', {}, 'GET'),
    ];
    const told = refusals.map(({ status, headers, body }) => {
      assert.equal(headers['content-type'], 'application/json');
      return `${status} ${JSON.parse(body.toString()).error.code}`;
    });
    assert.deepEqual(told, ['401 credential_missing', '401 credential_invalid', '405 method_not_allowed']);
    assert.deepEqual(rejected, told);
  });

  test('takes no larger body than model requests have, declared or not', async () => {
    const declared = await ask(Buffer.alloc(100_001));
    assert.equal(declared.status, 413);
    assert.equal(JSON.parse(declared.body.toString()).error.limit_bytes, 100_000);
    const status = await new Promise((resolve, reject) => {
      const chunked = request(
        `${served.url}/v1/selfcheck`,
        { method: 'POST', headers: { authorization: `Bearer ${TOKEN}` } },
        (response) => resolve(response.resume().statusCode),
      );
      chunked.on('error', reject);
      for (let i = 0; i < 11; i++) chunked.write(Buffer.alloc(10_000));
      chunked.end();
    });
    assert.equal(status, 413);
  });

  test('gives up on a body that never ends', async () => {
    const stuck = request(`${served.url}/v1/selfcheck`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-length': 10 },
    });
    const answered = new Promise<number | undefined>((resolve) => {
      stuck.on('response', (response) => resolve(response.resume().statusCode));
    });
    stuck.on('error', () => {});
    stuck.write('{');
    await until('the body is waited for', () => clock.next() === 30_000);
    clock.advance(30_000);
    assert.equal(await answered, 408);
    stuck.destroy();
  });

  test('may be asked only so often and only so many times at once by one caller, and others do not notice', async () => {
    tokens = [TOKEN, 'gw_other'];
    const stop = new AbortController();
    const open = Array.from({ length: 4 }, () =>
      exchange(`${served.url}/v1/selfcheck`, {
        method: 'POST',
        headers: { authorization: `Bearer ${TOKEN}` },
        body: '{"stream":true}',
        seconds: SECONDS,
        signal: stop.signal,
      }).catch(() => undefined),
    );
    const refused = await until('a fifth is refused', async () => {
      const answer = await ask('{}');
      return answer.status === 429 ? answer : undefined;
    });
    assert.match(JSON.parse(refused.body.toString()).error.message, /4 times at once/);
    assert.match(String(refused.headers['retry-after']), /^\d+$/);
    assert.equal((await ask('{}', { authorization: 'Bearer gw_other' })).status, 200);
    stop.abort();
    await Promise.all(open);
    await until('they are over', async () => (await ask('{}')).status === 200);
    clock.advance(600_000);
    const statuses = new Map<number, number>();
    for (let i = 0; i < 125; i++) {
      const { status } = await ask('');
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    assert.deepEqual(
      [...statuses],
      [
        [200, 120],
        [429, 5],
      ],
    );
    clock.advance(1000);
    assert.equal((await ask('{}')).status, 200);
    tokens = [TOKEN];
  });

  test('counts what a body weighs', async () => {
    const big = Buffer.alloc(100_000);
    let taken = 0;
    while ((await ask(big)).status === 200) taken++;
    assert.equal(taken, 109);
  });
});
