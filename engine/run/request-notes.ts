import type { IncomingHttpHeaders } from 'node:http';
import type { StageError } from '../contract/errors.ts';
import type { AttemptRecord, AuditRecord, LimitStatus } from '../contract/services.ts';
import {
  type AttemptTimes,
  NO_TELEMETRY,
  type RequestNotes,
  type Telemetry,
  type TraceIdentity,
} from '../contract/telemetry.ts';
import { isTraceState, newSpanId, newTraceId, parseTraceParent } from '../kit/net/trace-context.ts';
import { type AuditFields, withAuditFields } from './contained/audit-fields.ts';
import { AnswerRewrites } from './rewriting/answer-rewrites.ts';

const NO_LIMITS: readonly LimitStatus[] = [];
const isMoney = ({ unit }: LimitStatus) => unit === 'nano_usd';
const NO_TIMES: readonly AttemptTimes[] = [];

type Keeping = Pick<Telemetry, 'keepsTrace'>;

/** The trace that a request belongs to: that of its caller, else a new one. */
class RequestTrace implements TraceIdentity {
  readonly trace_id: string;
  readonly parent_span_id: string | undefined;
  readonly trace_state: string | undefined;
  #span_id: string | undefined;
  #attempts: string[] | undefined;
  readonly #telemetry: Keeping;

  constructor(headers: IncomingHttpHeaders, telemetry: Keeping) {
    this.#telemetry = telemetry;
    const parent = parseTraceParent(headers.traceparent);
    const state = headers.tracestate;
    this.trace_id = parent?.trace_id ?? newTraceId();
    this.parent_span_id = parent?.span_id;
    this.trace_state = parent !== undefined && typeof state === 'string' && isTraceState(state) ? state : undefined;
  }

  get span_id(): string {
    this.#span_id ??= newSpanId();
    return this.#span_id;
  }

  get is_kept(): boolean {
    return this.#telemetry.keepsTrace(this.trace_id);
  }

  attemptSpanId(n: number): string {
    this.#attempts ??= [];
    this.#attempts[n] ??= newSpanId();
    return this.#attempts[n];
  }
}

/** A stage whose `request` hook was called: its place in the pipeline, and when, on the monotonic clock. */
interface BegunStage {
  readonly place: number;
  readonly at: number;
}

/** What is kept of a request for telemetry and the audit log alone. */
export class KeptNotes implements RequestNotes {
  limits = NO_LIMITS;
  /** Those that count something else than money, too. */
  all_limits = NO_LIMITS;
  limits_at = 0;
  error: StageError | undefined;
  attempt_times = NO_TIMES;
  /** What stages of the operator's add to the audit record. */
  audit_fields: AuditFields = {};
  /** Whether the audit record is written: nothing can be added to it any more. */
  is_recorded = false;
  /** In order. */
  readonly begun: BegunStage[] = [];
  /** The `on_error` clause that answered. */
  clause: string | undefined;
  readonly #headers: IncomingHttpHeaders;
  readonly #telemetry: Keeping;
  #answer_rewrites: AnswerRewrites | undefined;
  #trace: TraceIdentity | undefined;

  constructor(headers: IncomingHttpHeaders, telemetry: Keeping = NO_TELEMETRY) {
    this.#headers = headers;
    this.#telemetry = telemetry;
  }

  get trace(): TraceIdentity {
    this.#trace ??= new RequestTrace(this.#headers, this.#telemetry);
    return this.#trace;
  }

  get answer_rewrites(): AnswerRewrites {
    this.#answer_rewrites ??= new AnswerRewrites();
    return this.#answer_rewrites;
  }

  limitsTold(limits: readonly LimitStatus[], at: number): void {
    this.all_limits = limits;
    this.limits = limits.every(isMoney) ? limits : limits.filter(isMoney);
    this.limits_at = at;
  }

  /** Throws where it is too late, or for what a record does not take. */
  addAuditFields(stage: string, record: AuditRecord): void {
    if (this.is_recorded)
      throw new Error('the audit record of the request is written; put the stage above "audit" to add to it');
    this.audit_fields = withAuditFields(this.audit_fields, stage, record);
  }

  stageBegins(place: number, at: number): void {
    this.begun.push({ place, at });
  }

  /** An attempt is over, or has been answered. @param began_at on the monotonic clock */
  attemptEnded({ n, ms }: AttemptRecord, began_at: number): void {
    const known = this.attempt_times[n - 1];
    // What is put in the place of a record came later than what it is about.
    if (known === undefined) this.attempt_times = [...this.attempt_times, { began_at, ended_at: began_at + ms }];
  }
}
