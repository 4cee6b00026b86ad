/** Budgets for stages: counters with limits, reservations and ledger rows. @module */
import type { AttemptRecord } from './forwarding.ts';
import type { LimitUnit, LimitWindow } from './windows.ts';

export type { LimitUnit, LimitWindow } from './windows.ts';

/** Token counts by price. `input` excludes cached tokens. */
export interface TokenCounts {
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write_5m: number;
  readonly cache_write_1h: number;
}

/** Tokens of audio that `input` and `output` of a request include. */
export interface AudioTokens {
  readonly input: number;
  readonly output: number;
}

/** The identity of a counter. */
export interface CounterName {
  /** One of `SpendScope`, or several of them in the order of `SPEND_SCOPES`, joined by `+`: `user+model`. */
  readonly scope: string;
  /** The counted value of the scope, such as an e-mail address; for several scopes a JSON array (`counterKey`). */
  readonly key: string;
  readonly window: LimitWindow;
  readonly unit: LimitUnit;
}

/** A counter that a request counts against, with its limit, if any. Several demands may share a counter. */
export interface LimitDemand extends CounterName {
  /** In the unit of the counter; `null`: counted only. A limit set at run time replaces it. */
  readonly limit: number | null;
  /** Name of the spend rule, for people. */
  readonly rule: string;
  /** Shadow mode: exceeding the limit is only reported. */
  readonly shadow?: boolean;
}

/** The identity part of a ledger row: caller, model, upstream. */
export interface LedgerIdentity {
  readonly request_id: string;
  readonly protocol: string;
  readonly principal_id: string;
  readonly user: string;
  readonly team: string | null;
  readonly project: string | null;
  readonly token_id: string | null;
  readonly model: string;
  readonly upstream: string;
  readonly upstream_model: string;
}

/** Input of `reserve`, before a request is forwarded. */
export interface ReservationRequest extends LedgerIdentity {
  /** Amount to reserve: the most the request can cost, or less for a typical reservation. */
  readonly amount_nano_usd: number;
  readonly most_nano_usd: number;
  /**
   * For a typical reservation: how far the worst case of all requests in flight may exceed a limit, in percent of the limit. A limit
   * with nothing in flight admits one request whose reservation fits. Absent: the worst case never exceeds a limit.
   */
  readonly overshoot_percent?: number;
  /** Estimated tokens for limits by tokens, until the usage is known. */
  readonly tokens: number;
  readonly demands: readonly LimitDemand[];
  /** The decision while the database is unavailable. */
  readonly on_store_error: 'deny' | 'allow';
}

/** Run-time changes of the limit on one counter. Amounts in its unit, times in milliseconds since the epoch. */
export interface LimitChanges {
  /** The limit that replaces those of the configuration. */
  readonly set: { readonly amount: number; readonly at: number; readonly by: string } | null;
  /** Temporary raises of the limit, by expiry. */
  readonly grants: readonly {
    readonly id: string;
    readonly amount: number;
    readonly at: number;
    readonly by: string;
    readonly expires_at: number;
  }[];
}

/** The state of one limit; numbers in its unit. */
export interface LimitStatus extends CounterName {
  /** Name of the spend rule; `set at run time` for a limit that an administrator set. */
  readonly rule: string;
  /** The effective limit: from the configuration or set at run time, plus grants. */
  readonly limit: number;
  readonly spent: number;
  readonly reserved: number;
  /** Requests in flight with a reservation on this limit. */
  readonly in_flight: number;
  /** Worst-case cost of the requests in flight; equals `reserved` unless reservations are typical. */
  readonly most: number;
  /** End of the window, milliseconds since the epoch; `null` for the window `open`. */
  readonly resets_at: number | null;
  /** The part of the limit that comes from grants; absent without a grant. */
  readonly granted?: number;
  /** Run-time changes; looked up for rejections only, and absent if the lookup failed. */
  readonly changes?: LimitChanges;
}

/** The result of `reserve`. */
export interface ReservationDecision {
  /** Absent if a limit would be exceeded. */
  readonly reservation?: Reservation;
  /** The limits that would be exceeded, the one that resets last first. */
  readonly exceeded: readonly LimitStatus[];
  /** The limits in shadow mode that the reservation exceeds. */
  readonly shadows: readonly LimitStatus[];
  /** Every money limit that applies, including this reservation; empty while the database is unavailable. */
  readonly statuses: readonly LimitStatus[];
  /** Whether the request may be sent without a reservation: the database is unavailable and the operator allows it. */
  readonly unreserved: boolean;
  /** If a limit would be exceeded: the time of the decision by the clock of the windows, in milliseconds since the epoch. */
  readonly decided_at?: number;
}

/** The result of `move`: it succeeded if `exceeded` is empty, and changed nothing otherwise. */
export type MoveDecision = Pick<ReservationDecision, 'exceeded' | 'shadows' | 'statuses' | 'decided_at'>;

