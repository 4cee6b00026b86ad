import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HealthPart } from '../../engine/base/contract/services.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { createHealth, type ReadinessTries, type ReloadState } from '../../engine/base/store/health.ts';
import { createLog } from '../support/open-database.ts';

const loaded_at = Date.parse('2027-01-31T08:00:00Z');
const never_reloaded: ReloadState = { loaded_at, reloads: 0, failed_reloads: 0, failing_since: undefined };

const BOTH = { callers: true, reservations: true };

const refused = async () => {
  throw new Error('connection refused');
};

function open(
  tries: Partial<ReadinessTries> = {},
  reloads = never_reloaded,
  upstreams: HealthPart['public_details'] = {},
) {
  const clock = frozenClock(loaded_at);
  const { log, lines } = createLog();
  const all: ReadinessTries = {
    write: async () => {},
    read: async () => ({ ok: true }),
    spool: async () => true,
    knowsCallers: () => true,
    servesWithoutReservations: () => false,
    pipelines: () => [BOTH],
    ...tries,
  };
  const health = createHealth({
    tries: all,
    clock,
    log,
    reloads: () => reloads,
    upstreams: () => upstreams,
    stopping: () => false,
  });
  return { health, clock, lines };
}

/** [state of the database, of the spool, whether requests would be served]. */
async function found(tries: Partial<ReadinessTries>): Promise<readonly unknown[]> {
  const { database, spool } = await open(tries).health.check();
  return [database?.state, spool?.state, database?.ok || database?.needed === false];
}

const read_only = { write: refused };
const away = { write: refused, read: async () => ({ ok: false }) };
const allowed = { servesWithoutReservations: () => true };

for (const [what, tries, expected] of [
  ['a database that takes writes serves', {}, ['ok', 'unused', true]],
  ['a read-only database serves no caller under deny', read_only, ['read_only', 'unused', false]],
  ['a read-only database serves under allow', { ...read_only, ...allowed }, ['read_only', 'ok', true]],
  [
    'a read-only database serves where no money is reserved',
    { ...read_only, pipelines: () => [{ ...BOTH, reservations: false }] },
    ['read_only', 'unused', true],
  ],
  ['an unreachable database serves no caller under deny', away, ['unavailable', 'unused', false]],
  ['an unreachable database serves known callers under allow', { ...away, ...allowed }, ['unavailable', 'ok', true]],
  [
    'an unreachable database serves no caller where none is known',
    { ...away, ...allowed, knowsCallers: () => false },
    ['unavailable', 'ok', false],
  ],
  [
    'a database that is away serves under deny where one pipeline asks for neither caller nor money',
    { ...away, knowsCallers: () => false, pipelines: () => [BOTH, { callers: false, reservations: false }] },
    ['unavailable', 'unused', true],
  ],
  [
    'an unreachable database serves no caller where each pipeline lacks something',
    {
      ...away,
      knowsCallers: () => false,
      pipelines: () => [
        { ...BOTH, callers: false },
        { ...BOTH, reservations: false },
      ],
    },
    ['unavailable', 'unused', false],
  ],
  [
    'a full spool serves no caller while the database is away',
    { ...away, ...allowed, spool: async () => false },
    ['unavailable', 'unavailable', false],
  ],
] as const) {
  test(what, async () => assert.deepEqual(await found(tries), expected));
}

test('a crowd of probes tries once a second, and a change is logged once', async () => {
  let tried = 0;
  let works = true;
  const write = async () => {
    tried++;
    if (!works) await refused();
  };
  const { health, clock, lines } = open({ ...away, write });
  await Promise.all([health.check(), health.check(), health.check()]);
  await health.check();
  assert.equal(tried, 1);
  works = false;
  for (let second = 0; second < 3; second++) {
    clock.advance(1000);
    await health.check();
  }
  works = true;
  clock.advance(1000);
  await health.check();
  assert.equal(tried, 5);
  assert.deepEqual(
    lines.map((line) => line.replace(/:? .*/, '')).length,
    2,
    `it was logged when it changed: ${lines.join('\n')}`,
  );
});

test('the configuration has its start and its number of reloads', async () => {
  const { health } = open({}, { ...never_reloaded, reloads: 3 });
  const reported = { state: 'ok', loaded_at: '2027-01-31T08:00:00.000Z', reloads: 3, failed_reloads: 0 };
  assert.deepEqual((await health.check()).configuration, { ok: true, public_details: reported });
});

test('a failed reload is reported, with its time, and leaves the gateway ready', async () => {
  const failed = { ...never_reloaded, failed_reloads: 2, failing_since: loaded_at + 1000 };
  const { configuration } = await open({}, failed).health.check();
  assert.equal(configuration?.ok, true);
  assert.equal(configuration?.public_details?.state, 'reload_failed');
  assert.equal(configuration?.public_details?.failing_since, '2027-01-31T08:00:01.000Z');
});

test('a silent database counts as away after two seconds, and no probe waits for it that long', async (t) => {
  let response: () => Promise<void> = async () => {};
  const { health, clock } = open({ write: () => response() });
  await health.check();
  response = () => new Promise(() => {});
  t.mock.timers.enable({ apis: ['setTimeout'] });
  clock.advance(1000);
  const first = health.check();
  t.mock.timers.tick(500);
  assert.equal((await first).database?.state, 'ok', 'the last known state');
  clock.advance(2000);
  const { database } = await health.check();
  assert.deepEqual([database?.state, database?.needed], ['unavailable', true]);
  assert.match(database?.detail ?? '', /no response within 2 seconds/);
});

test('a database without any response yet is away to a probe after half a second', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const check = open({ write: () => new Promise(() => {}) }).health.check();
  t.mock.timers.tick(500);
  assert.equal((await check).database?.state, 'unavailable');
});

test('upstream states are reported and decide nothing', async () => {
  const { health } = open({}, never_reloaded, { main: { state: 'open', until: '2027-01-31T08:00:05.000Z' } });
  assert.deepEqual((await health.check()).upstreams, {
    ok: true,
    public_details: { main: { state: 'open', until: '2027-01-31T08:00:05.000Z' } },
  });
});
