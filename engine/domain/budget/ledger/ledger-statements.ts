import type {
  ChargedAttempt,
  Clock,
  CounterName,
  CounterStatus,
  LimitDemand,
  MoveDecision,
  ReservationDecision,
  ReservationRequest,
  Settlement,
} from '../../../base/contract/services.ts';
import { storableJson } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import type { PipelinedConnection, SentStatement } from '../../../base/store/pipelined-connections.ts';
import type { LeasePart, Placement } from '../leases/leased-room.ts';
import { type CounterNumbers, statusesOf } from '../limits/headroom.ts';
import { addSpentByDay } from '../reports/spending.ts';
import {
  type BatchAnswer,
  type BatchCounterState,
  CounterList,
  type LateSettlement,
  type LookedAtCounter,
  type Lot,
  limitsAt,
  type MovesAnswer,
  type PlacedRequest,
  readCounters,
  readDecisions,
  readMoves,
  requestRows,
  rowArray,
  settlementRows,
  sharesOf,
  unpackCounter,
} from './batch-rows.ts';

/** The database access of the ledger. */
export type LedgerStore = Pick<Database, 'query'>;

/** One batch of the group commit. */
export interface Batch {
  readonly settlements: readonly Settlement[];
  readonly requests: readonly ReservationRequest[];
  /** The settlements with their late fields, if they are late: all of one database, and in the same windows. */
  readonly late?: readonly LateSettlement[];
  /** Deadline of reservations, by the database's clock. */
  readonly valid_until?: Date | undefined;
  readonly lease_id?: string;
  /** Leases to return, and lots to take if the remaining headroom is at least `share` times as large. */
  readonly returns?: readonly LeasePart[];
  readonly lots?: readonly Lot[];
  readonly share?: number;
}

/** The result of a batch, in the order of its input. */
export interface BatchResult {
  /** Whether each settlement was written; false for one that was written before. */
  readonly written: readonly boolean[];
  /** `undefined` after the deadline: nothing was reserved. */
  readonly decisions: readonly ReservationDecision[] | undefined;
}

/** Receives all counters after a batch. @returns their state as reported to clients. */
type Learn = (names: readonly CounterName[], news: readonly BatchCounterState[]) => readonly CounterNumbers[];

/** A leased reservation, and the id of its leases. */
export interface LeasedRow {
  readonly lease_id: string;
  readonly placement: Placement;
}

/** A counter without headroom. */
export interface LookedAt {
  /** Whether a live process has a lease on it. */
  readonly leased: boolean;
  readonly numbers: CounterNumbers;
}

/** A move of a reservation to another upstream; see `Reservation.move`. */
export interface Move {
  readonly request: ReservationRequest;
  readonly held: readonly ChargedAttempt[];
}

/** The new amount of a reservation. */
export interface TopUp {
  readonly request_id: string;
  readonly amount_nano_usd: number;
}

interface RecentCost {
  readonly user: string;
  readonly model: string;
  readonly cost_nano_usd: number;
}

const SPEND = `call spend(${Array.from({ length: 17 }, (_, i) => `$${i + 1}`).join(', ')}, null)`;
const PLACE = 'call place_rows($1, $2, $3, $4, $5, $6)';
/** Every time zone starts its days at a quarter of an hour of UTC: times within one quarter share their windows. */
const SAME_WINDOWS_MS = 900_000;
const MAX_RECENT_COSTS = 20_000;

interface StatementOptions {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly time_zone: () => string;
  readonly process_id: string;
}

/** The SQL statements of the ledger, most for many requests at once. Errors are the database's. */
export class LedgerStatements {
  readonly #options: StatementOptions;

  constructor(options: StatementOptions) {
    this.#options = options;
  }

  /** Settles, returns leases, reserves, then takes lots, in one transaction. */
  async spend(batch: Batch, learn: Learn = (_, news) => news.map(({ numbers }) => numbers)): Promise<BatchResult> {
    const { settlements, requests, late = [], valid_until = null, lease_id = null, returns = [], lots = [] } = batch;
    const { database, clock, time_zone, process_id } = this.#options;
    const counters = new CounterList();
    const [settled, notes] = settlementRows(settlements, counters, late);
    const placed = requests.map((request) => placeIn(counters, request));
    const [rows, at] = requestRows(placed);
    const forwarded_at = late.length === 0 ? null : new Date(Math.min(...late.map(({ at_ms }) => at_ms)));
    const [row] = await database.query<{ answer: string | null }>('ledger_batch', SPEND, [
      ...[late[0]?.database_id ?? null, process_id, databaseTime(clock), time_zone(), valid_until, forwarded_at],
      ...[lease_id, lots.length > 0 ? batch.share : null, leaseParts(returns), ...counters.parameters(lots)],
      ...[at, ...limitsAt(placed), notes, settled, rows],
    ]);
    const answer: BatchAnswer = row?.answer == null ? { repeated: [] } : JSON.parse(row.answer);
    const numbers = learn(counters.names, readCounters(answer, counters.window_ns));
    return {
      written: settlements.map(({ request_id }) => !answer.repeated.includes(request_id)),
      decisions: answer.late === true ? undefined : readDecisions(placed, answer, numbers),
    };
  }

