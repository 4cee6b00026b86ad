/** What a failure changes for later requests, and what prevents a fallback: limits, an open breaker, a client that left. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { answers, inTurn, type Play, servedBy, serves } from '../../support/model-provider/fault-server.ts';
import { until } from '../../support/until.ts';
import { textIn } from '../streams/streams.ts';
import { bearer, messagesBody, open, type Response } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { idOf, recordOf } from '../support/odd.ts';
import { ledgerRow, nothingReserved } from '../support/state.ts';
import { type LedgerAttempt, type Several, useSeveral } from './several.ts';

const servedIn = (got: Response): string => textIn('messages', got.json());
const reasonsOf = async (several: Several, got: Response): Promise<string[]> => {
  await ledgerRow(several.gateway.database, idOf(got));
  return (await several.attempts(idOf(got))).map(({ upstream, reason }) => `${upstream} ${reason}`);
};

describe('the state reported by an upstream is remembered', () => {
  const several = useSeveral({ count: 2 });
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

describe('an upstream that is alone', () => {
  const several = useSeveral({ count: 1, upstreams: { breaker: { open_seconds: 60 } } });
  afterEach(() => several.advance(1000));

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
});

describe('an upstream whose breaker opens', () => {
  const upstreams = { breaker: { failures: 3, open_seconds: 60 } };
  const several = useSeveral({ count: 2, upstreams, clock: movableClock({ stands: true }) });

  test('is skipped by requests that wait to retry: they go to the next one', async () => {
    several.faults[0]!.plays.set('a', answers(529));
    const asked = Promise.all(['s1', 's2', 's3'].map((session) => several.ask(session)));
    await until('it is open, and who found it so is elsewhere', () => several.counts()[1] === 1);
    several.advance(2);
    const got = await asked;
    assert.ok(got.every(({ status }) => status === 200));
    assert.deepEqual(several.counts(), [3, 3]);
    for (const one of got) assert.deepEqual(await reasonsOf(several, one), ['a next_overloaded', 'b served']);
  });
});

describe('a request under way', () => {
  const several = useSeveral({ count: 3 });

  test('skips an upstream that has become unavailable since it was routed', async () => {
    const fail = Promise.withResolvers<void>();
    const fails: Play = async (call) => {
      await fail.promise;
      return answers(500)(call);
    };
    several.faults[0]!.plays.set('a', inTurn(fails, answers(500)));
    several.faults[1]!.plays.set('b', answers(429, { retry_after: '50' }));
    const first = several.ask('s1');
    await until('the first upstream gets the request', () => several.counts()[0] === 1);
    assert.equal(servedIn(await several.ask('s2')), servedBy('c'));
    fail.resolve();
    const got = await first;
    assert.equal(servedIn(got), servedBy('c'));
    assert.deepEqual(several.counts(), [2, 1, 2]);
    assert.deepEqual((await recordOf(several.gateway, got)).dropped, ['b: limited']);
  });
});

describe('a request does not go on', () => {
  const several = useSeveral({ count: 2 });

  test('once its client has left before the first upstream failed', async () => {
    const fail = Promise.withResolvers<void>();
    several.faults[0]!.plays.set('a', async (call) => {
      await fail.promise;
      return answers(529)(call);
    });
    const { head, abort } = open(several.gateway.url, {
      headers: bearer(several.gateway.token),
      body: messagesBody(),
    });
    head.catch(() => {});
    await until('the first upstream gets the request', () => several.counts()[0] === 1);
    abort();
    // The gateway reads later bytes only after it has seen the end of the connection.
    await fetch(`${several.gateway.url}/healthz`);
    fail.resolve();
    const attempts = await until('it is in the ledger', async () => {
      const found = await several.attempts();
      return found.length > 0 && found;
    });
    await nothingReserved(several.gateway.database);
    assert.deepEqual(several.counts(), [1, 0]);
    const [{ reason }, ...others] = attempts as [LedgerAttempt];
    assert.deepEqual([reason, others], ['gone', []]);
  });
});
