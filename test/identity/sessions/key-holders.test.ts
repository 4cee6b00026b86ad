import assert from 'node:assert/strict';
import { syncBuiltinESMExports } from 'node:module';
import { after, describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { openKeyHolders } from '../../../engine/domain/identity/sessions/key-holders.ts';
import { useTestStore } from '../../support/store.ts';
import { START } from './people.ts';

const { store } = useTestStore();
const opened: ReturnType<typeof openKeyHolders>[] = [];
after(() => Promise.all(opened.map((holders) => holders.close())));

/** A gateway on the database of this file, with the statements it sent and the warnings it gave. */
function open(clock = frozenClock(START), keyIds: () => readonly string[] = () => []) {
  const statements: string[] = [];
  const warnings: string[] = [];
  const state = { away: false, empty: false };
  const log = { debug() {}, info() {}, warn: (_: object, text: string) => void warnings.push(text), error() {} };
  const database = {
    async query<Row>(name: string, text: string, values: readonly unknown[]) {
      statements.push(name);
      if (state.empty) return [];
      if (state.away) throw new StageError('store_unavailable', 'away');
      return store.database.query<Row>(name, text, values);
    },
  };
  let tick = () => {};
  const every = (_ms: number, task: () => void) => {
    tick = task;
    return () => {};
  };
  const holders = openKeyHolders({ database, clock, log, held: keyIds, every });
  opened.push(holders);
  return { holders, statements, warnings, state, clock, tick: () => tick() };
}

const UNAVAILABLE = { code: 'temporarily_unavailable', status: 503, headers: { 'retry-after': '1' } };

describe('a key that a gateway does not have', () => {
  it('belongs to another gateway that announced it, for five minutes, with a warning once a minute', async () => {
    const [one, other] = [open(), open()];
    await one.holders.announce(['key-of-one']);
    const warned = [];
    for (const ms of [0, 59_999, 1, 239_999]) {
      other.clock.advance(ms);
      await assert.rejects(other.holders.assertUnknown('key-of-one'), UNAVAILABLE);
      warned.push(other.warnings.length);
    }
    assert.deepEqual(warned, [1, 1, 2, 3]);
    other.clock.advance(1);
    await other.holders.assertUnknown('key-of-one');
  });

  it('is queried a few times a second, for any number of made-up ones', async (t) => {
    const { holders, statements, state } = open();
    // Connections of a real database have timers of their own.
    state.empty = true;
    const ask = (round: number) =>
      Promise.all(Array.from({ length: 500 }, (_, i) => holders.assertUnknown(`made-up-${round}-${i}`)));
    t.mock.timers.enable({ apis: ['setTimeout'] });
    syncBuiltinESMExports();
    t.after(() => {
      t.mock.timers.reset();
      syncBuiltinESMExports();
    });
    await ask(0);
    for (let round = 1; round < 3; round++) {
      const asked = ask(round);
      t.mock.timers.tick(249);
      await nextTurn();
      assert.equal(statements.length, round, 'they wait');
      t.mock.timers.tick(1);
      await asked;
      assert.equal(statements.length, round + 1);
    }
  });

  it('cannot be distinguished while the database is away, and can afterwards', async () => {
    const { holders, state } = open();
    state.away = true;
    await assert.rejects(holders.assertUnknown('nobody-has-it'), { code: 'store_unavailable' });
    state.away = false;
    await holders.assertUnknown('nobody-has-it');
  });
});

describe('a gateway', () => {
  it('announces its keys before it signs, and not again for each token', async () => {
    const { holders, statements, clock } = open();
    for (let times = 0; times < 5; times++) await holders.announce(['mine']);
    assert.deepEqual(statements, ['keys_announce']);
    clock.advance(60_000);
    await holders.announce(['mine']);
    assert.equal(statements.length, 2);
    await holders.announce([]);
    assert.equal(statements.length, 2);
  });

  it('repeats the announcement of active ones', async () => {
    let in_force = ['first'];
    const one = open(frozenClock(START), () => in_force);
    const other = open(one.clock);
    one.tick();
    in_force = ['second'];
    one.clock.advance(300_000);
    one.tick();
    await one.holders.close();
    await other.holders.assertUnknown('first');
    await assert.rejects(other.holders.assertUnknown('second'), UNAVAILABLE);
  });
});
