import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { openRevocations } from '../../../engine/identity/sessions/revocations.ts';
import { createSessions } from '../../../engine/identity/sessions/sessions.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { quietLog, type TestStore, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { openGrantsAndForm, START, signIn, somebody } from './people.ts';

let store: TestStore;
const opened_lists: { close(): Promise<void> }[] = [];
const to_close = useTestStore((opened) => {
  store = opened;
});
to_close.push({ close: async () => void (await Promise.all(opened_lists.map((list) => list.close()))) });

/** Opens a list on a database of its own that may be switched off and whose announcements may be lost. */
async function openList(clock: FrozenClock = frozenClock(START)) {
  const database = await store.another();
  const seen = { queries: 0, away: false, deaf: false, reconnect: () => {} };
  const list = openRevocations({
    clock,
    log: quietLog,
    every: () => () => {},
    database: {
      async query(name, text, values) {
        seen.queries++;
        if (seen.away) throw new StageError('store_unavailable', 'switched off by the test');
        return database.query(name, text, values);
      },
      listen(channel, onMessage, onReconnect) {
        seen.reconnect = onReconnect;
        return database.listen(channel, (payload) => seen.deaf || onMessage(payload), onReconnect);
      },
    },
  });
  opened_lists.push(list);
  await list.attempted;
  return { list, seen };
}

function openSessions(clock: FrozenClock = frozenClock(START)) {
  const { database } = store;
  const sessions = createSessions({ database, clock });
  const grants = openGrantsAndForm({ database, clock, refresh_days: 30 });
  return { sessions, begin: async () => (await signIn(grants, somebody())).id };
}

describe('the list of ended sessions', () => {
  it('hears of a session that another replica ends, without asking', async () => {
    const { list, seen } = await openList();
    const { sessions, begin } = openSessions();
    const [ended, other] = [await begin(), await begin()];
    assert.equal(list.has(ended), false);
    const heard: (string | undefined)[] = [];
    const stop = list.onRevoked((id) => heard.push(id));
    const asked = seen.queries;
    await sessions.end(ended, 'signed out');
    await until('the end is known', () => list.has(ended));
    assert.equal(seen.queries, asked, 'nobody had to ask');
    assert.deepEqual([list.has(other), heard], [false, [ended]]);
    stop();
    await sessions.end(other, 'signed out');
    await until('the end is known', () => list.has(other));
    assert.deepEqual(heard, [ended]);
  });

  it('knows what was ended before it was opened', async () => {
    const { sessions, begin } = openSessions();
    const id = await begin();
    await sessions.end(id, 'signed out');
    const { list } = await openList();
    assert.equal(list.has(id), true);
  });

  it('finds by reading what was not announced, and tells of it once', async () => {
    const clock = frozenClock(START);
    const { list, seen } = await openList(clock);
    const { sessions, begin } = openSessions(clock);
    const id = await begin();
    seen.deaf = true;
    await sessions.end(id, 'signed out');
    const heard: (string | undefined)[] = [];
    list.onRevoked((each) => heard.push(each));
    assert.equal(list.has(id), false);
    clock.advance(3000);
    await list.refresh();
    assert.equal(list.has(id), true);
    await list.refresh();
    assert.deepEqual(heard, [id]);
  });

  it('reads anew when it listens again', async () => {
    const { list, seen } = await openList();
    const { sessions, begin } = openSessions();
    const id = await begin();
    seen.deaf = true;
    await sessions.end(id, 'signed out');
    seen.reconnect();
    await until('the end is known', () => list.has(id));
  });

  it('finds what a replica whose clock is slow ended', async () => {
    const clock = frozenClock(START);
    const { list, seen } = await openList(clock);
    seen.deaf = true;
    const { sessions, begin } = openSessions(frozenClock('2026-03-10T11:59:30Z'));
    const id = await begin();
    await sessions.end(id, 'signed out');
    await list.refresh();
    assert.equal(list.has(id), true);
  });

  it('forgets a session when no token of it can be good any more', async () => {
    const clock = frozenClock(START);
    const { list } = await openList(clock);
    const { sessions, begin } = openSessions(clock);
    const id = await begin();
    await sessions.end(id, 'signed out');
    await list.refresh();
    clock.advance(24 * 3_600_000);
    await list.refresh();
    assert.equal(list.has(id), true);
    clock.advance(61_000);
    await list.refresh();
    assert.equal(list.has(id), false);
  });

  it('says that the store is away until it was read once, and goes on with what it knows after that', async () => {
    let away = true;
    const list = openRevocations({
      clock: frozenClock(START),
      log: quietLog,
      every: () => () => {},
      database: {
        async query() {
          if (away) throw new StageError('store_unavailable', 'switched off by the test');
          return [];
        },
        async listen() {
          throw new Error('no listening either');
        },
      },
    });
    await list.attempted;
    assert.throws(() => list.has('ses_1'), { code: 'store_unavailable' });
    away = false;
    await list.refresh();
    assert.equal(list.has('ses_1'), false);
    away = true;
    await list.refresh();
    assert.equal(list.has('ses_1'), false);
    await list.close();
  });
});
