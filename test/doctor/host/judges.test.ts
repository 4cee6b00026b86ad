import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clockIn, examineClock } from '../../../engine/doctor/host/clock.ts';
import { judgeDatabase } from '../../../engine/doctor/host/database.ts';
import type { DatabaseFacts } from '../../../engine/doctor/host/database-facts.ts';
import { examineResources } from '../../../engine/doctor/host/memory.ts';
import { judgeValidity } from '../../../engine/doctor/host/tls-look.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { machineWith } from './support.ts';

const DAY_MS = 86_400_000;
const MIB = 1024 * 1024;

test('a certificate is told of before it ends: two weeks, or a quarter of a short life', () => {
  const judged = (life_days: number, left_days: number) =>
    judgeValidity({ valid_from: (left_days - life_days) * DAY_MS, valid_to: left_days * DAY_MS }, 0, 'renew it')
      .verdict;
  assert.equal(judged(90, 40), 'ok');
  assert.equal(judged(90, 13), 'warning');
  assert.equal(judged(6, 3), 'ok');
  assert.equal(judged(6, 1), 'warning');
  assert.equal(judged(90, -1), 'failed');
  const early = judgeValidity({ valid_from: 2 * DAY_MS, valid_to: 90 * DAY_MS }, 0, 'renew it');
  assert.equal(early.verdict, 'failed');
  assert.match(early.remedy ?? '', /clock/);
});

