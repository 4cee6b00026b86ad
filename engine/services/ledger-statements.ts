import type { Clock, LimitClaim, LimitStanding, ReservationRequest, Settlement, TokenCounts } from '../api.ts';
import type { Database } from './database.ts';
import { storable, storableJson } from './storable.ts';

/** What the ledger needs of the database. */
export type LedgerStore = Pick<Database, 'query'>;

/** What came of an exchange, in the order of what was asked. */
export interface Exchanged {
  /** Whether each settlement was written; false for one that was written before. */
  readonly written: readonly boolean[];
  readonly verdicts: readonly Verdict[];
}

/** What came of one reservation. */
export interface Verdict {
  /** The limit that refused it; `undefined` when it was granted. */
  readonly refusal: LimitStanding | undefined;
  /** The limits in shadow mode that would have refused it, when it was granted. */
  readonly shadows: readonly LimitStanding[];
}

/** The ledger's statements, each for many requests at once. Errors are the database's. */
export interface LedgerStatements {
  /** Settles, then reserves, in one transaction. */
  exchange(settlements: readonly Settlement[], requests: readonly ReservationRequest[]): Promise<Exchanged>;
  release(request_ids: readonly string[]): Promise<void>;
}

interface ExchangeRow {
  /** Set in a row about a settlement; the rest is about a reservation. */
  readonly repeated_request: string | null;
  readonly refused_request: string;
  /** Place among the counters of the request; for a limit in shadow mode counted on from their number. */
  readonly refused_claim: number;
  readonly spent_nano_usd: number;
  readonly held_nano_usd: number;
  readonly resets_at_ms: number;
}

type CounterName = Pick<LimitClaim, 'scope' | 'key' | 'window'>;

/** Creates the statements of one process. */
export function createLedgerStatements(options: {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly time_zone: () => string;
  readonly process_id: string;
}): LedgerStatements {
  const { database, clock, time_zone, process_id } = options;
  return {
    async exchange(settlements, requests) {
      const counters = new CounterList();
      const rows = settlements.map((settlement) => packSettlement(settlement, counters));
      const holds = requests.map((request) => packHold(request, counters));
      const remarks = await database.query<ExchangeRow>(
        'ledger_exchange',
        'select * from exchange_batch($1, $2, $3, $4, $5, $6, $7, $8)',
        [process_id, databaseTime(clock), time_zone(), ...counters.columns, storableJson(rows), storableJson(holds)],
      );
      // Nearly always there is nothing to remark.
      const repeated = new Set(remarks.map((row) => row.repeated_request));
      const refused = Map.groupBy(remarks, (row) => row.refused_request);
      return {
        written: settlements.map(({ request_id }) => !repeated.has(request_id)),
        verdicts: requests.map((request) => judge(request, refused.get(request.request_id))),
      };
    },
    async release(request_ids) {
      await database.query('ledger_release', 'select release_batch($1)', [request_ids]);
    },
  };
}

/** The time to tell the database; `null` lets it use its own clock, the one clock that all replicas share. */
export function databaseTime(clock: Clock): Date | null {
  return clock.frozen ? new Date(clock.now()) : null;
}

/** Whether a number can be an amount or a count in the ledger: whole, not negative, below 2^53. */
export function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

const GRANTED: Verdict = { refusal: undefined, shadows: [] };

function judge(request: ReservationRequest, rows: readonly ExchangeRow[] | undefined): Verdict {
  if (rows === undefined) return GRANTED;
  // In the order in which they were packed.
  const by_counter = [...Map.groupBy(request.claims, nameOf).values()];
  let refusal: LimitStanding | undefined;
  const shadows: LimitStanding[] = [];
  for (const row of rows) {
    const in_shadow = row.refused_claim >= by_counter.length;
    const standings = by_counter[row.refused_claim % by_counter.length]!.filter(
      ({ shadow = false, limit_nano_usd }) => shadow === in_shadow && limit_nano_usd !== null,
    )
      .map((claim) => standing(claim, row))
      .toSorted((a, b) => a.limit_nano_usd - b.limit_nano_usd);
    if (in_shadow) shadows.push(...standings.filter((limit) => lacks(limit, request.amount_nano_usd)));
    else refusal = standings[0];
  }
  return { refusal, shadows };
}

function lacks({ spent_nano_usd, held_nano_usd, limit_nano_usd }: LimitStanding, needed_nano_usd: number): boolean {
  return spent_nano_usd + held_nano_usd + needed_nano_usd > limit_nano_usd;
}

function standing({ scope, key, window, rule, limit_nano_usd }: LimitClaim, row: ExchangeRow): LimitStanding {
  return {
    scope,
    key,
    window,
    rule,
    limit_nano_usd: limit_nano_usd!,
    spent_nano_usd: row.spent_nano_usd,
    held_nano_usd: row.held_nano_usd,
    resets_at: row.resets_at_ms,
  };
}

/** What is held counts once on each counter, however many claims there are on it, and the smallest limit decides. */
function packHold({ claims, ...identity }: ReservationRequest, counters: CounterList): object {
  const positions: number[] = [];
  const limits: (number | null)[] = [];
  let shadow_limits: (number | null)[] | undefined;
  for (const claim of claims) {
    const { shadow = false, limit_nano_usd: limit } = claim;
    const position = counters.position(claim);
    let at = positions.indexOf(position);
    if (at < 0) {
      at = positions.push(position) - 1;
      limits.push(null);
    }
    if (shadow) {
      shadow_limits ??= [];
      shadow_limits[at] = smaller(shadow_limits[at] ?? null, limit);
    } else {
      limits[at] = smaller(limits[at] ?? null, limit);
    }
  }
  return { ...identity, counters: positions, limits, shadow_limits };
}

function smaller(a: number | null, b: number | null): number | null {
  return a === null || (b !== null && b < a) ? b : a;
}

/**
 * A row must be written whatever a number looks like: what is no count becomes 0, and a cost that is none the held
 * amount. Who asked for what stands in the reservation already, where there is one.
 */
function packSettlement(settlement: Settlement, counters: CounterList): object {
  const { tokens, cost_nano_usd, status, provenance, request_id, reserved, aborted, ...identity } = settlement;
  const cost_is_known = isCount(cost_nano_usd);
  return {
    request_id,
    reserved,
    aborted,
    ...(!reserved && { ...identity, counters: countersOf(settlement).map((claim) => counters.position(claim)) }),
    ...packTokens(tokens),
    status: Number.isInteger(status) ? status : null,
    cost_nano_usd: cost_is_known ? cost_nano_usd : null,
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

/** The counters that are kept for everybody, for a settlement without a reservation to say which. */
function countersOf({ user, team }: Settlement): CounterName[] {
  const own: CounterName = { scope: 'user', key: user, window: 'day' };
  return team === null ? [own] : [own, { scope: 'team', key: team, window: 'month' }];
}

function nameOf({ scope, key, window }: CounterName): string {
  return `${scope} ${window} ${key}`;
}

/** Counters of a batch as three parallel columns; a position counts from 1, like an SQL array. */
class CounterList {
  readonly columns: readonly [string[], string[], string[]] = [[], [], []];
  readonly #positions = new Map<string, number>();

  position(counter: CounterName): number {
    const name = nameOf(counter);
    const known = this.#positions.get(name);
    if (known !== undefined) return known;
    const [scopes, keys, windows] = this.columns;
    scopes.push(counter.scope);
    keys.push(storable(counter.key));
    const position = windows.push(counter.window);
    this.#positions.set(name, position);
    return position;
  }
}
