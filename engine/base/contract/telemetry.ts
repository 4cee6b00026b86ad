/**
 * What the gateway tells about itself while it runs, as types: requests that are over, and whatever else happens. The room
 * `telemetry` makes spans and metrics of it.
 * @module
 */
import type { StageError } from './errors.ts';
import type { FactPath, FactValue } from './facts.ts';
import type { AttemptRecord } from './forwarding.ts';
import type { LimitStatus } from './money.ts';

/** Where a request belongs in a trace (W3C Trace Context), in lower-case hexadecimal digits. */
export interface TraceIdentity {
  readonly trace_id: string;
  /** Of the gateway's own span for the request. */
  readonly span_id: string;
  /** Of the caller's span, where it sent a valid `traceparent`. */
  readonly parent_span_id: string | undefined;
  /** The caller's `tracestate`, where it sent a valid one with a valid `traceparent`. */
  readonly trace_state: string | undefined;
  /** Whether it is exported whatever becomes of the request. */
  readonly is_kept: boolean;
  /** Identifier of the span of an attempt, counted from 1; the same whenever it is asked for. */
  attemptSpanId(n: number): string;
}

/** When an attempt began and ended, in milliseconds on the monotonic clock; the one that served ends with the request. */
export interface AttemptTimes {
  readonly began_at: number;
  readonly ended_at: number;
}

/** What is kept of a request for telemetry alone. */
export interface RequestNotes {
  /** Made when it is first asked for. */
  readonly trace: TraceIdentity;
  /** Of each of the request's attempts, by position. */
  readonly attempt_times: readonly AttemptTimes[];
  /** Every limit in money that applies, with what is reserved for the request in it; of a refused request those without room. */
  readonly limits: readonly LimitStatus[];
  /** When the limits were told, in milliseconds on the monotonic clock. */
  readonly limits_at: number;
  /** The error that the request ended with. */
  readonly error: StageError | undefined;
}

/** A request of a pipeline that is over: its client has its answer, and all of its stages have run. */
export interface EndedRequest {
  /** The value of any fact. */
  peek<P extends FactPath>(path: P): FactValue<P> | undefined;
  /** The fact at a position. */
  factAt(index: number): unknown;
  readonly attempts: readonly AttemptRecord[];
  /** Names of what held in shadow mode: `routing:<rule>`, `spend:<rule>`, or the id of a stage. */
  readonly shadows: readonly string[];
  /** Milliseconds on the monotonic clock. */
  readonly started_at: number;
  /** When the client had its answer or was gone, on the monotonic clock. */
  readonly ended_at: number | undefined;
  readonly pipeline: {
    readonly spec: { readonly name: string; readonly match: { readonly paths: readonly string[] } };
  };
  readonly notes: RequestNotes;
}

/** Names of the spans of operations, as `telemetry/catalogue/spans.ts` explains them. */
export type OperationName =
  | 'gateway.sign_in'
  | 'gateway.session'
  | 'gateway.account_check'
  | 'gateway.admin_change'
  | 'gateway.reload'
  | 'gateway.start';

/** Something that is no request of a pipeline: a sign-in, a change by an administrator, a reload. */
export interface Operation {
  readonly name: OperationName;
  /** By the names of the catalogue; others are left out. No secret, no e-mail address. */
  readonly attributes: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;
  /** When it began, in milliseconds since the epoch. */
  readonly began_at: number;
  readonly duration_ms: number;
  /** One word for what went wrong, of a small closed set; absent when it went well. */
  readonly error_type?: string | undefined;
  /** Absent: a trace of its own, which nobody else knows. */
  readonly trace?: Pick<TraceIdentity, 'trace_id' | 'span_id' | 'parent_span_id'>;
}

/** Is told what happens. Costs next to nothing where nothing is exported, never throws, never waits. */
export interface Telemetry {
  requestEnded(request: EndedRequest): void;
  operation(operation: Operation): void;
  /** Whether a trace is exported whatever becomes of its request. */
  keepsTrace(trace_id: string): boolean;
  /** A request that no pipeline took, and the status it was answered with. */
  requestRejected(status: number, code: string): void;
}

/** For what runs without telemetry, such as simulations. */
export const NO_TELEMETRY: Telemetry = Object.freeze({
  requestEnded() {},
  operation() {},
  keepsTrace: () => false,
  requestRejected() {},
});
