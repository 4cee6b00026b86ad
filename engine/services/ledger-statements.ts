import type { Clock, LimitClaim, LimitStanding, ReservationRequest, Settlement, TokenCounts } from '../api.ts';
import type { Database } from './database.ts';
import { storable, storableJson } from './storable.ts';

/** What the ledger needs of the database. */
export type LedgerStore = Pick<Database, 'query'>;

/** The ledger's statements, each for many requests at once. Errors are the database's. */
export interface LedgerStatements {
  /** One standing per request that was refused, `undefined` for one that was granted. */
  reserve(requests: readonly ReservationRequest[]): Promise<(LimitStanding | undefined)[]>;
  /** Whether each settlement was written; false for one that was written before. */
  settle(settlements: readonly Settlement[]): Promise<boolean[]>;
  release(request_ids: readonly string[]): Promise<void>;
}

interface RefusalRow {
  readonly refused_request: string;
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
  readonly time_zone: string;
  readonly process_id: string;
}): LedgerStatements {
  const { database, clock, time_zone, process_id } = options;
  return {
    async reserve(requests) {
      const counters = new CounterList();
      const packed = requests.map(({ claims, ...identity }) => ({
        ...identity,
        counters: claims.map((claim) => counters.position(claim)),
        limits: claims.map((claim) => claim.limit_nano_usd),
      }));
      const refused = await database.query<RefusalRow>(
        'ledger_reserve',
        'select * from reserve_batch($1, $2, $3, $4, $5, $6, $7)',
        [process_id, databaseTime(clock), time_zone, ...counters.columns, storableJson(packed)],
      );
      if (refused.length === 0) return requests.map(() => undefined);
      const by_id = new Map(refused.map((row) => [row.refused_request, row]));
      return requests.map((request) => standing(request, by_id.get(request.request_id)));
    },
    async settle(settlements) {
      const counters = new CounterList();
      const packed = settlements.map((settlement) => packSettlement(settlement, counters));
      const repeated = await database.query<{ request_id: string }>(
        'ledger_settle',
        'select request_id from settle_batch($1, $2, $3, $4, $5, $6) as request_id',
        [databaseTime(clock), time_zone, ...counters.columns, storableJson(packed)],
      );
      const repeated_ids = new Set(repeated.map(({ request_id }) => request_id));
      return settlements.map(({ request_id }) => !repeated_ids.has(request_id));
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

function standing(request: ReservationRequest, row: RefusalRow | undefined): LimitStanding | undefined {
  if (row === undefined) return undefined;
  const { scope, key, window, rule, limit_nano_usd } = request.claims[row.refused_claim]!;
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

/** A row must be written whatever a number looks like: what is no count becomes 0, and a cost that is none the held amount. */
function packSettlement(settlement: Settlement, counters: CounterList): object {
  const { tokens, cost_nano_usd, status, provenance, ...rest } = settlement;
  const cost_is_known = isCount(cost_nano_usd);
  return {
    ...rest,
    ...packTokens(tokens),
    status: Number.isInteger(status) ? status : null,
    cost_nano_usd: cost_is_known ? cost_nano_usd : null,
    provenance: cost_is_known ? provenance : { ...provenance, cost: 'estimate' },
    counters: settlement.reserved ? [] : countersOf(settlement).map((claim) => counters.position(claim)),
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

/** Counters of a batch as three parallel columns; a position counts from 1, like an SQL array. */
class CounterList {
  readonly columns: readonly [string[], string[], string[]] = [[], [], []];
  readonly #positions = new Map<string, number>();

  position({ scope, key, window }: CounterName): number {
    const name = `${scope} ${window} ${key}`;
    const known = this.#positions.get(name);
    if (known !== undefined) return known;
    const [scopes, keys, windows] = this.columns;
    scopes.push(scope);
    keys.push(storable(key));
    const position = windows.push(window);
    this.#positions.set(name, position);
    return position;
  }
}
