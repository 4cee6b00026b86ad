import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { openSightings } from '../../../engine/identity/sessions/sightings.ts';
import { quietLog } from '../../support/store.ts';

/** Sightings over a database that remembers what it was told, unless it is away. */
function open() {
  const written: unknown[] = [];
  const state = { away: false };
  const database = {
    async query(_name: string, _text: string, [ids, times]: readonly unknown[]) {
      if (state.away) throw new StageError('store_unavailable', 'away');
      written.push([ids, (times as Date[]).map((at) => at.getTime())]);
      return [];
    },
  };
  const sightings = openSightings({ database: database as never, log: quietLog, every: () => () => {} });
  return { sightings, written, state };
}

describe('session tokens that are in use', () => {
  it('are written down together, the newest of each session, and only once', async () => {
    const { sightings, written } = open();
    sightings.note('one', 2000);
    sightings.note('two', 5000);
    sightings.note('one', 1000);
    await sightings.flush();
    await sightings.flush();
    assert.deepEqual(written, [
      [
        ['one', 'two'],
        [2000, 5000],
      ],
    ]);
  });

  it('are written down later when the database is away, with what came meanwhile', async () => {
    const { sightings, written, state } = open();
    state.away = true;
    sightings.note('one', 1000);
    await sightings.flush();
    sightings.note('one', 3000);
    state.away = false;
    await sightings.close();
    assert.deepEqual(written, [[['one'], [3000]]]);
  });
});
