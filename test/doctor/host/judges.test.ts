import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clockIn, examineClock } from '../../../engine/doctor/host/clock.ts';
import { type DatabaseFacts, judgeDatabase } from '../../../engine/doctor/host/database.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';

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
  ahead_ms: 0,
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
});

test("connections of the embedded database are nobody else's business", () => {
  const embedded = stageConfig({ database: { embedded: { data_dir: 'data' } } });
  const judged = judgeDatabase({ ...FACTS, usable: 1 }, { config: embedded, running: undefined });
  assert.deepEqual(
    judged.filter(({ verdict }) => verdict !== 'ok'),
    [],
  );
});