/** The budget reserved for one request until its cost is known. It ends with `settle` or `release`. */
export interface Reservation {
  /** Raises a typical reservation up to the worst case. Asynchronous, never rejected: limits were checked against that. */
  topUp(amount_nano_usd: number): void;
  /**
   * Moves the reservation to another upstream atomically: reserves on the counters of the new upstream, and releases those of the
   * old one. A limit that applies to both is not checked again unless the amount grows. Raises store_unavailable.
   * @param held all earlier attempts. Their costs stay reserved on the counters of their upstreams, and are in the ledger row if the
   * request is never settled.
   */
  move(request: ReservationRequest, held?: readonly ChargedAttempt[]): Promise<MoveDecision>;
  /** Writes the ledger row and turns the reservation into spend, in one transaction. Spooled and retried while the database is unavailable. */
  settle(outcome: Outcome): Promise<void>;
  /** Ends the reservation without a ledger row, for a request that was never sent. */
  release(): Promise<void>;
}

/**
 * The source of a number.
 * - `upstream`: reported by the upstream.
 * - `estimate`, `abort`: estimated from the bytes sent and relayed; `abort` after the client disconnected.
 * - `learned`, `most`: the typical or the worst-case cost of such requests.
 * - `possible`: includes what the upstream may bill for a failed request.
 * - `clamped`: the upstream reported more than is possible; this is the maximum.
 * - `unknown`: not reported.
 * - `per_request`: the price of one request, from the configuration.
 */
export type Provenance =
  | 'upstream'
  | 'estimate'
  | 'abort'
  | 'learned'
  | 'most'
  | 'possible'
  | 'clamped'
  | 'unknown'
  | 'per_request';

/**
 * A special case of a price.
 * - `unknown_model`: the price for models without one.
 * - `unpriced`: a tool was used that has no price.
 * - `unknown_tier`: the most expensive price, because the way of serving has none.
 * - `unknown_audio`: audio without its own price, at a multiple of the price of text.
 */
export type PriceNote = 'unknown_model' | 'unpriced' | 'unknown_tier' | 'unknown_audio';

export interface BilledPart extends TokenCounts {
  /** Model id in gateway.yaml. */
  readonly model: string;
}

/** How a request was billed, where it differs from the requested model served the default way. */
export interface Billed {
  readonly model?: string;
  /** How the request was served; values as on the wire. */
  readonly service_tier?: string;
  readonly speed?: string;
  readonly inference_geo?: string;
  readonly audio?: AudioTokens;
  /** The model runs, if the upstream reports several; their tokens add up to those of the row. */
  readonly parts?: readonly BilledPart[];
}

/** An attempt with its cost. */
export interface ChargedAttempt extends AttemptRecord {
  /** Cost of its response, or what its upstream may bill, where that counts. */
  readonly cost_nano_usd: number;
  readonly provenance: Provenance | 'refused';
  /** What its upstream may bill, if unknown; part of the cost only if the provenance is `possible`. */
  readonly possibly_billed_nano_usd?: number;
}

/** The result of a forwarded request: status, usage and cost. */
export interface Outcome {
  readonly status: number | null;
  readonly aborted: boolean;
  readonly tokens: TokenCounts;
  readonly cost_nano_usd: number;
  /**
   * By number: `input`, `output`, `cache_read`, `cache_write_5m`, `cache_write_1h`, `cost`; `server_tools` if any were used
   * (`unpriced` if one has no price); `price` for `unknown_model`, `unknown_tier` and `unknown_audio` only.
   */
  readonly provenance: Readonly<Record<string, Provenance | PriceNote>>;
  /** Uses of tools that the upstream ran, by name, such as `web_search`. */
  readonly server_tools?: Readonly<Record<string, number>>;
  readonly billed?: Billed;
  /** All attempts, in order; their costs add up to that of the row. Absent if the first attempt served the request. */
  readonly attempts?: readonly ChargedAttempt[];
  /** Longest prompt cache lifetime in the request, and in what was sent to the upstream; absent without any. */
  readonly cache_requested_ttl?: string;
  readonly cache_effective_ttl?: string;
  /** Duration of the last attempt until its response or failure, in milliseconds, if known. */
  readonly upstream_ms?: number;
  /** Request id of the upstream for the last attempt. */
  readonly upstream_request_id?: string;
  /** What upstreams may bill for failed attempts; part of the cost only if its provenance is `possible`. */
  readonly possibly_billed_nano_usd?: number;
}

/** A ledger row to be written. */
export interface Settlement extends LedgerIdentity, Outcome {
  /** Whether a reservation was made under this request id. */
  readonly reserved: boolean;
}

/** Budget reservations before forwarding, ledger rows after it. */
export interface Ledger {
  /**
   * Reserves an amount on every demanded counter, atomically and durably. While the database is unavailable it raises
   * store_unavailable, or lets the request through; its cost is then spooled to disk and written to the ledger later.
   */
  reserve(request: ReservationRequest): Promise<ReservationDecision>;
  /** A reservation of nothing: `settle` writes the ledger row, `release` does nothing. */
  unreserved(identity: LedgerIdentity): Reservation;
  /** The 95th percentile cost of a caller's requests to a model, in nano-USD; `undefined` with too few of them. */
  typicalCost(user: string, model: string): number | undefined;
  /** Current status of the money limits and unlimited counters among the demands. Raises store_unavailable. */
  statuses(demands: readonly LimitDemand[]): Promise<readonly CounterStatus[]>;
}

/** The status of a counter, with or without a limit. */
export type CounterStatus = Omit<LimitStatus, 'limit'> & { readonly limit: number | null };
