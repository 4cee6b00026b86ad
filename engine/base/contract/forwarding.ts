/** Routing and failover of a request: candidates, attempts, and the state of the upstreams. @module */
import type { UpstreamConfig } from './config.ts';
import type { FactPath, FactValue } from './facts.ts';

/** How far a failed attempt got: never sent; sent, so it may be processed and billed; answered (RFC 9110 section 9.2.2). */
export const CERTAINTIES = ['not_sent', 'possibly_accepted', 'answered'] as const;

/** One of `CERTAINTIES`. */
export type Certainty = (typeof CERTAINTIES)[number];

/** Why an upstream of a route is skipped, or tried later. */
export const DROP_REASONS = {
  drained: 'an administrator has drained it',
  open: 'it failed too often, so its circuit breaker is open',
  limited: 'it responded 429: the account of the gateway is rate limited there',
  credential: 'it rejected the credential of the gateway',
  model_missing: 'it does not have the model',
  protocol: 'it does not speak the protocol of the request, which cannot be translated for it',
  context_window: 'the request is longer than the context window of its model',
  cache: 'it does not cache prompts for an hour; it is tried when the upstreams that do have failed',
  state_boundary: 'the request contains state that only another upstream can read',
  privileged: 'the request has a privileged field that is not allowed there',
  limit: 'the request would exceed a limit on this upstream',
  store_unavailable: 'the gateway could not check the limits: its database is unavailable',
  stage: 'a stage of the pipeline excludes it for this request',
} as const;

/** A key of `DROP_REASONS`. */
export type DropReason = keyof typeof DROP_REASONS;

/** The outcome of an attempt, and its reason. */
export const ATTEMPT_REASONS = {
  served: 'its response went to the client',
  stale_socket: 'sent again at once: the upstream closed the idle connection at that moment',
  same_after_wait: 'sent to the same upstream again, after a wait',
  next_unreachable: 'went to the next upstream: no connection',
  next_limited: 'went to the next upstream: the account of the gateway is rate limited there (429)',
  next_overloaded: 'went to the next upstream: overloaded',
  next_failed: 'went to the next upstream: it failed',
  next_unconfirmed: 'went to the next upstream: it may have accepted the request, but did not respond',
  next_credential: 'went to the next upstream: it rejected the credential of the gateway',
  next_model_missing: 'went to the next upstream: it does not have the model',
  fail_caller: 'ended: the request itself is wrong, so every upstream would reject it',
  exhausted: 'ended: no other upstream to try',
  too_late: 'ended: no time left for another attempt',
  gone: 'ended: the client disconnected, the gateway stops, or the gateway itself cancelled the request',
} as const;

/** A key of `ATTEMPT_REASONS`. */
export type AttemptReason = keyof typeof ATTEMPT_REASONS;

/** One attempt to send a request to an upstream. */
export interface AttemptRecord {
  readonly n: number;
  readonly upstream: string;
  readonly upstream_model: string;
  /** Name of the variable with the credential; absent without one. */
  readonly credential?: string;
  readonly certainty: Certainty;
  /** HTTP status, or the status of an error at the start of a stream. */
  readonly status: number | null;
  /** Row of the failover table; `answered` for the attempt that served. */
  readonly outcome: string;
  readonly reason: AttemptReason;
  /** How often it was sent: 0 if never, 2 after a stale socket. */
  readonly sends: number;
  /** Duration until the response or failure, in milliseconds. */
  readonly ms: number;
  readonly upstream_request_id?: string;
}

/** Facts that change with the upstream. */
export type RouteFacts = { readonly [path in FactPath]?: FactValue<path> | undefined };

/** An upstream that can serve a request. */
export interface Candidate {
  readonly upstream: UpstreamConfig;
  readonly upstream_model: string;
  /** Facts of the request while it is at this upstream. */
  readonly facts: RouteFacts;
  /** No other upstream of the route can serve the request; if its breaker is open, the request fails at once. */
  readonly is_only_candidate?: true;
}

/** What an attempt shows about the health of its upstream. `neutral`: nothing. */
export type AttemptEffect =
  | 'success'
  | 'failure'
  | 'unreachable'
  | 'limited'
  | 'credential'
  | 'permission'
  | 'model_missing'
  | 'neutral';

/** Why an upstream currently takes no request for a model. */
export interface Unavailable {
  readonly because: Extract<DropReason, 'drained' | 'open' | 'limited' | 'credential' | 'model_missing'>;
  /** Expiry in milliseconds since the epoch; `undefined` until an administrator resumes it. */
  readonly until: number | undefined;
  /** The last failure, for people, such as `status 529`. */
  readonly last: string | undefined;
  /** Applies to this caller or this request only, because only it failed. */
  readonly only_for?: 'caller' | 'request';
}

/** A request in flight at an upstream; reports its outcome to the circuit breaker. */
export interface AttemptHandle {
  /** Reports the outcome, once; the request stays in flight until `leave`. @param detail for people: `status 529` */
  report(effect: AttemptEffect, detail?: string, retry_after_seconds?: number): void;
  /** Ends the request at the upstream, once. @param answer whether a started response was completed, if known */
  leave(answer?: 'whole' | 'broken_off', detail?: string): void;
}

/** Who drained an upstream, when and why. */
export interface Drained {
  readonly by: string;
  readonly reason?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** States of the circuit breaker of an upstream or model. `closed`: healthy, all requests pass. */
export const UPSTREAM_STATES = [
  'closed',
  'open',
  'half_open',
  'limited',
  'credential',
  'model_missing',
  'drained',
] as const;

/** The state of one upstream in this process, for health checks, people and tests. */
export interface UpstreamState {
  readonly upstream: string;
  readonly state: (typeof UPSTREAM_STATES)[number];
  /** Of one model; absent for the upstream as a whole. */
  readonly upstream_model?: string;
  /** Milliseconds since the epoch. */
  readonly until?: number;
  readonly last?: string;
  readonly active?: number;
  readonly drained?: Drained;
  /** Shadow mode: its breakers only report. */
  readonly shadow?: true;
}

/** Caller and request of an attempt. */
export interface AttemptOrigin {
  readonly caller: string;
  /** Number of the request; a resent request has the same one. */
  readonly request: number;
}

/** Caller, and the request if known. */
export type Seen = Pick<AttemptOrigin, 'caller'> & Partial<AttemptOrigin>;

/** The state of the upstreams in this process. Reports of other replicas are hints only. */
export interface UpstreamStates {
  /** Why the upstream takes no request now, if so. Read-only. */
  unavailable(upstream: string, upstream_model: string, by?: Seen): Unavailable | undefined;
  /** Starts a request; with a half-open breaker it is the probe. Check `unavailable` first: another probe may be in flight. */
  begin(upstream: string, upstream_model: string, witness?: AttemptOrigin): AttemptHandle;
  /** Takes one retry from the retry budget. @returns what returns it; `undefined` if the budget is used up */
  takeRetry(upstream: string): (() => void) | undefined;
  active(upstream: string): number;
  /** Slow start: the share of its weight (0 to 1) that a recovered upstream gets. */
  share(upstream: string, upstream_model: string): number;
  /** Session affinity: the upstream that last served a session, while its prompt cache lasts. */
  affinity(session: string): string | undefined;
  /** Records the upstream of a session for the lifetime of its prompt cache. */
  remember(session: string, upstream: string, seconds: number): void;
  /** In the order of gateway.yaml: each upstream, followed by its models that are not `closed`. */
  list(): readonly UpstreamState[];
}
