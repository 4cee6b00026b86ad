/** The ledger in the database and the one in memory, side by side: both must have the same properties. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { CounterName, Ledger, LimitDemand } from '../../engine/api.ts';
import { type FrozenClock, frozenClock } from '../../engine/base/kit/clock.ts';
import { DatabaseLedger } from '../../engine/domain/budget/ledger/ledger.ts';
import type { Books } from '../../engine/domain/budget/ledger/reservation.ts';
import { MemoryLedger } from '../../engine/edge/simulate/memory/memory-ledger.ts';
import { ledgerRows } from '../e2e/support/state.ts';
import { counterStatesOf, quietLog, reservation, useTestStore } from '../support/store.ts';

/** One of the two ledgers, and tests' view of it. */
export interface Bench {
  readonly ledger: Ledger & Books;
  readonly clock: FrozenClock;
  balance(name: CounterName): Promise<{ spent: number; reserved: number; most: number; in_flight: number }>;
  /** Sets a limit at run time. */
  set(name: CounterName, amount: number): Promise<unknown>;
  /** Grants room for some hours. */
  grant(name: CounterName, amount: number, hours: number): Promise<unknown>;
  /** Raises the reservation of a request, and waits until that is done. */
  topUp(request_id: string, amount: number): Promise<void>;
  rows(request_id: string): Promise<readonly object[]>;
}

/** The columns both ledgers have. */
export function columns(row: object): object {
  const { forwarded_at, settled_at, counter_ids, ...rest } = row as Record<string, unknown>;
  return rest;
}

/** A kind of ledger. */
export interface Kind {
  readonly name: string;
  open(start: string, time_zone?: string): Bench;
}

/** Both kinds, on a store of the test file. */
export function useLedgerKinds(): readonly Kind[] {
  const { database, ledgers } = useTestStore();
  return [
    {
      name: 'in the database',
      open(start, time_zone = 'UTC') {
        const clock = frozenClock(start);
        const options = { database, clock, log: quietLog, every: () => () => {}, time_zone: () => time_zone };
        const ledger = new DatabaseLedger(options);
        ledgers.push(ledger);
        return {
          ledger,
          clock,
          async balance({ scope, key, window, unit }) {
            const rows = await counterStatesOf(database, key);
            const mine = rows.filter((row) => row.scope === scope && row.window_kind === window && row.unit === unit);
            assert.ok(mine.length > 0, `${scope} ${key} has no counter`);
            const { spent, reserved, most, in_flight } = mine.at(-1)!;
            return { spent, reserved, most, in_flight };
          },
          set: ({ scope, key, window, unit }, amount) =>
            database.query(
              'test_set_limit',
              `insert into limit_settings (scope, key, window_kind, unit, amount, set_at, set_by)
             values ($1, $2, $3, $4, $5, now(), 'test')
             on conflict (scope, key, window_kind, unit) do update set amount = excluded.amount`,
              [scope, key, window, unit, amount],
            ),
          grant: ({ scope, key, window, unit }, amount, hours) =>
            database.query(
              'test_grant_limit',
              `insert into limit_grants (id, scope, key, window_kind, unit, amount, granted_at, granted_by, expires_at)
             values (gen_random_uuid(), $1, $2, $3, $4, $5, $6::timestamptz, 'test', $6::timestamptz + $7 * interval '1 hour')`,
              [scope, key, window, unit, amount, new Date(clock.now()), hours],
            ),
          async topUp(request_id, amount) {
            const marker = reservation({ amount_nano_usd: 0, most_nano_usd: 1, demands: [demand('marker', null)] });
            await ledger.reserve(marker);
            ledger.topUp(request_id, amount);
            ledger.topUp(marker.request_id, 1);
            const text = 'select from reservations where request_id = $1 and amount_nano_usd = 1';
            while ((await database.query('test_topped_up', text, [marker.request_id])).length === 0);
            await ledger.release(marker.request_id);
          },
          rows: async (request_id) => (await ledgerRows(database)).filter((row) => row.request_id === request_id),
        };
      },
    },
    {
      name: 'in memory',
      open(start, time_zone = 'UTC') {
        const clock = frozenClock(start);
        const ledger = new MemoryLedger({ clock, time_zone });
        return {
          ledger,
          clock,
          balance: async (demand) => ledger.balance(demand),
          set: async (name, amount) => ledger.set(name, amount),
          grant: async (name, amount, hours) => ledger.grant(name, amount, clock.now() + hours * 3_600_000),
          topUp: async (request_id, amount) => ledger.topUp(request_id, amount),
          rows: async (request_id) => ledger.rows.filter((row) => row.request_id === request_id),
        };
      },
    },
  ];
}

/** Scenarios by name; each returns a result that must be equal everywhere. `key` is fresh for each kind. */
export type Scenarios = Readonly<Record<string, (bench: Bench, key: string) => Promise<unknown>>>;

const NOON = '2026-03-10T12:00:00Z';

const normal = (value: unknown, key: string): unknown =>
  JSON.parse(JSON.stringify(value ?? null).replaceAll(key, '<key>'));

let keys = 0;

/** A key that no other test uses. */
export function freshKey(): string {
  return `contract-${++keys}`;
}

/** A test per scenario: both kinds give the same. */
export function testScenarios(scenarios: Scenarios, kinds: readonly Kind[]): void {
  for (const [name, run] of Object.entries(scenarios)) {
    it(name, async () => {
      const results = [];
      for (const kind of kinds) {
        const key = freshKey();
        results.push(normal(await run(kind.open(NOON), key), key));
      }
      assert.deepEqual(results[1], results[0]);
    });
  }
}

/** A demand on a caller's money of a day. */
export function demand(key: string, limit: number | null, more: Partial<LimitDemand> = {}): LimitDemand {
  return { scope: 'user', key, window: 'day', unit: 'nano_usd', limit, rule: 'rule', ...more };
}
