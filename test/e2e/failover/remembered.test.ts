/** What a failure changes for later requests, and what prevents a fallback: limits, state, time, clients that left. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { serverSection } from '../../support/gateway.ts';
import {
  answers,
  cutsOff,
  failsLate,
  hangs,
  inTurn,
  type Play,
  resets,
  servedBy,
  serves,
} from '../../support/model-provider/fault-server.ts';
import { until } from '../../support/until.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { bearer, messagesBody, open, type Response, send } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { ledgerRow, nothingReserved } from '../support/state.ts';
import { openSeveral, type Several } from './several.ts';

const requestId = (got: Response): string => String(got.headers['x-gateway-request-id']);
const servedIn = (got: Response): string => textIn('messages', got.json());
const reasonsOf = async (several: Several, got: Response): Promise<string[]> => {
  await ledgerRow(several.gateway.database, requestId(got));
  return (await several.attempts(requestId(got))).map(({ upstream, reason }) => `${upstream} ${reason}`);
};

describe('the state reported by an upstream is remembered', () => {
  let several: Several;
  before(async () => {
    several = await openSeveral({ count: 2 });
  });
  after(() => several?.close());
  beforeEach(() => several.forget());
  // Longer than anything is remembered.
  afterEach(() => several.advance(5000));

  test('a limit, for its reported time, and only for the model', async () => {
    several.faults[0]!.plays.set('a coder-1', inTurn(answers(429, { retry_after: '20' }), serves));
    assert.equal(servedIn(await several.ask('s1')), servedBy('b'));
    assert.equal(servedIn(await several.ask('s2')), servedBy('b'));
    assert.deepEqual(several.counts(), [1, 2]);
    assert.equal(servedIn(await several.ask('s3', { model: 'other-1' })), servedBy('a'));
    several.advance(21);
    assert.equal(servedIn(await several.ask('s4')), servedBy('a'));
  });

  test('a session stays where it was served after a failure, while its cache is warm', async () => {
    several.faults[0]!.plays.set('a', inTurn(answers(500), serves));
    assert.equal(servedIn(await several.ask('warm')), servedBy('b'));
    assert.equal(servedIn(await several.ask('warm')), servedBy('b'), 'although a is well again');
    assert.equal(servedIn(await several.ask('cold')), servedBy('a'));
    several.advance(360);
    assert.equal(servedIn(await several.ask('warm')), servedBy('a'), 'its cache is cold by now');
  });

  test('when all are limited the last is tried anyway, and the client gets the soonest time', async () => {
    several.faults[0]!.plays.set('a', answers(429, { retry_after: '50' }));
    several.faults[1]!.plays.set('b', answers(429, { retry_after: '30' }));
    const got = await several.ask('s12');
    assert.equal(got.status, 429);
    assert.equal(got.headers['retry-after'], '30');
    const again = await several.ask('s13');
    assert.equal(again.status, 429);
    assert.deepEqual(several.counts(), [1, 2], 'the one with the earliest end');
  });
});

describe('an upstream that begins to respond', () => {
  const COMMIT_SECONDS = 300;
  const LONG_SECONDS = 900;
  let several: Several;
  before(async () => {
    const server = serverSection({
      timeouts: { commit_seconds: COMMIT_SECONDS, first_byte_seconds: LONG_SECONDS },
    });
    several = await openSeveral({ count: 2, upstreams: { breaker: { open_seconds: 60 } }, config: { server } });
  });
  after(() => several?.close());
  beforeEach(() => several.forget());

  for (const [how, model, play] of [
    ['breaks off', 'coder-1', cutsOff],
    ['ends with an error', 'other-1', failsLate],
  ] as const) {
    test(`and every time ${how} has failed, and the next one serves`, async () => {
      several.faults[0]!.plays.set('a', play);
      for (let i = 0; i < 5; i++) await several.ask(`${how} ${i}`, { model, stream: true });
      assert.deepEqual(several.counts(), [5, 0]);
      const got = await several.ask(how, { model, stream: true });
      assert.equal(textIn('messages', eventsIn(got.text)), servedBy('b'), got.text);
    });
  }
});

describe('the reach of one caller', () => {
  let several: Several;
  before(async () => {
    several = await openSeveral({ count: 2 });
  });
  after(() => several?.close());
  beforeEach(() => several.forget());
  afterEach(() => several.advance(1000));

  const HOSTILE: Readonly<Record<string, Play>> = {
    'a file that is not there': answers(404, { message: 'File not found: file_011CQ' }),
    'a model that a tool of the provider names': answers(404, { message: 'model: the-one-i-made-up' }),
    'a text that the upstream repeats': answers(400, {
      message: 'messages.0.role: unexpected value "Your credit balance is too low"',
    }),
    'something the account may not do': answers(403, { message: 'Your account may not use this beta.' }),
  };
  for (const [what, play] of Object.entries(HOSTILE)) {
    test(`with ${what} takes the upstream from no other caller`, async () => {
      const { faults } = several;
      for (const session of ['good-1', 'good-2']) assert.equal((await several.ask(`${what} ${session}`)).status, 200);
      faults[0]!.plays.set('a', play);
      for (let i = 0; i < 2; i++) await several.ask(`${what} bad-${i}`);
      faults[0]!.plays.clear();
      assert.equal(servedIn(await several.ask(`${what} good-3`)), servedBy('a'));
    });
  }
});

describe('an upstream that is alone and fails on the requests of one caller', () => {
  let several: Several;
  let ben: string[];
  before(async () => {
    several = await openSeveral({ count: 1, upstreams: { breaker: { open_seconds: 60 } } });
    ben = bearer(await several.gateway.newToken({ user: 'ben@example.com' }));
  });
  after(() => several?.close());
  // Whatever is remembered is over.
  beforeEach(async () => {
    several.forget();
    several.advance(1000);
    // As many as close a breaker.
    for (let i = 0; i < 2; i++) assert.equal((await several.ask('well')).status, 200);
  });

  const askAsBen = (more: object = {}) => send(several.gateway.url, { headers: ben, body: messagesBody(more) });

  for (const [how, play] of [
    ['status 500', answers(500)],
    ['an answer that breaks off', cutsOff],
  ] as const) {
    test(`serves all others, with ${how} for a request that is sent again and again`, async () => {
      several.faults[0]!.plays.set('a', play);
      const statuses: number[] = [];
      for (let i = 0; i < 12; i++) statuses.push((await several.ask('odd', { stream: true })).status);
      assert.deepEqual([statuses.indexOf(503), statuses.lastIndexOf(503)], [5, 11]);
      several.forget();
      assert.equal((await several.ask('another', { stream: true })).status, 200, 'another request of the caller');
      assert.equal((await askAsBen()).status, 200);
      assert.equal((await several.ask('odd', { stream: true })).status, 200, 'a caller was served');
    });

    test(`serves all others, with ${how} for many requests, and rejects the caller until another is served`, async () => {
      several.faults[0]!.plays.set('a', play);
      const statuses: number[] = [];
      for (let i = 0; i < 12; i++) statuses.push((await several.ask(`odd ${i}`, { stream: true })).status);
      assert.deepEqual([statuses.indexOf(503), statuses.lastIndexOf(503)], [5, 11]);
      const refused = await several.ask('odd again');
      assert.match(refused.json().error.message, /it failed too often on your requests/);
      several.forget();
      assert.equal((await askAsBen()).status, 200);
      assert.equal((await several.ask('odd again')).status, 200);
    });
  }

  test('is avoided by all once two callers saw it fail', async () => {
    several.faults[0]!.plays.set('a', answers(500));
    for (let i = 0; i < 3; i++) assert.equal((await several.ask(`fails ${i}`)).status, 500);
    for (let i = 0; i < 2; i++) assert.equal((await askAsBen({ top_k: i + 1 })).status, 500);
    const eve = bearer(await several.gateway.newToken({ user: 'eve@example.com' }));
    assert.equal((await send(several.gateway.url, { headers: eve, body: messagesBody() })).status, 503);
    assert.equal((await askAsBen()).status, 503);
  });
});

describe('an upstream that is alone', () => {
  let several: Several;
  before(async () => {
    several = await openSeveral({ count: 1, upstreams: { breaker: { open_seconds: 60 } } });
  });
  after(() => several?.close());
  beforeEach(() => several.forget());

  test('is not tried while its breaker is open: its requests get the reason and the time, and reserve nothing', async () => {
    several.faults[0]!.plays.set('a', answers(500));
    for (let i = 0; i < 5; i++) assert.equal((await several.ask(`s${i}`)).status, 500);
    for (let i = 0; i < 3; i++) {
      const got = await several.ask(`t${i}`);
      assert.equal(got.status, 503, got.text);
      assert.match(got.json().error.message, /500/, 'its last error');
      const seconds = Number(got.headers['retry-after']);
      assert.ok(Number.isInteger(seconds) && seconds >= 1 && seconds <= 73, `retry-after ${seconds}`);
      assert.notEqual(got.headers['x-should-retry'], 'false');
    }
    assert.equal(several.counts()[0], 5);
    await nothingReserved(several.gateway.database);
    several.forget();
    several.advance(80);
    assert.equal((await several.ask('then')).status, 200);
  });

  test('is probed by one request at a time when that is over; the others get a retry hint', async () => {
    const model = 'other-1';
    several.faults[0]!.plays.set('a', answers(500));
    const others = bearer(await several.gateway.newToken({ user: 'another@example.com' }));
    for (let i = 0; i < 3; i++) await several.ask(`fails ${i}`, { model });
    for (let i = 0; i < 2; i++)
      await send(several.gateway.url, { headers: others, body: messagesBody({ model, top_k: i + 1 }) });
    assert.equal((await several.ask('is refused', { model })).status, 503);
    const response = Promise.withResolvers<void>();
    const slowly: Play = async (call) => {
      await response.promise;
      return serves(call);
    };
    for (const play of [slowly, serves]) {
      several.forget();
      several.advance(80);
      several.faults[0]!.plays.set('a', play);
      const asked = Array.from({ length: 12 }, (_, i) => several.ask(`caller-${i}`, { model }));
      const refusals = asked.map((one) => one.then(({ status }) => status === 503));
      if (play === slowly) {
        await until('all others get a response', async () => {
          const done = await Promise.all(refusals.map((one) => Promise.race([one, setImmediate(false)])));
          return done.filter(Boolean).length === asked.length - 1;
        });
        assert.equal(several.counts()[0], 1);
        response.resolve();
      }
      const got = await Promise.all(asked);
      const refused = got.filter(({ status }) => status === 503);
      for (const { headers } of refused) assert.equal(headers['retry-after'], '1');
      assert.equal(several.counts()[0], asked.length - refused.length);
    }
    await nothingReserved(several.gateway.database);
  });
});

describe('an upstream whose breaker opens', () => {
  let several: Several;
  before(async () => {
    const upstreams = { breaker: { failures: 3, open_seconds: 60 } };
    several = await openSeveral({ count: 2, upstreams, clock: movableClock({ stands: true }) });
  });
  after(() => several?.close());

  test('is skipped by requests that wait to retry: they go to the next one', async () => {
    several.faults[0]!.plays.set('a', answers(529));
    const asked = Promise.all(['s1', 's2', 's3'].map((session) => several.ask(session)));
    await until('it is open, and who found it so is elsewhere', () => several.counts()[1] === 1);
    several.advance(2);
    const got = await asked;
    assert.deepEqual(
      got.map(({ status }) => status),
      [200, 200, 200],
    );
    assert.deepEqual(several.counts(), [3, 3]);
    for (const one of got) assert.deepEqual(await reasonsOf(several, one), ['a next_overloaded', 'b served']);
  });
});

describe('a request does not go on', () => {
  let several: Several;
  before(async () => {
    several = await openSeveral({
      count: 3,
      upstreams: { breaker: { mode: 'off' } },
      config: {
        server: serverSection({ timeouts: { non_streaming_first_byte_seconds: 100 } }),
        routing: { default_upstreams: ['a', 'b', 'c'], attempts: { seconds: 150 } },
      },
    });
  });
  after(() => several?.close());
  beforeEach(() => several.forget());
  afterEach(() => several.advance(1000));

  for (const left of ['before the first upstream failed', 'at about the time at which it failed']) {
    test(`once its client has left, ${left}`, async () => {
      const fail = Promise.withResolvers<void>();
      if (left !== 'before the first upstream failed') fail.resolve();
      several.faults[0]!.plays.set('a', async (call) => {
        await fail.promise;
        return answers(529)(call);
      });
      const before = new Set((await several.attempts()).map(({ request_id }) => request_id));
      const { head, abort } = open(several.gateway.url, {
        headers: bearer(several.gateway.token, ['x-claude-code-session-id', left]),
        body: messagesBody(),
      });
      head.catch(() => {});
      await until('the first upstream gets the request', () => several.counts()[0] === 1);
      abort();
      // The gateway reads later bytes only after it has seen the end of the connection.
      await fetch(`${several.gateway.url}/healthz`);
      fail.resolve();
      const attempts = await until('it is in the ledger', async () => {
        const found = (await several.attempts()).filter(({ request_id }) => !before.has(request_id));
        return found.length > 0 && found;
      });
      await nothingReserved(several.gateway.database);
      if (left === 'before the first upstream failed') assert.deepEqual(several.counts(), [1, 0, 0]);
      assert.equal(attempts.length, several.counts()[0]! + several.counts()[1]! + several.counts()[2]!);
      assert.equal(attempts.at(-1)!.reason, attempts.length === 1 ? 'gone' : 'served');
    });
  }

  test('when its time is over', async () => {
    for (const [at, server] of several.faults.entries()) server.plays.set('abc'[at]!, hangs);
    const asking = several.ask('late');
    for (const at of [0, 1]) {
      await until('it gets a request', () => several.counts()[at] === 1);
      several.advance(101);
    }
    const got = await asking;
    assert.ok(got.status >= 502 && got.status <= 504, got.text);
    assert.equal((await reasonsOf(several, got)).at(-1)!.split(' ')[1], 'too_late');
    assert.equal(several.counts()[2], 0);
    await nothingReserved(several.gateway.database);
  });
});

describe('a request that may have been accepted', () => {
  let several: Several;
  before(async () => {
    several = await openSeveral({
      count: 2,
      config: { routing: { default_upstreams: ['a', 'b'], attempts: { unconfirmed: false } } },
    });
  });
  after(() => several?.close());

  test('stays where gateway.yaml forbids another upstream', async () => {
    several.faults[0]!.plays.set('a', resets);
    const got = await several.ask('s1');
    assert.equal(got.status, 502, got.text);
    assert.deepEqual(several.counts(), [1, 0]);
    several.forget();
    several.faults[0]!.plays.set('a', answers(504));
    assert.equal((await several.ask('s2')).status, 504);
    assert.deepEqual(several.counts(), [1, 0]);
    several.forget();
    several.faults[0]!.plays.set('a', answers(500));
    assert.equal((await several.ask('s3')).status, 200, '500 is a response');
  });
});

describe('a request with state', () => {
  let several: Several;
  before(async () => {
    several = await openSeveral({
      count: 3,
      upstreams: { type: 'compat', protocols: ['responses'] },
      each: { a: { state_boundary: 'one' }, b: { state_boundary: 'two' }, c: { state_boundary: 'one' } },
    });
  });
  after(() => several?.close());

  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAAsealed' };
  const user = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi.' }] };
  const askResponses = async (session: string, more: object): Promise<Response> => {
    return send(several.gateway.url, {
      path: '/v1/responses',
      headers: bearer(several.gateway.token, ['session-id', session]),
      body: JSON.stringify({ model: 'coder-1', input: [user], ...more }),
    });
  };

  test('goes only where it is readable: to c and not to b', async () => {
    several.forget();
    assert.equal((await askResponses('s1', {})).status, 200);
    several.forget();
    several.faults[0]!.plays.set('a', answers(500));
    const got = await askResponses('s1', { input: [reasoning, user] });
    assert.equal(got.status, 200, got.text);
    assert.deepEqual(several.counts(), [1, 0, 1]);
  });

  test('and is rejected for a while where none there can serve it, never sent to fail', async () => {
    several.forget();
    several.faults[0]!.plays.set('a', answers(500));
    several.faults[2]!.plays.set('c', answers(500));
    const got = await askResponses('s2', { previous_response_id: 'resp_1' });
    assert.ok(got.status >= 500, got.text);
    assert.equal(several.counts()[1], 0);
  });
});
