/** Counters, reservations and the ledger as stages see them. @module */
import type { Window } from './config.ts';
import type { AttemptRecord } from './forwarding.ts';

/** Token counts that are priced apart. `input` excludes everything cached. */
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

/**
 * Window of a limit: a calendar day, week (from Monday) or month in `spend_limits.time_zone`, a minute, or `open` for what
 * counts only while a request is under way.
 */
export type LimitWindow = Window | 'minute' | 'open';

/** What a limit counts: money by day, week or month; requests or tokens by minute; requests under way. */
export type LimitUnit = 'nano_usd' | 'requests' | 'tokens';

/** What tells one counter from all others. */
export interface CounterName {
  /** One of `SpendScope`, or several of them in the order of `SPEND_SCOPES`, joined by `+`: `user+model`. */
  readonly scope: string;
  /** Who or what is counted, such as an e-mail address; for several scopes a JSON array of theirs (`counterKey`). */
  readonly key: string;
  readonly window: LimitWindow;
  readonly unit: LimitUnit;
}

/** One counter a request counts against, and its limit when it has one. Several demands may share a counter. */
export interface LimitDemand extends CounterName {
  /** In the unit; `null`: counted, not limited by the configuration. A limit set at run time takes its place. */
  readonly limit: number | null;
  /** Name of the spend rule, for people. */
  readonly rule: string;
  /** Whether the limit is only reported when it has no room. */
  readonly shadow?: boolean;
}

/** Who asked whom for what; the identity part of a ledger row. */
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

/** What is asked to be reserved before a request is forwarded. */
export interface ReservationRequest extends LedgerIdentity {
  /** What is reserved: the most the request can cost, or less when the reservation is typical. */
  readonly amount_nano_usd: number;
  /** The most it can cost. */
  readonly most_nano_usd: number;
  /**
   * Set for a typical reservation: how many percent of a limit the most that everything in flight can cost may pass it by.
   * A limit with nothing in flight lets one request through whose reservation fits. Absent: nothing passes a limit.
   */
  readonly overshoot_percent?: number;
  /** Tokens it counts as against limits by tokens, until it is known better. */
  readonly tokens: number;
  readonly demands: readonly LimitDemand[];
  /** What happens to it while the store is away. */
  readonly on_store_error: 'deny' | 'allow';
}

/** What administrators changed about the limit on one counter at run time. Amounts in its unit, times in milliseconds since the epoch. */
export interface LimitChanges {
  /** The limit in place of all that the configuration has on the counter. */
  readonly set: { readonly amount: number; readonly at: number; readonly by: string } | null;
  /** Room on top of the limit, what ends first before the rest. */
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
  /** Name of the spend rule; `set at run time` for a limit that takes the place of those of the configuration. */
  readonly rule: string;
  /** The limit in force: that of the configuration or the one set in its place, and what is granted on top. */
  readonly limit: number;
  readonly spent: number;
  readonly reserved: number;
  /** Requests in flight with a reservation on it. */
  readonly in_flight: number;
  /** The most that what is in flight can come to; `reserved` unless reservations are typical. */
  readonly most: number;
  /** End of the window, milliseconds since the epoch; `null` for the window `open`. */
  readonly resets_at: number | null;
  /** How much of the limit is granted on top at run time; absent without a grant. */
  readonly granted?: number;
  /** Who set and granted what, and when; looked up for a refusal only, and absent where the database did not tell. */
  readonly changes?: LimitChanges;
}

/** Whether something could be reserved. */
export interface ReservationDecision {
  /** Absent when a limit had no room. */
  readonly reservation?: Reservation;
  /** The limits that had no room, the one that resets last first. */
  readonly exceeded: readonly LimitStatus[];
  /** The limits in shadow mode that had no room, although it was reserved. */
  readonly shadows: readonly LimitStatus[];
  /** Every limit in money that applies, with this reservation in it; empty while the store is away. */
  readonly statuses: readonly LimitStatus[];
  /** Whether the request may go out with nothing reserved, because the store is away and the operator wants it so. */
  readonly unreserved: boolean;
  /** When a limit had no room: the time by the clock that windows go by, in milliseconds since the epoch. */
  readonly decided_at?: number;
}

/** Whether a reservation could be moved: it was where `exceeded` is empty, and else nothing has changed. */
export type MoveDecision = Pick<ReservationDecision, 'exceeded' | 'shadows' | 'statuses' | 'decided_at'>;

/** Money kept aside for one request until its cost is known. It ends with `settle` or `release`. */
export interface Reservation {
  /**
   * Raises what is reserved for a typical request to `amount_nano_usd` (never above the most it can cost, never lower). Not
   * waited for, never refused: room for the most it can cost was found before.
   */
  topUp(amount_nano_usd: number): void;
  /**
   * Moves it to another upstream in one statement: what the new upstream's counters and the new amounts need is taken, what the old
   * ones had is given back, all or nothing. A limit that both come under, and on which the new one needs no more, is not asked.
   * Raises store_unavailable.
   * @param held all earlier attempts: they are in the row should nobody settle it, and their costs stay reserved meanwhile on the
   * counters of their own upstreams.
   */
  move(request: ReservationRequest, held?: readonly ChargedAttempt[]): Promise<MoveDecision>;
  /** Writes the ledger row and turns the reservation into spend, in one transaction. Kept and retried while the store is away. */
  settle(outcome: Outcome): Promise<void>;
  /** Gives it back without a ledger row, for a request that never left. */
  release(): Promise<void>;
}

