import type {
  ChargedAttempt,
  Clock,
  CounterStatus,
  LimitDemand,
  MoveDecision,
  ReservationDecision,
  ReservationRequest,
  Settlement,
} from '../../../base/contract/services.ts';
import { storableJson } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import { statusesOf } from '../limits/room.ts';
import { addSpentByDay } from '../reports/spending.ts';
import {
  type BatchAnswer,
  type LookedAtCounter,
  type MovesAnswer,
  readDecisions,
  readMoves,
  unpackCounter,
} from './batch-answer.ts';
import {
  CounterList,
  counterRows,
  type LateSettlement,
  type PackedReservation,
  packReservation,
  reservationRows,
  settlementRows,
} from './batch-request.ts';

/** What the ledger needs of the database. */
export type LedgerStore = Pick<Database, 'query'>;

/** What came of a batch, in the order of what was asked. */
export interface BatchResult {
  /** Whether each settlement was written; false for one that was written before. */
  readonly written: readonly boolean[];
  /** `undefined` when they came too late, so that nothing was reserved. */
  readonly decisions: readonly ReservationDecision[] | undefined;
}

/** A reservation on its way to another upstream; see `Reservation.move`. */
export interface Move {
  readonly request: ReservationRequest;
  readonly held: readonly ChargedAttempt[];
}

/** How much shall be reserved for a request from now on. */
export interface TopUp {
  readonly request_id: string;
  readonly amount_nano_usd: number;
}

/** What a request cost. */
export interface RecentCost {
  readonly user: string;
  readonly model: string;
  readonly cost_nano_usd: number;
}

const BATCH = `call carry_batch(${Array.from({ length: 14 }, (_, i) => `$${i + 1}`).join(', ')}, null)`;
/** In every time zone days begin at a quarter of an hour of UTC: what is within one is in the same windows. */
const SAME_WINDOWS_MS = 900_000;
const MAX_RECENT_COSTS = 20_000;

/** What statements of a process need. */
export interface StatementOptions {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly time_zone: () => string;
  readonly process_id: string;
}

/** The ledger's statements, most for many requests at once. Errors are the database's. */
export class LedgerStatements {
  readonly #options: StatementOptions;

  constructor(options: StatementOptions) {
    this.#options = options;
  }

  /**
   * Settles, then reserves, in one transaction.
   * @param valid_until after this moment of the database's clock nothing is reserved any more
   */
  async batch(
    settlements: readonly Settlement[],
    requests: readonly ReservationRequest[],
    valid_until?: Date,
  ): Promise<BatchResult> {
    const counters = new CounterList();
    const settled = settlementRows(settlements, counters);
    const packed = requests.map((request) => packReservation(request, counters));
    const answer = await this.#carry('ledger_batch', counters, settled, packed, { valid_until });
    return {
      written: settlements.map(({ request_id }) => !answer.repeated.includes(request_id)),
      decisions: answer.late === true ? undefined : readDecisions(packed, answer, counters.window_ns),
    };
  }

