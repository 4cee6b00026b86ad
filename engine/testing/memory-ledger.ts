import type { Clock, Ledger, LimitClaim, LimitStanding, ReservationRequest, Settlement } from '../api.ts';
import { StageError } from '../errors.ts';
import { isCount } from '../services/ledger-statements.ts';
import { windowAt } from './calendar.ts';

/** Money that counts against a limit before a test begins; amounts in nano-USD. */
export interface Balance extends Pick<LimitClaim, 'scope' | 'key' | 'window'> {
  readonly spent_nano_usd: number;
  readonly held_nano_usd: number;
}

/** A row of the ledger, by the names of its columns. */
export type LedgerRow = Readonly<Record<string, unknown>>;

/** A limit as a reservation found it. */
export interface ClaimStanding extends LimitClaim {
  readonly spent_nano_usd: number;
  readonly held_nano_usd: number;
}

/** An attempt to hold money: what was asked, the state of every limit before, and the limit that refused it. */
export interface Attempt {
  readonly request: ReservationRequest;
  readonly standings: readonly ClaimStanding[];
  readonly refusal: LimitStanding | undefined;
}

/** A ledger that lives as long as its process and follows the same rules as the one in the database. */
export interface MemoryLedger extends Ledger {
  /** Every reservation that was tried, oldest first. */
  readonly attempts: readonly Attempt[];
  /** Rows, oldest first. */
  readonly rows: readonly LedgerRow[];
  /** What all open reservations hold, in nano-USD. */
  held(): number;
  /** What is spent and held in the current window. */
  balance(name: Pick<LimitClaim, 'scope' | 'key' | 'window'>): { spent: number; held: number };
  /** Puts money on a counter. */
  put(balance: Balance): void;
}

interface Counter {
  readonly resets_at: number;
  spent: number;
  held: number;
}

interface Reservation {
  readonly request: ReservationRequest;
  readonly counters: readonly Counter[];
}

