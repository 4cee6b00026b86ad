/** The telemetry interface: ended requests and other operations. The package `telemetry` implements it. @module */
import type { StageError } from './errors.ts';
import type { FactPath, FactValue } from './facts.ts';
import type { AttemptRecord } from './forwarding.ts';
import type { LimitStatus } from './money.ts';

/** Trace context of a request (W3C Trace Context), in lower-case hexadecimal digits. */
export interface TraceIdentity {
  readonly trace_id: string;
  /** Of the gateway's own span for the request. */
  readonly span_id: string;
  /** Of the caller's span, if it sent a valid `traceparent`. */
  readonly parent_span_id: string | undefined;
  /** The caller's `tracestate`, if valid and sent with a valid `traceparent`. */
  readonly trace_state: string | undefined;
  /** Sampled: exported regardless of the outcome of the request. */
  readonly is_kept: boolean;
  /** Span id of an attempt, counted from 1; stable. */
  attemptSpanId(n: number): string;
}

/** Start and end of an attempt, in milliseconds on the monotonic clock; the attempt that served ends with the request. */
export interface AttemptTimes {
  readonly began_at: number;
  readonly ended_at: number;
}

/** Data of a request for telemetry only. */
export interface RequestTelemetryData {
  /** Created lazily. */
  readonly trace: TraceIdentity;
  /** One entry for each attempt. */
  readonly attempt_times: readonly AttemptTimes[];
  /** The money limits that apply, including the reservation; for a rejected request, the exceeded ones. */
  readonly limits: readonly LimitStatus[];
  /** Time of `limits`, in milliseconds on the monotonic clock. */
  readonly limits_at: number;
  /** The final error, if any. */
  readonly error: StageError | undefined;
}

/** An ended request of a pipeline: the response is sent, and all stages have run. */
export interface EndedRequest {
  /** The value of any fact. */
  peek<P extends FactPath>(path: P): FactValue<P> | undefined;
  /** The value of a fact, by its index. */
  factAt(index: number): unknown;
  readonly attempts: readonly AttemptRecord[];
  /** Matches in shadow mode: `routing:<rule>`, `spend:<rule>`, or the id of a stage. */
  readonly shadows: readonly string[];
  /** Start, in milliseconds on the monotonic clock. */
  readonly started_at: number;
  /** End of the response, or disconnect of the client, on the monotonic clock. */
  readonly ended_at: number | undefined;
  readonly pipeline: {
    readonly spec: { readonly name: string; readonly match: { readonly paths: readonly string[] } };
  };
  readonly notes: RequestTelemetryData;
}

/** Span names of operations; described in `telemetry/catalogue/spans.ts`. */
export type OperationName =
  | 'gateway.sign_in'
  | 'gateway.session'
  | 'gateway.account_check'
  | 'gateway.admin_change'
  | 'gateway.reload'
  | 'gateway.start';

/** An operation outside of pipelines: a sign-in, a change by an administrator, a reload. */
export interface Operation {
  readonly name: OperationName;
  /** Span attributes by the names of the catalogue; others are dropped. No secrets, no e-mail addresses. */
  readonly attributes: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;
  /** Start, in milliseconds since the epoch. */
  readonly began_at: number;
  readonly duration_ms: number;
  /** `error.type`: one word of a small closed set; absent on success. */
  readonly error_type?: string | undefined;
  /** Absent: a new trace. */
  readonly trace?: Pick<TraceIdentity, 'trace_id' | 'span_id' | 'parent_span_id'>;
}

/** Receives telemetry events. Never throws, never blocks; almost free without an exporter. */
export interface Telemetry {
  requestEnded(request: EndedRequest): void;
  operation(operation: Operation): void;
  /** Whether a trace is sampled. */
  keepsTrace(trace_id: string): boolean;
  /** Counts a request that no pipeline served, with the status of its response. */
  requestRejected(status: number, code: string): void;
}

/** A no-op, for simulations and the like. */
export const NO_TELEMETRY: Telemetry = Object.freeze({
  requestEnded() {},
  operation() {},
  keepsTrace: () => false,
  requestRejected() {},
});