  /** Whether each settlement was written; false for one that was written before. */
  async settleLate(late: readonly LateSettlement[]): Promise<readonly boolean[]> {
    const together = Map.groupBy(
      late,
      ({ at_ms, database_id }) => `${database_id} ${Math.floor(at_ms / SAME_WINDOWS_MS)}`,
    );
    const written = new Map<LateSettlement, boolean>();
    for (const some of together.values()) {
      const settlements = some.map(({ settlement }) => ({ ...settlement, reserved: false }));
      const result = await this.spend({ settlements, requests: [], late: some });
      some.forEach((each, i) => {
        written.set(each, result.written[i]!);
      });
    }
    return late.map((each) => written.get(each)!);
  }

  /** Sends rows of leased reservations that share a lease id. */
  place(lane: PipelinedConnection, rows: readonly LeasedRow[]): SentStatement {
    return lane.send('place_rows', PLACE, this.#placed(rows));
  }

  /** Writes a row that may exist already. */
  async placeAgain(row: LeasedRow): Promise<void> {
    await this.#options.database.query('place_rows', PLACE, this.#placed([row]));
  }

  #placed(rows: readonly LeasedRow[]): readonly unknown[] {
    const leased = new Map<number, LeasePart>();
    for (const { placement } of rows) {
      placement.shares.forEach(({ amount, most, requests }, i) => {
        const { id } = placement.leases[i]!;
        const sum = leased.get(id);
        if (sum === undefined) leased.set(id, { id, amount, most, requests });
        else {
          sum.amount += amount;
          sum.most += most;
          sum.requests += requests;
        }
      });
    }
    const sums = [...leased.values()];
    const positions = new Map(sums.map(({ id }, i) => [id, i + 1]));
    const [requests, at] = requestRows(
      rows.map(({ placement: { request, shares, leases } }) => {
        return { request, shares, at: leases.map(({ id }) => positions.get(id)!) };
      }),
    );
    const { process_id, clock } = this.#options;
    return [process_id, rows[0]!.lease_id, databaseTime(clock), requests, at, leaseParts(sums)];
  }

  /** Returns all leases of this process except those of one id. */
  async returnLeases(but: string | null): Promise<void> {
    const { database, process_id } = this.#options;
    await database.query('return_all_leases', 'select return_all_leases(array[$1::uuid], $2)', [process_id, but]);
  }

  /** Returns all leases once all rows are written, and reverses estimates made for rows believed lost. */
  async endLeases(): Promise<void> {
    await this.returnLeases(null);
    const { database, clock, process_id } = this.#options;
    await database.query('correct_leases', 'select correct_leases($1, $2)', [databaseTime(clock), process_id]);
  }

  /** Reads counters without headroom, and asks all processes to return their leases on them. */
  async recall(names: readonly CounterName[]): Promise<readonly LookedAt[]> {
    const counters = new CounterList();
    for (const name of names) counters.position(name);
    const [row] = await this.#options.database.query<{ told: string }>(
      'recall_leases',
      'select l.told, recall_leases(l.ids) from look_at_counters($1, $2, $3, $4) as l',
      [databaseTime(this.#options.clock), this.#options.time_zone(), ...counters.parameters()],
    );
    const found = JSON.parse(row!.told) as LookedAtCounter[];
    return names.map((name) => {
      const [spent, reserved, in_flight, most, set, granted, resets_at, , , , leased] =
        found[counters.position(name) - 1]!;
      return { leased, numbers: unpackCounter([spent, reserved, in_flight, most, set, granted, resets_at]) };
    });
  }

  async databaseId(): Promise<string> {
    const known = await this.#readId();
    if (known !== undefined) return known;
    // All tables were emptied: spooled rows now belong to another database.
    const text = 'insert into database_identity default values on conflict do nothing';
    await this.#options.database.query('database_identity_make', text, []);
    const made = await this.#readId();
    if (made === undefined) throw new Error('the table database_identity cannot be given a row');
    return made;
  }

  async #readId(): Promise<string | undefined> {
    const text = 'select id from database_identity';
    const [row] = await this.#options.database.query<{ id: string }>('database_identity', text, []);
    return row?.id;
  }

