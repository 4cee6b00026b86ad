/** An upstream that is killed under streams, and one that fails again and again: nobody notices more than must be. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { answers, eventsBy, inTurn, type Play, servedBy, serves } from '../../support/model-provider/fault-server.ts';
import { until } from '../../support/until.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { bearer, messagesBody, open, type Response, readAll } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { nothingReserved } from '../support/state.ts';
import { errorsIn } from './scene.ts';
import { faultsInBooks, nameOf, openSeveral, type Several } from './several.ts';

const STREAMS = 200;
/** Who ask one thing after the other. */
const WORKERS = 6;

/** Streams the first half of its answer, and the rest once it is told to. */
function halfUntil(released: Promise<void>): Play {
  return async ({ res, protocol, upstream }) => {
    const events = eventsBy(protocol, upstream);
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(events.slice(0, 4).join(''));
    await released;
    res.end(events.slice(4).join(''));
  };
}

describe('three upstreams with 200 streams', () => {
  let several: Several;
  before(async () => {
    several = await openSeveral({ count: 3, route: ['a', 'b', 'c'].map((upstream) => ({ upstream, weight: 1 })) });
  });
  after(() => several?.close());

  test('one of which is killed: no client sees more than one error, and every request has its attempt', async () => {
    const { faults, gateway } = several;
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    for (const [index, server] of faults.entries()) server.plays.set(nameOf(index), halfUntil(released));
    let asked = 0;
    // Some have only just been sent when it happens.
    const worker = async () => {
      const got: Promise<Response>[] = [];
      while (asked < STREAMS) {
        const session = ['x-claude-code-session-id', `session-${asked++}`];
        const body = messagesBody({ stream: true });
        got.push(readAll(await open(gateway.url, { headers: bearer(gateway.token, session), body }).head));
      }
      return Promise.all(got);
    };
    const all = Promise.all(Array.from({ length: WORKERS }, worker));
    await until(
      'half of them are under way',
      () => several.counts().reduce((sum, count) => sum + count) >= STREAMS / 2,
    );
    await faults[0]!.pause();
    await until('all are under way', () => asked === STREAMS);
    release();
    const got = (await all).flat();

    const broken = got.filter(({ text }) => errorsIn(text) > 0);
    for (const { status, text } of got) {
      assert.equal(status, 200, text);
      assert.ok(errorsIn(text) <= 1, text);
      const said = textIn(
        'messages',
        eventsIn(text).filter(({ name }) => name !== 'error'),
      );
      const whole = ['a', 'b', 'c'].map(servedBy);
      if (errorsIn(text) === 0) assert.ok(whole.includes(said), text);
      else assert.ok(servedBy('a').startsWith(said), 'only what the killed one served is broken');
    }
    assert.ok(broken.length > 0, 'some were under way');
    assert.ok(broken.length < STREAMS / 3, `${broken.length} were broken`);
    const reached = several.counts().reduce((sum, count) => sum + count, 0);
    // What waits for its head in that moment is sent once more.
    assert.ok(reached <= STREAMS + WORKERS, `${reached} requests reached upstreams`);

    await nothingReserved(gateway.database);
    const attempts = await several.attempts();
    const sent = attempts.filter(({ certainty }) => certainty !== 'not_sent');
    for (const [index, server] of faults.entries()) {
      const own = sent.filter(({ upstream }) => upstream === nameOf(index));
      const sends = own.reduce((sum, attempt) => sum + attempt.sends, 0);
      // What was written to the killed one in that moment may not have been read there any more, and nobody can know.
      const unsure = own.filter(({ certainty }) => certainty === 'possibly_accepted').length;
      const seen = server.total();
      assert.ok(
        seen <= sends && sends - unsure <= seen,
        `${nameOf(index)}: ${sends} sent, ${unsure} unsure, ${seen} seen`,
      );
    }
    assert.equal(new Set(attempts.map(({ request_id }) => request_id)).size, STREAMS, 'every request has a row');
    assert.deepEqual(await faultsInBooks(several), {});
  });
});

describe('an upstream that fails again and again', () => {
  /** Nothing else waits for so long. */
  const WAIT_MS = 3500;
  const clock = movableClock({ stands: true });
  let several: Several;
  before(async () => {
    several = await openSeveral({ count: 2, each: { a: { breaker: { mode: 'off' } } }, clock });
  });
  after(() => several?.close());
  beforeEach(() => several.forget());

  /** Asks so often at once, and lets the wait of those that are sent again end when all others are served. */
  async function askAtOnce(name: string, count: number): Promise<number> {
    several.faults[0]!.plays.set('a', answers(529, { retry_after: String(WAIT_MS / 1000) }));
    let answered = 0;
    const asked = Array.from({ length: count }, async (_, index) => {
      const { status } = await several.ask(`${name}-${index}`);
      answered++;
      return status;
    });
    const before_count = clock.begun(WAIT_MS);
    const waiting = () => clock.begun(WAIT_MS) - before_count;
    await until('only those that wait are left', () => answered + waiting() === count);
    const again = waiting();
    clock.advance(WAIT_MS);
    assert.deepEqual(new Set(await Promise.all(asked)), new Set([200]));
    assert.deepEqual(several.counts(), [count + again, count]);
    return again;
  }

  test('gets no more requests again than its retry budget, and the others serve', async () => {
    const countAgain = async () => {
      await nothingReserved(several.gateway.database);
      return (await several.attempts()).filter(({ reason }) => reason === 'same_after_wait').length;
    };
    const before_count = await countAgain();
    const again = await askAtOnce('many', 60);
    // 20 % of 60 under way.
    assert.ok(again >= 3 && again <= 12, `${again} were sent again`);
    assert.equal((await countAgain()) - before_count, again);
  });

  test('gets three of them where few are under way', async () => {
    assert.equal(await askAtOnce('few', 8), 3);
  });
});

describe('a flapping upstream with a breaker', () => {
  let several: Several;
  before(async () => {
    several = await openSeveral({ count: 2, clock: movableClock({ stands: true }) });
  });
  after(() => several?.close());

  test('gets few requests while it fails, one at a time when it is tried again, and all when it is well', async () => {
    const { faults } = several;
    faults[0]!.plays.set('a', answers(500));
    const ask = async (name: string, count: number) => {
      for (let i = 0; i < count; i++) assert.equal((await several.ask(`${name}-${i}`)).status, 200);
    };
    await ask('first', 50);
    assert.equal(several.counts()[0], 5, 'five in a row open it');
    for (const [seconds, trials] of [
      [7, 1],
      [13, 1],
      [26, 1],
    ] as const) {
      const before_count = several.counts()[0]!;
      several.advance(seconds);
      await Promise.all(Array.from({ length: 20 }, (_, index) => several.ask(`after-${seconds}-${index}`)));
      assert.equal(several.counts()[0]! - before_count, trials, `${seconds} seconds later`);
    }
    faults[0]!.plays.set('a', inTurn(serves));
    several.advance(60);
    await ask('well', 2);
    several.advance(20);
    const before_count = several.counts()[0]!;
    await ask('more', 10);
    assert.equal(several.counts()[0]! - before_count, 10);
  });
});
