import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { createAttemptLimits } from '../../../engine/domain/identity/sessions/attempt-limits.ts';
import { createConsoleSessions, makeLink } from '../../../engine/domain/identity/sessions/console-sessions.ts';
import { startHousekeeping } from '../../../engine/domain/identity/sessions/housekeeping.ts';
import { createSessions } from '../../../engine/domain/identity/sessions/sessions.ts';
import { quietLog, useTestStore } from '../../support/store.ts';
import { authWith } from './configuration.ts';
import { anyPerson, DEVICE, openGrantsAndForm, START, signIn } from './people.ts';

const { store } = useTestStore();

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const rowsIn = async (table: string): Promise<number> =>
  (await store.rows(`select count(*)::integer as rows from ${table}`))[0].rows;

const start = (clock: FrozenClock, database: Pick<Database, 'query'> = store.database) =>
  startHousekeeping({ database, clock, log: quietLog, every: () => () => {} });

it('removes links of the console and sessions that they opened', async () => {
  const { database } = store;
  const clock = frozenClock(START);
  const housekeeping = start(clock);
  const sessions = createConsoleSessions({ database, clock });
  await sessions.openLink(await makeLink({ database, clock }, 'root@host'));
  await makeLink({ database, clock }, 'root@host');
  const counts = async () => {
    await housekeeping.sweep();
    return [await rowsIn('console_links'), await rowsIn('console_sessions')];
  };
  assert.deepEqual(await counts(), [1, 1]);
  clock.advance(2 * HOUR_MS);
  assert.deepEqual(await counts(), [0, 1]);
  clock.advance(30 * DAY_MS);
  assert.deepEqual(await counts(), [0, 0]);
});

it('removes sign-ins, attempts and sessions once they are unused, and not before', async () => {
  const { database } = store;
  const clock = frozenClock(START);
  const housekeeping = start(clock);
  const grants = openGrantsAndForm({ database, clock, refresh_days: 1 });
  const limits = { ...authWith().limits, window_seconds: 60 };
  const { device_code } = await grants.begin(DEVICE);
  await createAttemptLimits({ database, clock, limits, log: quietLog }).count('code_submission', '192.0.2.1');
  // Typing its code is an attempt as well.
  await signIn(grants, anyPerson());
  const counts = async () => {
    await housekeeping.sweep();
    return Promise.all(['device_grants', 'attempts', 'sessions', 'refresh_tokens'].map(rowsIn));
  };
  assert.deepEqual(await counts(), [2, 2, 1, 1]);
  clock.advance(HOUR_MS);
  assert.deepEqual(await counts(), [2, 2, 1, 1]);
  assert.equal((await grants.poll(device_code)).outcome, 'expired');
  clock.advance(600_001);
  assert.deepEqual(await counts(), [0, 2, 1, 1]);
  clock.advance(DAY_MS);
  assert.deepEqual(await counts(), [0, 0, 1, 1]);
  assert.equal((await createSessions({ database, clock }).list({ ended: true })).length, 1);
  clock.advance(30 * DAY_MS);
  assert.deepEqual(await counts(), [0, 0, 0, 0]);
  await housekeeping.close();
});

it('removes many in batches, also when two replicas do so at once', async () => {
  const { database } = store;
  await store.rows(
    `insert into attempts select 'code_submission', n::text, '2020-01-01', 1 from generate_series(1, 2500) n`,
  );
  const clock = frozenClock(START);
  const replicas = [database, await store.another()].map((each) => start(clock, each));
  await Promise.all(replicas.map((each) => each.sweep()));
  await replicas[0]!.sweep();
  assert.equal(await rowsIn('attempts'), 0);
  await Promise.all(replicas.map((each) => each.close()));
});

it('removes the tokens of a session renewed for a month a few at a time: no statement takes long', async () => {
  const { database } = store;
  const clock = frozenClock(START);
  const session = await signIn(openGrantsAndForm({ database, clock, refresh_days: 1 }), anyPerson());
  await store.rows(
    `insert into refresh_tokens (hash, session_id, created_at, used_at)
     select sha256(n::text::bytea), $1, now(), now() from generate_series(1, 5000) n`,
    session.id,
  );
  const steps: number[] = [];
  const counted: Pick<Database, 'query'> = {
    async query(...statement) {
      const before = await rowsIn('refresh_tokens');
      const rows = await database.query<never>(...statement);
      steps.push(before - (await rowsIn('refresh_tokens')));
      return rows;
    },
  };
  clock.advance(32 * DAY_MS);
  const housekeeping = start(clock, counted);
  await housekeeping.sweep();
  assert.deepEqual([await rowsIn('sessions'), await rowsIn('refresh_tokens')], [0, 0]);
  assert.ok(Math.max(...steps) <= 1000, `a statement removed ${Math.max(...steps)} tokens`);
  await housekeeping.close();
});

it('continues with the other tables when one cannot be swept', async () => {
  const swept: string[] = [];
  const housekeeping = start(frozenClock(START), {
    async query(name) {
      swept.push(name);
      if (name === 'sweep_device_grants') throw new Error('it takes too long');
      return [];
    },
  });
  await housekeeping.sweep();
  for (const table of ['device_grants', 'attempts', 'sessions', 'refused_sign_ins'])
    assert.ok(swept.includes(`sweep_${table}`), table);
  await housekeeping.close();
});