  /** Moves each reservation in full or not at all; `undefined` if it no longer exists. */
  async move(moves: readonly Move[]): Promise<readonly (MoveDecision | undefined)[]> {
    const counters = new CounterList();
    const placed = moves.map(({ request }) => placeIn(counters, request));
    const [rows, at] = requestRows(placed);
    const held = moves.map((move) => (move.held.length > 0 ? move.held : null));
    const [row] = await this.#options.database.query<{ answer: string }>(
      'ledger_move',
      'select move_reservations($1, $2, $3, $4, $5, $6, $7, $8, $9) as answer',
      [
        ...[databaseTime(this.#options.clock), this.#options.time_zone(), ...counters.parameters()],
        ...[at, ...limitsAt(placed), storableJson(held), rows],
      ],
    );
    return readMoves(placed, JSON.parse(row!.answer) as MovesAnswer);
  }

  /** @returns how many reservations existed. */
  async release(request_ids: readonly string[]): Promise<number> {
    const text = 'select release_batch($1) as released';
    const [row] = await this.#options.database.query<{ released: number }>('ledger_release', text, [request_ids]);
    return row?.released ?? 0;
  }

  async topUp(top_ups: readonly TopUp[]): Promise<void> {
    await this.#options.database.query('ledger_top_up', 'select top_up_batch($1, $2)', [
      top_ups.map(({ request_id }) => request_id),
      top_ups.map(({ amount_nano_usd }) => amount_nano_usd),
    ]);
  }

  /** The current status of the money counters of these demands, also without a limit. */
  async statuses(demands: readonly LimitDemand[]): Promise<CounterStatus[]> {
    const money = demands.filter(({ unit, shadow = false }) => unit === 'nano_usd' && !shadow);
    if (money.length === 0) return [];
    const counters = new CounterList();
    const positions = money.map((demand) => counters.position(demand));
    const [now, time_zone] = [databaseTime(this.#options.clock), this.#options.time_zone()];
    const [row] = await this.#options.database.query<{ told: string }>(
      'ledger_statuses',
      'select told from look_at_counters($1, $2, $3, $4)',
      [now, time_zone, ...counters.parameters()],
    );
    const counted = (JSON.parse(row!.told) as LookedAtCounter[]).map((counter) => {
      const [spent, reserved, in_flight, most, set, granted, resets_at, leased, leased_in_flight, leased_most] =
        counter;
      const placed = [spent, reserved - leased, in_flight - leased_in_flight, most - leased_most] as const;
      return unpackCounter([...placed, set, granted, resets_at]);
    });
    const statuses = statusesOf(money.map((demand, i) => [demand, counted[positions[i]! - 1]!]));
    return addSpentByDay(statuses, { database: this.#options.database, now, time_zone });
  }

  /** Costs above 0 that upstreams reported in the last 24 hours; the latest 20,000, oldest first. */
  async recentCosts(): Promise<RecentCost[]> {
    const rows = await this.#options.database.query<RecentCost>(
      'recent_costs',
      `select user_email as "user", model, cost_nano_usd from ledger
       where settled_at > coalesce($1::timestamptz, now()) - interval '1 day'
         and kind = 'request' and provenance ->> 'cost' = 'upstream' and cost_nano_usd > 0
       order by settled_at desc limit ${MAX_RECENT_COSTS}`,
      [databaseTime(this.#options.clock)],
    );
    return rows.reverse();
  }
}

function placeIn(counters: CounterList, request: ReservationRequest): PlacedRequest {
  const shares = sharesOf(request);
  return { request, shares, at: shares.map(({ name, counter }) => counters.position(name, counter)) };
}

function leaseParts(parts: readonly LeasePart[]): string {
  return rowArray(parts.map(({ id, amount, most, requests }) => [id, amount, most, requests]));
}

/** The time parameter of a statement; `null` uses the database's clock, which all replicas share. */
export function databaseTime(clock: Pick<Clock, 'now' | 'frozen'>): Date | null {
  return clock.frozen ? new Date(clock.now()) : null;
}
