import type {
  Clock,
  CounterName,
  CounterStatus,
  LimitDemand,
  Reservation,
  ReservationRequest,
  Settlement,
  TokenCounts,
} from '../../contract/services.ts';
import { storableJson } from '../../kit/storable.ts';
import type { Database } from '../../store/database.ts';
import { alwaysCounted } from '../limits/limit-demands.ts';
import { percentToPpm } from '../limits/room.ts';
import { addSpentByDay } from '../reports/spent-by-day.ts';
import { CounterList } from './counter-list.ts';
import {
  type CounterNumbers,
  type ExchangeAnswer,
  judge,
  limit_status,
  NOTHING_TO_TELL,
  type PackedReservation,
} from './ledger-decisions.ts';

/** What the ledger needs of the database. */
export type LedgerStore = Pick<Database, 'query'>;

/** What came of an exchange, in the order of what was asked. */
export interface Exchanged {
  /** Whether each settlement was written; false for one that was written before. */
  readonly written: readonly boolean[];
  /** `undefined` when they came too late, so that none was placed. */
  readonly reservations: readonly Reservation[] | undefined;
}

/** A settlement in the windows of an earlier time; see `OpenLedger.settleAt`. */
export interface LateSettlement {
  readonly settlement: Settlement;
  readonly counters: readonly CounterName[];
  /** Milliseconds since the epoch. */
  readonly at_ms: number;
  /** The database it belongs to; nothing is written in any other. */
  readonly database_id: string;
}

/** What a reservation shall hold from now on. */
export interface TopUp {
  readonly request_id: string;
  readonly amount_nano_usd: number;
}

/** The ledger's statements, most for many requests at once. Errors are the database's. */
export interface LedgerStatements {
  /**
   * Settles, then reserves, in one transaction.
   * @param valid_until after this moment of the database's clock nothing is reserved any more
   */
  exchange(
    settlements: readonly Settlement[],
    requests: readonly ReservationRequest[],
    valid_until?: Date,
  ): Promise<Exchanged>;
  /** Which database this is; see store/schema/database.sql. */
  databaseId(): Promise<string>;
  /** Whether each settlement was written; false for one that was written before. */
  settleLate(late: readonly LateSettlement[]): Promise<readonly boolean[]>;
  release(request_ids: readonly string[]): Promise<void>;
  topUp(top_ups: readonly TopUp[]): Promise<void>;
  statuses(demands: readonly LimitDemand[]): Promise<CounterStatus[]>;
}

const EXCHANGE = 'call run_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, null)';
const EXCHANGE_LATE = 'call run_late_batch(process_in_database($1, $10), $2, $3, $4, $5, $6, $7, $8, $9, null)';
/** In every time zone days begin at a quarter of an hour of UTC: what is within one is in the same windows. */
const SAME_WINDOWS_MS = 900_000;

