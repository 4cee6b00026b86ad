import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/api.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { REPLICA } from '../../../engine/kit/process/replica.ts';
import type { Database } from '../../../engine/store/database.ts';
import {
  createTroubleKeeper,
  listTroubles,
  troublesElsewhere,
} from '../../../engine/upstreams/states/kept-troubles.ts';
import { createUpstreamStates } from '../../../engine/upstreams/states/upstream-states.ts';
import { quietLog, type TestStore, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { upstream } from './scene.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

const NOON = Date.parse('2027-01-31T12:00:00Z');

/** States whose troubles are kept, on a stopped clock of which every scene has its own day. */
let days = 0;
function scene(query: Database['query'] = store.database.query) {
  days += 1;
  const clock = frozenClock(NOON + days * 86_400_000);
  const keeper = createTroubleKeeper({ database: { query }, clock, log: quietLog });
  const states = createUpstreamStates({
    upstreams: [upstream('main'), upstream('spare')],
    clock,
    log: quietLog,
    random: () => 0.5,
    onTrouble: keeper.note,
    onRecovery: keeper.end,
  });
  const show = (effect: 'failure' | 'success' | 'limited', times = 1, retry_after?: number) => {
    for (let n = 0; n < times; n++) {
      const trial = states.begin('main', 'm');
      trial.tell(effect, 'status 529', retry_after);
      trial.leave();
    }
  };
  return { clock, keeper, states, show, began: new Date(clock.now()) };
}

const of = async (clock: FrozenClock) => {
  const all = await listTroubles(store.database, { limit: 100 });
  return all.filter(({ began_at }) => Math.abs(began_at.getTime() - clock.now()) < 3_600_000);
};

/** Lets time pass until what was noted is written, and something of it is seen. */
function written<T>(clock: FrozenClock, what: string, find: () => Promise<T>): Promise<T> {
  return until(what, async () => {
    clock.advance(100);
    return find();
  });
}

describe('what keeps requests from an upstream', () => {
  it('is written down once, with how often it was tried in vain, until it serves again', async () => {
    const { clock, show, began } = scene();
    show('failure', 5);
    const { id: _, ...told } = await until('it is written', async () => (await of(clock))[0]);
    assert.deepEqual(told, {
      replica: REPLICA,
      kind: 'open',
      upstream: 'main',
      upstream_model: 'm',
      began_at: began,
      until: new Date(began.getTime() + 5000),
      ended_at: null,
      times: 1,
      last: 'status 529',
    });
    clock.advance(5000);
    show('failure');
    clock.advance(10_000);
    show('success', 2);
    const ended = new Date(clock.now());
    await written(clock, 'its end is written', async () => (await of(clock))[0]?.ended_at != null);
    const all = await of(clock);
    assert.deepEqual(
      all.map(({ times, ended_at }) => [times, ended_at]),
      [[2, ended]],
    );
  });

  it('is one window where the account is refused and served in turn', async () => {
    const { clock, show } = scene();
    for (let n = 0; n < 20; n++) {
      show('limited', 1, 2);
      clock.advance(3000);
      show('success');
    }
    clock.advance(120_000);
    show('limited', 1, 2);
    await written(clock, 'the second window is written', async () => (await of(clock)).length === 2);
    const [second, first] = await of(clock);
    assert.equal(first!.times, 20);
    assert.equal(first!.ended_at!.getTime() - first!.began_at.getTime(), 60_000);
    assert.deepEqual([second!.times, second!.ended_at], [1, null]);
  });

  it('is not written where another replica told of it, nor when that is over', async () => {
    const { clock, states, show } = scene();
    states.heed({ kind: 'open', upstream: 'main', upstream_model: 'm', until: clock.now() + 5000, failing_ms: 1000 });
    assert.equal(states.closed('main', 'm')?.because, 'open');
    clock.advance(5000);
    show('success', 2);
    assert.equal(states.closed('main', 'm'), undefined);
    // What comes after it is written after it.
    show('failure', 5);
    await written(clock, 'what was seen here is written', async () => (await of(clock)).length > 0);
    const all = await of(clock);
    assert.equal(all.length, 1);
    assert.equal(all[0]!.ended_at, null);
  });

  it('is written when the database is back', async () => {
    let away = true;
    const query: Database['query'] = async (name, text, values) => {
      if (away) throw new StageError('store_unavailable', 'The test says that the database is away.');
      return store.database.query(name, text, values);
    };
    const { clock, show } = scene(query);
    show('failure', 5);
    await until('it was tried', () => clock.next() !== undefined);
    assert.deepEqual(await of(clock), []);
    away = false;
    await until('it is written', async () => {
      clock.advance(1000);
      return (await of(clock)).length === 1;
    });
  });

  it('is told of other replicas for as long as it lasts there, and comes in pages', async () => {
    const { clock, show } = scene();
    const now = new Date(clock.now());
    for (const [n, replica] of ['other 1', 'other 2', REPLICA].entries()) {
      await store.database.query(
        'test_trouble',
        `insert into upstream_troubles (replica, kind, upstream, began_at, until, ended_at, times, last)
         values ($1, 'unreachable', 'spare', $2, $3, $4, 1, null)`,
        [replica, now, new Date(now.getTime() + 60_000), n === 0 ? now : null],
      );
    }
    const elsewhere = await troublesElsewhere(store.database, now);
    assert.deepEqual(
      elsewhere.map(({ replica }) => replica),
      ['other 2'],
    );
    assert.deepEqual(await troublesElsewhere(store.database, new Date(now.getTime() + 60_000)), []);
    const page = await listTroubles(store.database, { upstream: 'spare', limit: 2 });
    const rest = await listTroubles(store.database, { upstream: 'spare', limit: 2, before: page[1]!.id });
    assert.deepEqual(
      [...page, ...rest].map(({ replica }) => replica),
      [REPLICA, 'other 2', 'other 1'],
    );
    // Time goes by until all of these are too old.
    clock.advance(31 * 86_400_000);
    show('failure', 5);
    await written(clock, 'the old ones are gone', async () => {
      return (await listTroubles(store.database, { upstream: 'spare', limit: 9 })).length === 0;
    });
  });
});