test('a clock is wrong when all others agree on another time, and not when one of them differs', () => {
  const ahead = (...seconds: number[]) =>
    examineClock(
      seconds.map((each, index) => ({ of: `server ${index}`, ahead_ms: each * 1000 })),
      30,
    );
  assert.equal(ahead(0.2, -1).verdict, 'ok');
  const behind = ahead(300, 302);
  assert.equal(behind.verdict, 'failed');
  assert.match(behind.found, /5 min behind all others.*auth\.oidc\.clock_skew_seconds/);
  assert.equal(ahead(-20, -21).verdict, 'warning');
  assert.match(ahead(0, 0.5, 600).found, /differs from that of server 2 \(10 min ahead\)/);
  assert.match(ahead(600).found, /which of the two is wrong can't be told/);
  assert.match(ahead(600, -600).found, /not with each other/);
  assert.equal(ahead().verdict, 'skipped');
});

test('the time in an answer is that of its maker, unless the answer is older', () => {
  const date = 'Mon, 23 Nov 2026 09:00:00 GMT';
  const now = Date.parse(date) + 500;
  assert.equal(clockIn({ date }, now), 0);
  assert.equal(clockIn({ date, age: '10' }, now), undefined);
  assert.equal(clockIn({ date: 'yesterday' }, now), undefined);
  assert.equal(clockIn({}, now), undefined);
});

const FACTS: DatabaseFacts = {
  version: 18,
  is_standby: false,
  is_read_only: false,
  schema: 'public',
  user: 'gateway',
  may_migrate: true,
  owner: 'gateway_owner',
  is_migrated: true,
  missing_rights: [],
  usable: 97,
  in_use: 3,
  limited_by: 'max_connections',
  session: 7,
  backends: [7, 7],
  is_encrypted: true,
  is_checked: true,
  is_local: false,
  longest_idle: { seconds: 0, who: '' },
  longest_transaction: { seconds: 0, who: '' },
  blocked: { seconds: 0, who: '' },
  sees_all: true,
  bytes: 1000,
  months_ahead: 3,
  ahead_ms: 0,
  database_id: 'an-id',
};

const config = stageConfig({ database: { postgres: { url_env: 'DATABASE_URL', pool_max: 10 } } });
const wrong = (facts: Partial<DatabaseFacts>) =>
  judgeDatabase({ ...FACTS, ...facts }, { config, running: undefined })
    .filter(({ verdict }) => verdict !== 'ok')
    .map(({ id, verdict, found, remedy }) => {
      assert.ok(remedy, id);
      return `${verdict} ${id}: ${found}`;
    })
    .join('\n');

test('nothing is said against a database that is as it should be', () => {
  assert.equal(wrong({}), '');
});

test('each fault of a database is told by itself, with what to do', () => {
  assert.match(wrong({ version: 14 }), /^failed database\.version: 14: the gateway needs 15/);
  assert.match(wrong({ is_standby: true }), /^failed database\.writable: it is a standby/);
  assert.match(wrong({ is_read_only: true }), /^failed database\.writable: .*read-only/);
  assert.equal(wrong({ may_migrate: false }), '');
  assert.match(wrong({ may_migrate: false, is_migrated: false }), /^failed database\.rights: .*may not migrate/);
  assert.match(wrong({ schema: null, may_migrate: false }), /^failed database\.rights: gateway has no schema/);
  assert.match(
    wrong({ missing_rights: ['insert on ledger'] }),
    /^failed database\.rights: gateway lacks insert on ledger/,
  );
  assert.match(wrong({ usable: 8 }), /^failed database\.connections/);
  assert.match(wrong({ in_use: 90 }), /^warning database\.connections: 90 of 97 in use/);
  assert.match(wrong({ usable: 15, in_use: 0 }), /^warning .*during an upgrade two run at once/);
  assert.match(wrong({ backends: [7, 8] }), /^failed database\.pooler/);
  assert.match(wrong({ session: 1 }), /^warning database\.pooler: there is one; whether .* can't be told/);
  assert.match(wrong({ is_encrypted: false }), /^warning database\.encryption/);
  assert.equal(wrong({ is_encrypted: false, is_local: true }), '');
  const found = (facts: object) =>
    judgeDatabase({ ...FACTS, ...facts }, { config, running: undefined }).find(({ id }) => id === 'database.encryption')
      ?.found;
  assert.equal(found({}), 'it is encrypted');
  assert.match(found({ is_checked: false }) ?? '', /^it is encrypted, .* not checked \(sslmode=verify-full does\)$/);
  const long = (seconds: number) => ({ seconds, who: 'psql (user ann, process 5)' });
  assert.match(
    wrong({ longest_idle: long(90) }),
    /^warning database\.activity: one of psql .* idle in a transaction for 90 s/,
  );
  assert.match(wrong({ longest_transaction: long(3600) }), /^warning .* has run for 60 min/);
  assert.match(wrong({ blocked: long(30) }), /^warning .* waited 30 s for a lock/);
  assert.match(wrong({ months_ahead: 0 }), /^warning database\.size: .*tables of this month are missing/);
});

test("connections of the embedded database are nobody else's business", () => {
  const embedded = stageConfig({ database: { embedded: { data_dir: 'data' } } });
  const judged = judgeDatabase({ ...FACTS, usable: 1, is_encrypted: false }, { config: embedded, running: undefined });
  assert.deepEqual(
    judged.filter(({ verdict }) => verdict !== 'ok'),
    [],
  );
});

const CONTAINER = {
  '/proc/self/cgroup': '0::/\n',
  '/sys/fs/cgroup/cgroup.controllers': 'cpu memory',
};

function resources(files: Readonly<Record<string, string>>) {
  const machine = machineWith({ ...CONTAINER, ...files }, { memory_bytes: 64 * 1024 * MIB, processors: 8 });
  const found = examineResources({
    config: stageConfig({}),
    loaded: { pipelines: [] } as never,
    machine,
    running: undefined,
  });
  return Object.fromEntries(found.map((one) => [one.id, one]));
}

test('a container with less memory than the configuration may hold is told of, and one that was too small before', () => {
  const small = resources({ '/sys/fs/cgroup/memory.max': String(512 * MIB) })['host.memory']!;
  assert.equal(small.verdict, 'warning');
  assert.match(small.found, /limit of the container or service here is 512 MiB, and the gateway may need/);
  assert.match(small.remedy ?? '', /buffered_bytes/);
  assert.equal(resources({ '/sys/fs/cgroup/memory.max': String(16_384 * MIB) })['host.memory']!.verdict, 'ok');
  const killed = resources({
    '/sys/fs/cgroup/memory.max': String(512 * MIB),
    '/sys/fs/cgroup/memory.events': 'oom_kill 4\n',
  });
  assert.equal(killed['host.memory']!.verdict, 'failed');
  assert.match(killed['host.memory']!.found, /ended 4 times/);
});

test('less than one processor, or a quota that is often used up, is told of', () => {
  const verdict = (max: string, stat = '') =>
    resources({ '/sys/fs/cgroup/cpu.max': max, '/sys/fs/cgroup/cpu.stat': stat })['host.processors']!.verdict;
  assert.equal(verdict('max 100000'), 'ok');
  assert.equal(verdict('200000 100000'), 'ok');
  assert.equal(verdict('50000 100000'), 'warning');
  assert.equal(verdict('200000 100000', 'nr_periods 100\nnr_throttled 50\n'), 'warning');
});

test('a limit of open files below what connections may take is told of, as far as it can be raised', () => {
  const limits = (hard: string) =>
    resources({ '/proc/self/limits': `Max open files            1024                 ${hard}              files\n` });
  assert.equal(limits('1048576')['host.open_files']!.verdict, 'ok');
  assert.equal(limits('unlimited')['host.open_files']!.verdict, 'ok');
  assert.equal(limits('4096')['host.open_files']!.verdict, 'warning');
  assert.equal(resources({})['host.open_files'], undefined);
});