/** Creates the statements of one process. */
export function createLedgerStatements(options: {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly time_zone: () => string;
  readonly process_id: string;
}): LedgerStatements {
  const { database, clock, time_zone, process_id } = options;

  const exchange = async (counters: CounterList, rows: string, holds: string) => {
    const [row] = await database.query<{ answer: string | null }>('ledger_exchange', EXCHANGE, [
      process_id,
      databaseTime(clock),
      null,
      time_zone(),
      ...counters.columns,
      rows,
      holds,
    ]);
    return parseAnswer(row);
  };
  const settleTogether = async (late: readonly LateSettlement[]): Promise<readonly string[]> => {
    const counters = new CounterList();
    const rows = late.map(({ settlement, counters: named, at_ms }) => {
      const money = named.filter(({ unit }) => unit === 'nano_usd');
      const counted = money.length > 0 ? money : undefined;
      return { ...packSettlement({ ...settlement, reserved: false }, counters, counted), at: new Date(at_ms) };
    });
    const counted_at = new Date(Math.min(...late.map(({ at_ms }) => at_ms)));
    const [row] = await database.query<{ answer: string | null }>('ledger_exchange_late', EXCHANGE_LATE, [
      process_id,
      databaseTime(clock),
      counted_at,
      time_zone(),
      ...counters.columns,
      storableJson(rows),
      late[0]!.database_id,
    ]);
    return parseAnswer(row).repeated;
  };

  const readId = async () => {
    const [row] = await database.query<{ id: string }>('database_identity', 'select id from database_identity', []);
    return row?.id;
  };

  return {
    async exchange(settlements, requests, valid_until) {
      const counters = new CounterList();
      const rows = settlements.map((each) => packSettlement(each, counters));
      const holds = requests.map((request) => packReservation(request, counters));
      const [written, reserved] = [storableJson(rows), storableJson(timely(holds, valid_until))];
      const answer = await exchange(counters, written, reserved);
      const { repeated } = answer;
      return {
        written: settlements.map(({ request_id }) => !repeated.includes(request_id)),
        reservations: answer.late === true ? undefined : judge(holds, answer),
      };
    },
    async databaseId() {
      const known = await readId();
      if (known !== undefined) return known;
      // Somebody has emptied all tables: what was kept for them is for another database by now.
      await database.query(
        'database_identity_make',
        'insert into database_identity default values on conflict do nothing',
        [],
      );
      const made = await readId();
      if (made === undefined) throw new Error('the table database_identity cannot be given a row');
      return made;
    },
    async settleLate(late) {
      const together = Map.groupBy(
        late,
        ({ at_ms, database_id }) => `${database_id} ${Math.floor(at_ms / SAME_WINDOWS_MS)}`,
      );
      const repeated = new Set<string>();
      for (const some of together.values()) for (const id of await settleTogether(some)) repeated.add(id);
      return late.map(({ settlement }) => !repeated.has(settlement.request_id));
    },
    async release(request_ids) {
      await database.query('ledger_release', 'select release_batch($1)', [request_ids]);
    },
    async topUp(top_ups) {
      await database.query('ledger_top_up', 'select top_up_batch($1, $2)', [
        top_ups.map(({ request_id }) => request_id),
        top_ups.map(({ amount_nano_usd }) => amount_nano_usd),
      ]);
    },
    async statuses(demands) {
      const meant = demands.filter(({ unit, shadow = false }) => unit === 'nano_usd' && !shadow);
      if (meant.length === 0) return [];
      const counters = new CounterList();
      const positions = meant.map((demand) => counters.position(demand));
      const [row] = await database.query<{ statuses: string }>(
        'ledger_statuses',
        'select read_statuses($1, $2, $3, $4, $5, $6) as statuses',
        [databaseTime(clock), time_zone(), ...counters.columns],
      );
      const numbers = JSON.parse(row!.statuses) as CounterNumbers[];
      const statuses = meant
        .map((demand, i) => ({
          demand,
          numbers: numbers[positions[i]! - 1]!,
          first: positions.indexOf(positions[i]!) === i,
        }))
        // One that was set at run time is one limit, whatever demands it takes the place of.
        .filter((each) => each.first || each.numbers[4] === null)
        .map((each) => limit_status(each.demand, each.numbers));
      return addSpentByDay(statuses, { database, now: databaseTime(clock), time_zone: time_zone() });
    },
  };
}

function parseAnswer(row: { readonly answer: string | null } | undefined): ExchangeAnswer {
  return row?.answer == null ? NOTHING_TO_TELL : (JSON.parse(row.answer) as ExchangeAnswer);
}

/** The rows of reservations; the first says until when all of them may be placed. */
function timely(
  holds: readonly (PackedReservation & { readonly row: object })[],
  valid_until: Date | undefined,
): object[] {
  return holds.map(({ row }, i) => (i === 0 && valid_until !== undefined ? { ...row, valid_until } : row));
}

/** The time to tell the database; `null` lets it use its own clock, the one clock that all replicas share. */
export function databaseTime(clock: Pick<Clock, 'now' | 'frozen'>): Date | null {
  return clock.frozen ? new Date(clock.now()) : null;
}

