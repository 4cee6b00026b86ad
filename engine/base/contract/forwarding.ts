/**
 * A request on its way to one of several upstreams: where it can go, what became of each attempt, and what is known of the
 * upstreams meanwhile.
 * @module
 */
import type { UpstreamConfig } from './config.ts';
import type { FactPath, FactValue } from './facts.ts';

/**
 * What is known of an attempt that failed: nothing of it left; it left, and the upstream may be at work on it and bill it; it was
 * answered (RFC 9110 section 9.2.2).
 */
export const CERTAINTIES = ['not_sent', 'possibly_accepted', 'answered'] as const;

/** One of them. */
export type Certainty = (typeof CERTAINTIES)[number];

/** Why an upstream of a route is not asked, or not asked yet. */
export const DROP_REASONS = {
  drained: 'an administrator has drained it',
  open: 'it failed too often, so its breaker is open',
  limited: 'it answered 429: the account of the gateway has no room there for a time',
  credential: 'it refused the credential of the gateway',
  model_missing: 'it does not have the model',
  protocol: 'it does not speak the protocol of the request, which cannot be translated for it',
  context_window: 'the request is longer than what its model reads',
  cache: 'it does not keep prompts for an hour; it is only asked when the upstreams that do have failed',
  state_boundary: 'the request holds state that only another upstream can read',
  decisive: 'the request has a field that chooses who serves or pays and is not allowed there',
  limit: 'a limit on this upstream has no room',
  stage: 'a stage of the pipeline keeps the request from it',
} as const;

/** One of them, by its word. */
export type DropReason = keyof typeof DROP_REASONS;

/** What happened after an attempt, and why. */
export const ATTEMPT_REASONS = {
  served: 'its answer went to the client',
  stale_socket: 'sent again at once: the kept connection was closed in that moment',
  same_after_wait: 'sent to the same upstream again, after a wait',
  next_unreachable: 'went to the next upstream: no connection',
  next_limited: 'went to the next upstream: the account of the gateway is limited there (429)',
  next_overloaded: 'went to the next upstream: overloaded',
  next_failed: 'went to the next upstream: it failed',
  next_unconfirmed: 'went to the next upstream: it may have accepted the request, and did not answer it',
  next_credential: 'went to the next upstream: the credential of the gateway was refused',
  next_model_missing: 'went to the next upstream: the model is not there',
  fail_caller: 'ended: the request itself was refused, as every upstream would',
  exhausted: 'ended: there was no other upstream to try',
  too_late: 'ended: no time was left for another attempt',
  gone: 'ended: nobody waited for it any more',
} as const;

/** One of them, by its word. */
export type AttemptReason = keyof typeof ATTEMPT_REASONS;

/** One attempt to have a request served. */
export interface AttemptRecord {
  /** From 1. */
  readonly n: number;
  readonly upstream: string;
  readonly upstream_model: string;
  /** Name of the variable with the credential that was used; absent without one. */
  readonly credential?: string;
  readonly certainty: Certainty;
  /** HTTP status, or what the error that began a stream stands for. */
  readonly status: number | null;
  /** Name of the row of the failover table that it met; `answered` for the one that served. */
  readonly outcome: string;
  readonly reason: AttemptReason;
  /** How often it was sent: 0 where nothing left, 2 after a stale socket. */
  readonly sends: number;
  /** From the beginning until it was answered or failed. */
  readonly ms: number;
  readonly upstream_request_id?: string;
}

/** Facts that change with the upstream a request is with. */
export type RouteFacts = { readonly [path in FactPath]?: FactValue<path> | undefined };

/** An upstream that can serve a request. */
export interface Candidate {
  readonly upstream: UpstreamConfig;
  readonly upstream_model: string;
  /** What is told of the request while it is with this upstream. */
  readonly facts: RouteFacts;
  /** No other upstream of the route could serve the request: where its breaker is open the request fails at once. */
  readonly is_alone?: true;
}

