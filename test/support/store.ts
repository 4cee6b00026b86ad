/** A migrated database of its own for one test file, and requests to put into it. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import {
  type LimitDemand,
  type Log,
  type ReservationDecision,
  type ReservationRequest,
  type Settlement,
  StageError,
} from '../../engine/api.ts';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import type { Clock } from '../../engine/base/contract/services.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { type Database, openDatabase } from '../../engine/base/store/database.ts';
import { DatabaseLedger, type LedgerOptions } from '../../engine/domain/budget/ledger/ledger.ts';
import { ledgerIdentity } from '../../engine/domain/budget/ledger/reservation.ts';
import { createTestDatabase } from './database.ts';
import { standIn, use } from './use.ts';

/** A log that keeps nothing. */
export const quietLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** A database under test. */
export type TestStore = Awaited<ReturnType<typeof openTestStore>>;

/** Creates and migrates a fresh database; `close` removes it. */
export async function openTestStore() {
  const { url, drop } = await createTestDatabase();
  const opened: Database[] = [];
  /** Opens more connections to it, as another gateway would, by another way if given. */
  const another = async (through = url) => {
    const config = { database: { postgres: { url_env: 'TEST_DATABASE_URL', pool_max: 8 } } } as GatewayConfig;
    const env = { TEST_DATABASE_URL: through };
    const database = await openDatabase({ config, env, log: quietLog, wait: 'until-ready' });
    opened.push(database);
    return database;
  };
  const database = await another();
  return {
    database,
    url,
    another,
    /** Runs a statement of the test's own. */
    // biome-ignore lint/suspicious/noExplicitAny: tests know its content
    rows: <Row extends object = any>(text: string, ...values: readonly unknown[]) =>
      database.query<Row>(`test_${hash('sha256', text).slice(0, 16)}`, text, values),
    async close() {
      await Promise.all(opened.map((database) => database.close()));
      await drop();
    },
  };
}

/** Opens a store for the tests of a file; whatever is put into `ledgers` is closed before the store is. */
export function useTestStore() {
  const ledgers: Pick<DatabaseLedger, 'close'>[] = [];
  const store = use(openTestStore, async ({ close }) => {
    await Promise.all(ledgers.map((ledger) => ledger.close()));
    await close();
  });
  return { store, database: standIn(() => store.database), ledgers };
}

/** A timer that goes off when the test says so. */
export function manualTimer() {
  let task: () => unknown = () => {};
  return {
    every: (_: number, next: () => unknown) => {
      task = next;
      return () => {};
    },
    tick: () => task(),
  };
}

/** A ledger whose timers never go off, on a clock that stands still. */
export function stillLedger(
  database: Pick<Database, 'query'>,
  clock: Clock = frozenClock('2026-03-10T12:00:00Z'),
  more: Partial<LedgerOptions> = {},
): DatabaseLedger {
  return new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {}, ...more });
}

let requests = 0;

/** A caller's reservation, with a fresh request id; the rest has defaults. It can cost no more than it reserves. */
export function reservation(more: Partial<ReservationRequest> = {}): ReservationRequest {
  const user = more.user ?? 'alice@example.com';
  const amount_nano_usd = more.amount_nano_usd ?? 100;
  return {
    request_id: `request-${++requests}`,
    protocol: 'messages',
    principal_id: `user:${user}`,
    user,
    team: null,
    project: null,
    token_id: null,
    model: 'coder-1',
    upstream: 'main',
    upstream_model: 'coder-1',
    amount_nano_usd,
    most_nano_usd: amount_nano_usd,
    tokens: 0,
    on_store_error: 'deny',
    demands: [userDemand(user, null)],
    ...more,
  };
}

/** The settlement of a reservation; by default at its cost of 60 nano-USD. */
export function settlement(request: ReservationRequest, more: Partial<Settlement> = {}): Settlement {
  return {
    ...ledgerIdentity(request),
    status: 200,
    aborted: false,
    tokens: { input: 10, output: 20, cache_read: 3, cache_write_5m: 2, cache_write_1h: 1 },
    cost_nano_usd: 60,
    provenance: { input: 'upstream', output: 'upstream', cost: 'upstream' },
    reserved: true,
    ...more,
  };
}