/** Whether a number can be an amount or a count in the ledger: whole, not negative, below 2^53. */
export function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

/** What is reserved counts once on each counter, however many demands there are on it, and the smallest limit decides. */
function packReservation(
  request: ReservationRequest,
  counters: CounterList,
): PackedReservation & { readonly row: object } {
  const demands = moneyFirst(request.demands);
  const places: number[] = [];
  const positions: number[] = [];
  const limits: (number | null)[] = [];
  let shadow_limits: (number | null)[] | undefined;
  let money = 0;
  for (const demand of demands) {
    const position = counters.position(demand);
    let place = positions.indexOf(position);
    if (place < 0) {
      place = positions.push(position) - 1;
      limits.push(null);
      if (demand.unit === 'nano_usd') money++;
    }
    places.push(place);
    if (demand.shadow === true) {
      shadow_limits ??= [];
      shadow_limits[place] = smaller(shadow_limits[place] ?? null, demand.limit);
    } else {
      limits[place] = smaller(limits[place]!, demand.limit);
    }
  }
  const { overshoot_percent: percent } = request;
  const row = {
    request_id: request.request_id,
    protocol: request.protocol,
    principal_id: request.principal_id,
    user: request.user,
    team: request.team,
    project: request.project,
    token_id: request.token_id,
    model: request.model,
    upstream: request.upstream,
    upstream_model: request.upstream_model,
    amount_nano_usd: request.amount_nano_usd,
    most_nano_usd: request.most_nano_usd,
    tokens: request.tokens,
    ppm: percent === undefined ? undefined : percentToPpm(percent),
    counters: positions,
    money,
    limits,
    shadow_limits,
  };
  return { request, demands, places, counters: positions, row };
}

/** Ledger rows name the counters of money only, which therefore come first. */
function moneyFirst(demands: readonly LimitDemand[]): readonly LimitDemand[] {
  if (demands.every(({ unit }) => unit === 'nano_usd')) return demands;
  return demands.toSorted((a, b) => Number(a.unit !== 'nano_usd') - Number(b.unit !== 'nano_usd'));
}

function smaller(a: number | null, b: number | null): number | null {
  return a === null || (b !== null && b < a) ? b : a;
}

/**
 * A row must be written whatever a number looks like: what is no count becomes 0, and a cost that is none the reserved
 * amount. Who asked for what, and what it counts on, stands in the reservation already, where there is one.
 */
function packSettlement(settlement: Settlement, counters: CounterList, counted?: readonly CounterName[]): object {
  const { tokens, cost_nano_usd, status, request_id, reserved, aborted, server_tools, billed, ...others } = settlement;
  const { provenance: origins, possibly_billed_nano_usd, ...identity } = others;
  const provenance = possibly_billed_nano_usd === undefined ? origins : { ...origins, possibly_billed_nano_usd };
  const cost_is_known = isCount(cost_nano_usd);
  return {
    request_id,
    reserved,
    aborted,
    ...(!reserved && {
      ...identity,
      counters: (counted ?? alwaysCounted(settlement)).map((counter) => counters.position(counter)),
    }),
    ...packTokens(tokens),
    status: Number.isInteger(status) ? status : null,
    cost_nano_usd: cost_is_known ? cost_nano_usd : null,
    ...(server_tools !== undefined && { server_tools }),
    ...(billed !== undefined && { billed }),
    provenance: cost_is_known ? provenance : { ...provenance, cost: 'estimate' },
  };
}

function packTokens(tokens: TokenCounts): TokenCounts {
  const count = (value: number) => (isCount(value) ? value : 0);
  return {
    input: count(tokens.input),
    output: count(tokens.output),
    cache_read: count(tokens.cache_read),
    cache_write_5m: count(tokens.cache_write_5m),
    cache_write_1h: count(tokens.cache_write_1h),
  };
}