/** What an attempt says about the upstream. `neutral`: nothing. */
export type AttemptEffect =
  | 'success'
  | 'failure'
  | 'unreachable'
  | 'limited'
  | 'credential'
  | 'permission'
  | 'model_missing'
  | 'neutral';

/** Why an upstream takes no request for a model now. */
export interface Closed {
  readonly because: Extract<DropReason, 'drained' | 'open' | 'limited' | 'credential' | 'model_missing'>;
  /** Until when, in milliseconds since the epoch by the gateway's clock; `undefined` for as long as nobody resumes it. */
  readonly until: number | undefined;
  /** The last failure, for people, such as `status 529`. */
  readonly last: string | undefined;
  /** Whether that is so for the caller alone, or for this request: nothing else failed. */
  readonly alone?: 'caller' | 'request';
}

/** A request that counts as under way at an upstream. */
export interface Trial {
  /**
   * Tells what the attempt showed; once. The request still counts as under way until `leave`.
   * @param detail for people, such as `status 529` or `ECONNREFUSED`.
   * @param retry_after_seconds what the upstream asked for.
   */
  tell(effect: AttemptEffect, detail?: string, retry_after_seconds?: number): void;
  /**
   * The request is no longer with the upstream; more calls do nothing.
   * @param answer what became of an answer that had begun, where that is known
   * @param detail what broke it off, for people
   */
  leave(answer?: 'whole' | 'broken_off', detail?: string): void;
}

/** Who drained an upstream, when and why. */
export interface Drained {
  readonly by: string;
  readonly reason?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** What can be the matter with an upstream, or one of its models. `closed` is what it should be: everything passes. */
export const UPSTREAM_STATES = [
  'closed',
  'open',
  'half_open',
  'limited',
  'credential',
  'model_missing',
  'drained',
] as const;

/** What is known of one upstream in this process, for health, people and tests. */
export interface UpstreamState {
  readonly upstream: string;
  readonly state: (typeof UPSTREAM_STATES)[number];
  /** Of one model; absent for the upstream as a whole. */
  readonly upstream_model?: string;
  /** Milliseconds since the epoch. */
  readonly until?: number;
  /** The last failure, for people. */
  readonly last?: string;
  /** Of the upstream as a whole: requests under way. */
  readonly active?: number;
  /** Of the upstream as a whole, where it is drained. */
  readonly drained?: Drained;
  /** Whether its breakers only tell. */
  readonly shadow?: true;
}

/** Whose request an attempt is for. */
export interface Witness {
  readonly caller: string;
  /** Tells the requests of a caller apart; one that is sent again has the same number. */
  readonly request: number;
}

/** Whose a request is, and which, as far as that is known. */
export type Seen = Pick<Witness, 'caller'> & Partial<Witness>;

/**
 * What is known of the upstreams: breakers, windows in which they are limited, who was drained, where sessions are at home. Of
 * this process; what others learn is a hint.
 */
export interface UpstreamStates {
  /** What speaks against a request now; changes nothing. */
  closed(upstream: string, upstream_model: string, by?: Seen): Closed | undefined;
  /**
   * Counts a request as under way; where the breaker is half-open it is the one that tries. `closed` right before it says
   * whether another one tries already.
   */
  begin(upstream: string, upstream_model: string, witness?: Witness): Trial;
  /**
   * Takes one of the upstream's retries: requests sent to it again after it failed them.
   * @returns what gives it back; `undefined` when its budget is used up.
   */
  takeRetry(upstream: string): (() => void) | undefined;
  /** Requests under way. */
  active(upstream: string): number;
  /** From 0 to 1: how much of its weight an upstream has that has come back a moment ago. */
  share(upstream: string, upstream_model: string): number;
  /** Where a session was served last, while its prompts are kept there. */
  home(session: string): string | undefined;
  /** Notes where a session is served, for as long as its prompts are kept there. */
  settle(session: string, upstream: string, seconds: number): void;
  /** For each upstream, in the order of gateway.yaml, a line for the whole, then one for each model that is not as it should be. */
  list(): readonly UpstreamState[];
}
