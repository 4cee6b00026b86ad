import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import type { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { type LedgerVerification, verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import {
  assertGranted,
  reservation,
  settlement,
  stillLedger,
  teamDemand,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

const START = '2026-03-10T12:00:00Z';
/** Beyond 2^53, where a JavaScript number would lose a nano-USD. */
const HUGE = 2n ** 53n + 1n;

let ledger: DatabaseLedger;
let clock: ReturnType<typeof frozenClock>;

const { database } = useTestStore();

const change = (text: string, values: readonly string[] = []) => database.knex.raw(text, [...values]);
const verify = () => verifyLedger({ database, clock });

/** Ann and Bob of one team have spent 60 nano-USD each; 100 are reserved for another request of Ann's. */
beforeEach(async () => {
  await change('truncate ledger, reservations, spend_counters, processes, ledger_bounds');
  clock = frozenClock(START);
  ledger = stillLedger(database, clock);
  for (const [request_id, user] of [
    ['a', 'ann'],
    ['b', 'bob'],
    ['reserved', 'ann'],
  ] as const) {
    const demands = [userDemand(user, null), teamDemand('search', 1000)];
    const request = reservation({ request_id, user, team: 'search', demands });
    assertGranted(await ledger.reserve(request));
    if (request_id !== 'reserved') await ledger.settle(settlement(request));
  }
});

const NOTHING = { total: 0, first: [] };
const KINDS = ['differences', 'repeated', 'uncounted', 'attempts', 'left', 'sums'];
/** No findings: the checked tables. */
const clean = (counters: number, rows: number, cost: bigint, reservations: number, reserved: bigint) => ({
  ...{ counters, ledger_rows: rows, cost_nano_usd: cost, reservations, reserved_nano_usd: reserved },
  ...Object.fromEntries(KINDS.map((kind) => [kind, NOTHING])),
});

/** The differences, without the ids of counters. */
function differencesOf({ differences }: LedgerVerification): object[] {
  assert.equal(differences.total, differences.first.length);
  return differences.first.map(({ counter_id, ...difference }) => {
    assert.match(String(counter_id), /^\d+$/);
    return difference;
  });
}

/** The differences found are these, in whatever order. */
async function assertDiffering(...expected: object[]): Promise<void> {
  assert.deepEqual(new Set(differencesOf(await verify())), new Set(expected));
}

const ANN = { scope: 'user', key: 'ann', window: 'day', unit: 'nano_usd', window_start: new Date('2026-03-10') };
const BOB = { ...ANN, key: 'bob' };
const TEAM = { scope: 'team', key: 'search', window: 'month', unit: 'nano_usd', window_start: new Date('2026-03-01') };
const differs = (amount: string) => (kept: bigint, recomputed: bigint) => ({ amount, kept, recomputed });
const spent = differs('spent');
const reserved = differs('reserved');
const most = differs('most');
const inFlight = differs('in_flight');

describe('the verification of the ledger', () => {
  it('finds nothing in intact tables, and lists what it checked', async () => {
    assert.deepEqual(await verify(), clean(3, 2, 120n, 1, 100n));
  });

  it('finds nothing in an empty database', async () => {
    await change('truncate ledger, reservations, spend_counters, processes');
    assert.deepEqual(await verify(), clean(0, 0, 0n, 0, 0n));
  });

  it('leaves a request that is settled after the end of its window where it was counted', async () => {
    clock.advance(40 * 24 * 3_600_000);
    const late = reservation({ request_id: 'reserved', user: 'ann', team: 'search' });
    await ledger.settle(settlement(late, { cost_nano_usd: 7 }));
    assert.deepEqual(differencesOf(await verify()), []);
  });

  it('adds rows that put a price right, and counts them as no second request', async () => {
    await change(
      `insert into ledger select (jsonb_populate_record(l, '{"kind": "adjustment", "cost_nano_usd": -10}')).*
       from ledger l where request_id = 'a'`,
    );
    await assertDiffering({ ...ANN, ...spent(60n, 50n) }, { ...TEAM, ...spent(120n, 110n) });
    await change("update spend_counters set spent = spent - 10 where key in ('ann', 'search')");
    assert.deepEqual({ ...(await verify()), counters: 0 }, clean(0, 3, 110n, 1, 100n));
  });

  it('ignores spending before the first row, but checks reservations', async () => {
    await change("delete from ledger where request_id = 'a'");
    await change("insert into ledger_bounds (dropped_before) values ('2026-03-10T00:00:00.001Z')");
    assert.deepEqual((await verify()).differences, NOTHING);
    await change("update spend_counters set reserved = 1 where key = 'bob'");
    assert.deepEqual(differencesOf(await verify()), [{ ...BOB, ...reserved(1n, 0n) }]);
  });
});

const ANOTHER =
  "insert into spend_counters (scope, key, window_kind, window_start, spent) values ('model', 'coder-1', 'day', '2026-03-10T00:00:00Z', 5)";
const TO_BOB = "array(select id from spend_counters where key in ('bob', 'search')) where request_id = 'a'";
const lost = (counter: object) =>
  [reserved(100n, 0n), most(100n, 0n), inFlight(1n, 0n)].map((by) => ({ ...counter, ...by }));
const gone = { scope: null, key: null, window: null, unit: null, window_start: null };

/** A manipulation, and the difference it makes. */
const DEEDS: readonly (readonly [what: string, sql: string, ...differences: object[]])[] = [
  [
    'a changed counter',
    "update spend_counters set spent = 61, reserved = 90 where key = 'ann'",
    { ...ANN, ...reserved(90n, 100n) },
    { ...ANN, ...spent(61n, 60n) },
  ],
  [
    'a counter that was set back, as when a budget is made to last longer',
    "update spend_counters set spent = 0 where key = 'search'",
    { ...TEAM, ...spent(0n, 120n) },
  ],
  ['a counter that was removed', "delete from spend_counters where key = 'bob'", { ...gone, ...spent(0n, 60n) }],
  ['a counter without spending', ANOTHER, { ...ANN, scope: 'model', key: 'coder-1', ...spent(5n, 0n) }],
  [
    'a ledger row whose cost was changed',
    "update ledger set cost_nano_usd = cost_nano_usd - 1 where request_id = 'a'",
    { ...ANN, ...spent(60n, 59n) },
    { ...TEAM, ...spent(120n, 119n) },
  ],
  [
    'a ledger row that was removed',
    "delete from ledger where request_id = 'b'",
    { ...BOB, ...spent(60n, 0n) },
    { ...TEAM, ...spent(120n, 60n) },
  ],
  [
    "a ledger row moved to another user's account",
    `update ledger set counter_ids = ${TO_BOB}`,
    { ...ANN, ...spent(60n, 0n) },
    { ...BOB, ...spent(60n, 120n) },
  ],
  [
    'a reservation that was removed, so that its money stays reserved for ever',
    'delete from reservations',
    ...lost(ANN),
    ...lost(TEAM),
  ],
  [
    'a reservation that now says it can cost more',
    'update reservations set most_nano_usd = 150',
    { ...ANN, ...most(100n, 150n) },
    { ...TEAM, ...most(100n, 150n) },
  ],
  [
    'a reservation whose amount was changed',
    'update reservations set amount_nano_usd = 99',
    { ...ANN, ...reserved(100n, 99n) },
    { ...TEAM, ...reserved(100n, 99n) },
  ],
];

describe('the verification finds, to the nano-USD,', () => {
  for (const [what, sql, ...differences] of DEEDS) {
    it(what, async () => {
      await change(sql);
      await assertDiffering(...differences);
    });
  }

  it('a counter that went below zero, and one larger than a JavaScript number', async () => {
    await change("update spend_counters set reserved = -1 where key = 'bob'");
    await change("update spend_counters set spent = ? where key = 'ann'", [String(HUGE)]);
    assert.deepEqual(differencesOf(await verify()), [
      { ...ANN, ...spent(HUGE, 60n) },
      { ...BOB, ...reserved(-1n, 0n) },
    ]);
  });

  it('a ledger row that counts against nothing', async () => {
    await change("update ledger set counter_ids = '{}' where request_id = 'a'");
    const { uncounted, differences } = await verify();
    const first = [{ request_id: 'a', user: 'ann', cost_nano_usd: 60n }];
    assert.deepEqual([uncounted, differences.total], [{ total: 1, first }, 2]);
  });

  it('a ledger row that is there twice', async () => {
    await change("insert into ledger select * from ledger where request_id = 'a'");
    const { repeated, differences } = await verify();
    const first = [{ request_id: 'a', ledger_rows: 2, reservations: 0, cost_nano_usd: 120n }];
    assert.deepEqual([repeated, differences.total], [{ total: 1, first }, 2]);
  });

  it('a duplicate ledger row in different months, even with adjusted counters', async () => {
    await change(
      `with again as (
         insert into ledger select l.* from ledger l where request_id = 'a' returning request_id
       ) update ledger set settled_at = settled_at - interval '2 years'
         where request_id = 'a'`,
    );
    await change('update spend_counters set spent = spent + 60 where key in (?, ?)', ['ann', 'search']);
    const verification = await verify();
    assert.deepEqual(verification.differences, NOTHING);
    assert.equal(verification.repeated.total, 1);
  });

  it('a request that is settled and still reserved', async () => {
    await change(
      'insert into reservations select (jsonb_populate_record(r, \'{"request_id": "b"}\')).* from reservations r',
    );
    const verification = await verify();
    assert.deepEqual(verification.repeated.first, [
      { request_id: 'b', ledger_rows: 1, reservations: 1, cost_nano_usd: 60n },
    ]);
  });

  it('a limit on requests or tokens that counts more than there are', async () => {
    const rates = ['open', 'minute'].map((window) => ({ scope: 'user', key: 'cy', window, rule: 'few', limit: null }));
    const demands = [
      userDemand('cy', null),
      { ...rates[0]!, window: 'open' as const, unit: 'requests' as const },
      { ...rates[1]!, window: 'minute' as const, unit: 'tokens' as const },
    ];
    await ledger.reserve(reservation({ user: 'cy', tokens: 500, demands }));
    assert.deepEqual((await verify()).differences, NOTHING);
    await change("update spend_counters set reserved = reserved + 1 where key = 'cy' and unit <> 'nano_usd'");
    const cy = { ...ANN, key: 'cy', window_start: null, window: 'open', unit: 'requests' };
    await assertDiffering(
      { ...cy, ...reserved(2n, 1n) },
      { ...cy, window: 'minute', unit: 'tokens', window_start: new Date(START), ...reserved(501n, 500n) },
    );
  });
});

describe('a reservation of a gateway that died', () => {
  const LEFT = { request_id: 'reserved', user: 'ann', reserved_at: new Date(START), amount_nano_usd: 100n };

  it('is found once any running gateway would have recorded it', async () => {
    clock.advance(120_000);
    assert.deepEqual((await verify()).left, NOTHING);
    clock.advance(1);
    assert.deepEqual((await verify()).left, { total: 1, first: [{ ...LEFT, heartbeat_at: new Date(START) }] });
    await ledger.recover();
    assert.deepEqual({ ...(await verify()), counters: 0 }, clean(0, 3, 220n, 0, 0n));
  });

  it('is found when nothing is known of its process', async () => {
    await change('delete from processes');
    clock.advance(121_000);
    assert.deepEqual((await verify()).left.first, [{ ...LEFT, heartbeat_at: null }]);
  });

  it('is none while its gateway has a heartbeat, however slow the response', async () => {
    clock.advance(24 * 3_600_000);
    await ledger.beat();
    assert.deepEqual((await verify()).left, NOTHING);
  });

  it("is none just after the database came back, before any gateway's heartbeat", async () => {
    const { left, differences } = await verifyLedger({ database, clock: systemClock });
    const [row] = await database.query<{ up: number }>(
      'test_up',
      'select extract(epoch from now() - pg_postmaster_start_time())::float8 as up',
      [],
    );
    assert.equal(left.total, row!.up > 120 ? 1 : 0);
    assert.deepEqual(differences, NOTHING);
  });
});

it('counts findings beyond the maximum and reports the largest', async () => {
  await change(
    `insert into spend_counters (scope, key, window_kind, window_start, spent)
     select 'user', 'nobody-' || n, 'day', '2026-03-10T00:00:00Z', n from generate_series(1, 1500) as n`,
  );
  const { differences } = await verify();
  assert.equal(differences.total, 1500);
  assert.equal(differences.first.length, 1000);
  assert.equal(differences.first[0]!.key, 'nobody-1500');
});