/** Opens an empty ledger. While `isAway()` says so, it is out of reach like a database that does not answer. */
export function openMemoryLedger(options: {
  readonly clock: Clock;
  readonly time_zone?: string;
  readonly isAway?: () => boolean;
}): MemoryLedger {
  const { clock, time_zone = 'UTC', isAway = () => false } = options;
  const counters = new Map<string, Counter>();
  const reservations = new Map<string, Reservation>();
  const attempts: Attempt[] = [];
  const rows: LedgerRow[] = [];

  function counterOf({ scope, key, window }: Pick<LimitClaim, 'scope' | 'key' | 'window'>): Counter {
    const { start, end } = windowAt(window, clock.now(), time_zone);
    const name = JSON.stringify([scope, key, window, start]);
    const counter = counters.get(name) ?? { resets_at: end, spent: 0, held: 0 };
    counters.set(name, counter);
    return counter;
  }

  /** The state of a limit that has no room for an amount; `undefined` when it has. */
  function exceeded(claim: LimitClaim, amount_nano_usd: number): LimitStanding | undefined {
    const { scope, key, window, rule, limit_nano_usd } = claim;
    const { spent, held, resets_at } = counterOf(claim);
    if (limit_nano_usd === null || spent + held + amount_nano_usd <= limit_nano_usd) return undefined;
    return { scope, key, window, rule, limit_nano_usd, spent_nano_usd: spent, held_nano_usd: held, resets_at };
  }

  /** Limits without room, counter by counter as they are first claimed, the smallest of each counter first. */
  function exceededBy({ claims, amount_nano_usd }: ReservationRequest, in_shadow: boolean): LimitStanding[] {
    return [...Map.groupBy(claims, counterOf).values()].flatMap((on_counter) =>
      on_counter
        .filter(({ shadow = false }) => shadow === in_shadow)
        .flatMap((claim) => exceeded(claim, amount_nano_usd) ?? [])
        .toSorted((a, b) => a.limit_nano_usd - b.limit_nano_usd),
    );
  }

  /** The exceeded limit that resets last; the first of several. */
  function refusalOf(request: ReservationRequest): LimitStanding | undefined {
    return exceededBy(request, false).toSorted((a, b) => b.resets_at - a.resets_at)[0];
  }

  return {
    attempts,
    rows,
    held: () => [...reservations.values()].reduce((sum, { request }) => sum + request.amount_nano_usd, 0),
    balance(name) {
      const { spent, held } = counterOf(name);
      return { spent, held };
    },
    put({ spent_nano_usd, held_nano_usd, ...name }) {
      const counter = counterOf(name);
      counter.spent += spent_nano_usd;
      counter.held += held_nano_usd;
    },
    async reserve(request, onShadow) {
      if (!isCount(request.amount_nano_usd)) throw new RangeError(`cannot hold ${request.amount_nano_usd} nano-USD`);
      if (isAway()) throw new StageError('store_unavailable', 'The test says that the database is away.');
      const standings = request.claims.map((claim) => {
        const { spent, held } = counterOf(claim);
        return { ...claim, spent_nano_usd: spent, held_nano_usd: held };
      });
      const refusal = refusalOf(request);
      attempts.push({ request, standings, refusal });
      if (refusal !== undefined) return refusal;
      for (const standing of exceededBy(request, true)) onShadow?.(standing);
      // Several limits may share a counter, which counts the request once.
      const touched = [...new Set(request.claims.map(counterOf))];
      for (const counter of touched) counter.held += request.amount_nano_usd;
      reservations.set(request.request_id, { request, counters: touched });
      return undefined;
    },
    async settle(settlement) {
      const { request_id, reserved } = settlement;
      const reservation = reservations.get(request_id);
      if (reservation === undefined && (reserved || rows.some((row) => row.request_id === request_id))) return;
      reservations.delete(request_id);
      const row = rowOf(settlement, reservation?.request);
      rows.push(row);
      for (const counter of reservation?.counters ?? namesFor(settlement).map(counterOf)) {
        counter.spent += row.cost_nano_usd as number;
        counter.held -= reservation?.request.amount_nano_usd ?? 0;
      }
    },
    async release(request_id) {
      const reservation = reservations.get(request_id);
      reservations.delete(request_id);
      for (const counter of reservation?.counters ?? []) counter.held -= reservation!.request.amount_nano_usd;
    },
  };
}

/** The counters that are kept for everybody, for a settlement without a reservation to say which. */
function namesFor({ user, team }: Settlement): Pick<LimitClaim, 'scope' | 'key' | 'window'>[] {
  const own = { scope: 'user', key: user, window: 'day' } as const;
  return team === null ? [own] : [own, { scope: 'team', key: team, window: 'month' }];
}

/** Who asked for what is known from the reservation; what is no count becomes 0, and such a cost what was held. */
function rowOf(settlement: Settlement, reserved: ReservationRequest | undefined): LedgerRow {
  const { tokens, status, aborted, cost_nano_usd, provenance } = settlement;
  const identity = reserved ?? settlement;
  const count = (value: number) => (isCount(value) ? value : 0);
  const priced = isCount(cost_nano_usd);
  return {
    request_id: identity.request_id,
    surface: identity.surface,
    principal_id: identity.principal_id,
    user_email: identity.user,
    team: identity.team,
    project: identity.project,
    token_id: identity.token_id,
    model: identity.model,
    upstream: identity.upstream,
    upstream_model: identity.upstream_model,
    status: Number.isInteger(status) ? status : null,
    aborted,
    input_tokens: count(tokens.input),
    output_tokens: count(tokens.output),
    cache_read_tokens: count(tokens.cache_read),
    cache_write_5m_tokens: count(tokens.cache_write_5m),
    cache_write_1h_tokens: count(tokens.cache_write_1h),
    cost_nano_usd: priced ? cost_nano_usd : (reserved?.amount_nano_usd ?? 0),
    provenance: priced ? provenance : { ...provenance, cost: 'estimate' },
  };
}