/**
 * Where a number came from: the upstream, what was sent and relayed (`abort` where the caller went away), what such requests
 * cost (`learned`) or can cost (`most`). `possible`: the cost counts what the upstream may bill for a request that failed.
 * `clamped`: the upstream reported more than is possible, and this is the most that is.
 * `unknown`: nobody told. `per_request`: what the operator says that one request costs.
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
 * What is remarkable about a price: that of a model without one, none for a tool that was used, or the most expensive because the
 * upstream served it in a way that has none; `unknown_audio`: audio without a price of its own, at a multiple of that of text.
 */
export type PriceNote = 'unknown_model' | 'unpriced' | 'unknown_tier' | 'unknown_audio';

/** What one model used for an answer that several runs went into. */
export interface BilledPart extends TokenCounts {
  /** Its id, as in gateway.yaml. */
  readonly model: string;
}

/** As what a request was billed, where that differs from the model that was asked for in the ordinary way. */
export interface Billed {
  /** The model that answered, as the upstream calls it. */
  readonly model?: string;
  /** How it was served, by the words of the wire. */
  readonly service_tier?: string;
  readonly speed?: string;
  readonly inference_geo?: string;
  /** What of the input and output was audio. */
  readonly audio?: AudioTokens;
  /** The runs that it took, where the upstream tells them apart and they are several; their tokens are those of the row. */
  readonly parts?: readonly BilledPart[];
}

/** An attempt with its money. */
export interface ChargedAttempt extends AttemptRecord {
  /** What it cost: what its answer did, or what its upstream may bill, where that counts. */
  readonly cost_nano_usd: number;
  readonly provenance: Provenance | 'refused';
  /** What its upstream may bill, where that is not known; it is in the cost only where the provenance is `possible`. */
  readonly possibly_billed_nano_usd?: number;
}

/** What a forwarded request came to. */
export interface Outcome {
  readonly status: number | null;
  readonly aborted: boolean;
  readonly tokens: TokenCounts;
  readonly cost_nano_usd: number;
  /**
   * Per number: `input`, `output`, `cache_read`, `cache_write_5m`, `cache_write_1h`, `cost`, and `server_tools` where some
   * were used (`unpriced` where one of them has no price). `price` is there only to say `unknown_model`,
   * `unknown_tier` or `unknown_audio`.
   */
  readonly provenance: Readonly<Record<string, Provenance | PriceNote>>;
  /** Uses of tools that the upstream ran, by name, such as `web_search`. */
  readonly server_tools?: Readonly<Record<string, number>>;
  readonly billed?: Billed;
  /**
   * All attempts, in order, whose costs come to that of the row; absent where the first was the only one and served: the
   * row then tells all about it.
   */
  readonly attempts?: readonly ChargedAttempt[];
  /** Longest lifetime the request asked of the prompt cache, and that its upstream was asked for; absent without any. */
  readonly cache_requested_ttl?: string;
  readonly cache_effective_ttl?: string;
  /** Of the last attempt: milliseconds until it was answered or failed. Absent where none is known. */
  readonly upstream_ms?: number;
  /** Of the last attempt: the id that its upstream gave it. */
  readonly upstream_request_id?: string;
  /**
   * What upstreams may bill for attempts that failed; it is in the cost only where the cost is `possible`.
   * Kept with the provenance.
   */
  readonly possibly_billed_nano_usd?: number;
}

/** A ledger row to be written. */
export interface Settlement extends LedgerIdentity, Outcome {
  /** Whether a reservation was made under this request id. */
  readonly reserved: boolean;
}

/** The money: reservations before forwarding, ledger rows after. */
export interface Ledger {
  /**
   * Reserves an amount on every counter demanded, all or nothing, durably. Raises store_unavailable, unless the request may
   * go out then: what it costs is kept on disk and written to the ledger when the store is back.
   */
  reserve(request: ReservationRequest): Promise<ReservationDecision>;
  /** For a request that nothing was reserved for: its row can be written all the same, and there is nothing to give back. */
  unreserved(identity: LedgerIdentity): Reservation;
  /** What 95 of 100 requests of a caller to a model cost at most, in nano-USD; `undefined` while too little is known. */
  typicalCost(user: string, model: string): number | undefined;
  /** The limits in money among some demands, and counters without a limit, by their status now. Raises store_unavailable. */
  statuses(demands: readonly LimitDemand[]): Promise<readonly CounterStatus[]>;
}

/** The status of a counter, whether it has a limit or not. */
export type CounterStatus = Omit<LimitStatus, 'limit'> & { readonly limit: number | null };