  /** Whether each settlement was written; false for one that was written before. */
  async settleLate(late: readonly LateSettlement[]): Promise<readonly boolean[]> {
    const together = Map.groupBy(
      late,
      ({ at_ms, database_id }) => `${database_id} ${Math.floor(at_ms / SAME_WINDOWS_MS)}`,
    );
    const repeated = new Set<string>();
    for (const some of together.values()) for (const id of await this.#settleTogether(some)) repeated.add(id);
    return late.map(({ settlement }) => !repeated.has(settlement.request_id));
  }

  async #settleTogether(late: readonly LateSettlement[]): Promise<readonly string[]> {
    const counters = new CounterList();
    const settlements = late.map(({ settlement }) => ({ ...settlement, reserved: false }));
    const answer = await this.#carry('ledger_batch_late', counters, settlementRows(settlements, counters, late), [], {
      forwarded_at: new Date(Math.min(...late.map(({ at_ms }) => at_ms))),
      database_id: late[0]!.database_id,
    });
    return answer.repeated;
  }

  async #carry(
    name: string,
    counters: CounterList,
    settled: ReturnType<typeof settlementRows>,
    packed: readonly PackedReservation[],
    about: { readonly valid_until?: Date | undefined; readonly forwarded_at?: Date; readonly database_id?: string },
  ): Promise<BatchAnswer> {
    const { database, clock, time_zone, process_id } = this.#options;
    const { valid_until = null, forwarded_at = null, database_id = null } = about;
    const [row] = await database.query<{ answer: string | null }>(name, BATCH, [
      ...[process_id, databaseTime(clock), time_zone(), valid_until, forwarded_at, database_id],
      ...[counters.windows, ...counterRows(packed, counters), ...settled, ...reservationRows(packed)],
      // Needed only where there is no room for all.
      JSON.stringify(packed.map(({ limits, shadow_limits, ppm }) => ({ limits, shadow_limits, ppm }))),
    ]);
    return row?.answer == null ? { repeated: [] } : JSON.parse(row.answer);
  }

  async databaseId(): Promise<string> {
    const known = await this.#readId();
    if (known !== undefined) return known;
    // Somebody has emptied all tables: what was kept for them is for another database by now.
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

  /** Moves reservations, each or not at all; `undefined` for one that is not there any more. */
  async move(moves: readonly Move[]): Promise<readonly (MoveDecision | undefined)[]> {
    const counters = new CounterList();
    const packed = moves.map(({ request }) => packReservation(request, counters));
    const rows = packed.map(({ request, demands: _, indexes: __, ...asked }, i) => {
      const { request_id, upstream, upstream_model, amount_nano_usd, most_nano_usd, tokens } = request;
      const { held } = moves[i]!;
      const meant = { request_id, upstream, upstream_model, amount_nano_usd, most_nano_usd, tokens, ...asked };
      return held.length > 0 ? { ...meant, held } : meant;
    });
    const [row] = await this.#options.database.query<{ answer: string }>(
      'ledger_move',
      'select move_reservations($1, $2, $3, $4, $5, $6, $7) as answer',
      [databaseTime(this.#options.clock), this.#options.time_zone(), ...counters.columns, storableJson(rows)],
    );
    return readMoves(packed, JSON.parse(row!.answer) as MovesAnswer);
  }

  async release(request_ids: readonly string[]): Promise<void> {
    await this.#options.database.query('ledger_release', 'select release_batch($1)', [request_ids]);
  }

  async topUp(top_ups: readonly TopUp[]): Promise<void> {
    await this.#options.database.query('ledger_top_up', 'select top_up_batch($1, $2)', [
      top_ups.map(({ request_id }) => request_id),
      top_ups.map(({ amount_nano_usd }) => amount_nano_usd),
    ]);
  }

  /** The limits in money among some demands, and counters without a limit, by their status now. */
  async statuses(demands: readonly LimitDemand[]): Promise<CounterStatus[]> {
    const meant = demands.filter(({ unit, shadow = false }) => unit === 'nano_usd' && !shadow);
    if (meant.length === 0) return [];
    const counters = new CounterList();
    const positions = meant.map((demand) => counters.position(demand));
    const [now, time_zone] = [databaseTime(this.#options.clock), this.#options.time_zone()];
    const [row] = await this.#options.database.query<{ told: string }>(
      'ledger_statuses',
      'select told from look_at_counters($1, $2, $3, $4, $5, $6)',
      [now, time_zone, ...counters.columns],
    );
    const counted = (JSON.parse(row!.told) as LookedAtCounter[]).map((told) => {
      const [spent, reserved, in_flight, most, set, granted, resets_at, leased, leased_in_flight, leased_most] = told;
      const placed = [spent, reserved - leased, in_flight - leased_in_flight, most - leased_most] as const;
      return unpackCounter([...placed, set, granted, resets_at]);
    });
    const statuses = statusesOf(meant.map((demand, i) => [demand, counted[positions[i]! - 1]!]));
    return addSpentByDay(statuses, { database: this.#options.database, now, time_zone });
  }

  /**
   * What requests of the last 24 hours cost, as far as they cost anything and the upstream said so; the latest 20,000, the
   * earliest of them first.
   */
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

/** The time to tell the database; `null` lets it use its own clock, the one clock that all replicas share. */
export function databaseTime(clock: Pick<Clock, 'now' | 'frozen'>): Date | null {
  return clock.frozen ? new Date(clock.now()) : null;
}