/** Fails unless a reservation was placed. */
export function assertGranted({ exceeded, unreserved }: ReservationDecision): void {
  assert.deepEqual({ exceeded, unreserved }, { exceeded: [], unreserved: false });
}

/** One counter as the tests compare it. Amounts in nano-USD. */
export interface CounterRow {
  readonly window_kind: string;
  readonly window_start: string;
  readonly spent: number;
  readonly reserved: number;
}

/** The counters under a key, by window. */
export async function countersOf(database: Database, key: string): Promise<CounterRow[]> {
  const rows = await database.query<Omit<CounterRow, 'window_start'> & { window_start: Date }>(
    'test_counters',
    `select window_kind, window_start, spent, reserved
     from spend_counters where key = $1 order by window_kind, window_start`,
    [key],
  );
  return rows.map((row) => ({ ...row, window_start: row.window_start.toISOString() }));
}

/** Every value of a counter. */
export interface CounterState extends CounterRow {
  readonly scope: string;
  readonly unit: string;
  readonly most: number;
  readonly in_flight: number;
}

/** The counters under a key with everything they say, by scope, window and unit. */
export function counterStatesOf(database: Database, key: string): Promise<CounterState[]> {
  return database.query<CounterState>(
    'test_counter_states',
    `select scope, window_kind, unit, case when isfinite(window_start) then window_start::text else '-infinity' end as window_start,
       spent, reserved, most, in_flight
     from spend_counters where key = $1 order by scope, window_kind, unit, spend_counters.window_start`,
    [key],
  );
}

/** The spent and reserved amounts under a key with one window. */
export async function balanceOf(database: Database, key: string): Promise<{ spent: number; reserved: number }> {
  const [row, ...others] = await countersOf(database, key);
  if (row === undefined || others.length > 0) throw new Error(`"${key}" has not one window`);
  return { spent: row.spent, reserved: row.reserved };
}

/** Some columns of a ledger row. */
export interface LedgerRow {
  readonly request_id: string;
  readonly project: string | null;
  readonly status: number | null;
  readonly cost_nano_usd: number;
  readonly provenance: Readonly<Record<string, string>>;
}

/** The ledger rows of a user, by request id. */
export function ledgerRowsOf(database: Database, user: string): Promise<LedgerRow[]> {
  const text = 'select * from ledger where user_email = $1 order by request_id';
  return database.query<LedgerRow>('test_ledger_rows', text, [user]);
}

/** A demand on a caller's day. */
export function userDemand(user: string, limit: number | null): LimitDemand {
  return { scope: 'user', key: user, window: 'day', unit: 'nano_usd', limit, rule: 'daily' };
}

/** A demand on a team's month. */
export function teamDemand(team: string, limit: number | null): LimitDemand {
  return { scope: 'team', key: team, window: 'month', unit: 'nano_usd', limit, rule: 'monthly' };
}

/** A store that spoils some statements: before they reach the database, or after, when only the response is lost. */
export function spoiltStore(
  database: Pick<Database, 'query'>,
  statement: string,
  times: number,
  moment: 'before' | 'after',
): Pick<Database, 'query'> {
  let left = times;
  const isMeant = (name: string, values: readonly unknown[]): boolean => {
    if (name !== 'ledger_batch') return name === statement;
    // One statement does both; which it does now, some of its values say.
    const [settled, reserved] = values.slice(-2);
    return statement === 'settle' ? settled !== '{}' : statement === 'reserve' && reserved !== '{}';
  };
  return {
    async query(name, text, values) {
      const spoil = isMeant(name, values) && left-- > 0;
      if (spoil && moment === 'before') throw new StageError('store_unavailable', 'spoilt by the test');
      const rows = await database.query<never>(name, text, values);
      if (spoil) throw new StageError('store_unavailable', 'spoilt by the test');
      return rows;
    },
  };
}
