/** One request's record for telemetry and audit. It collects references and numbers; texts are made when the request is over. @module */
import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayConfig } from '../../base/contract/config.ts';
import type { StageError } from '../../base/contract/errors.ts';
import type { FactPath } from '../../base/contract/facts.ts';
import type { AttemptRecord, AuditRecord, LimitChanges, LimitStatus } from '../../base/contract/services.ts';
import {
  type AttemptTimes,
  NO_TELEMETRY,
  type RequestTelemetryData,
  type Telemetry,
  type TraceIdentity,
} from '../../base/contract/telemetry.ts';
import { nanoToUsd } from '../../base/kit/money.ts';
import { isTraceState, newSpanId, newTraceId, parseTraceParent } from '../../base/kit/net/trace-context.ts';
import { accessRules, routingRules } from '../../base/rules/config-rules.ts';
import { factsRead } from '../../base/rules/fact-paths.ts';
import type { PipelineSpec } from '../../base/source/spec.ts';
import { type EndedFacts, recordOf } from '../../domain/audit/recorded-facts.ts';
import { spendLimits } from '../../domain/budget/limits/spend-limits.ts';
import type { AnswerRewriter } from '../../domain/protocols/rewriting.ts';
import type { CompiledPipeline, CompiledStage } from './compiled.ts';
import { type AuditFields, withAuditFields } from './contained/stage-data.ts';

const NO_LIMITS: readonly LimitStatus[] = [];
const isMoney = ({ unit }: LimitStatus) => unit === 'nano_usd';
const NO_TIMES: readonly AttemptTimes[] = [];

type Keeping = Pick<Telemetry, 'keepsTrace'>;

/** The trace of a request: continued from its `traceparent`, else a new one. */
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

class ResponseRewrites {
  /** Stages in shadow mode whose guards were true. */
  readonly watching: CompiledStage[] = [];
  rewriter: AnswerRewriter | undefined;
  /** Counts for the stages in shadow mode. */
  watcher: AnswerRewriter | undefined;

  /** Replacements by stage, those of shadow mode included; `undefined` without any. */
  get replaced(): Readonly<Record<string, number>> | undefined {
    const all = [...(this.rewriter?.replaced ?? []), ...this.watched];
    return all.length === 0 ? undefined : Object.fromEntries(all);
  }

  /** Replacements that stages in shadow mode would have made. */
  get watched(): ReadonlyMap<string, number> {
    // The text still in the window counts, too.
    this.watcher?.flush();
    return this.watcher?.replaced ?? new Map();
  }
}

/** Records one request for telemetry and the audit log. */
export class RequestRecorder implements RequestTelemetryData {
  limits = NO_LIMITS;
  all_limits = NO_LIMITS;
  limits_at = 0;
  error: StageError | undefined;
  attempt_times = NO_TIMES;
  /** Custom fields of operators' stages for the audit record. */
  audit_fields: AuditFields = {};
  /** Whether the audit record is written, and can no longer change. */
  is_recorded = false;
  /** Calls of `request` hooks: the stage's index in the pipeline, and the time on the monotonic clock. */
  readonly begun: { readonly place: number; readonly at: number }[] = [];
  /** The `on_error` clause that responded. */
  clause: string | undefined;
  readonly #headers: IncomingHttpHeaders;
  readonly #telemetry: Keeping;
  #response_rewrites: ResponseRewrites | undefined;
  #trace: TraceIdentity | undefined;

  constructor(headers: IncomingHttpHeaders, telemetry: Keeping = NO_TELEMETRY) {
    this.#headers = headers;
    this.#telemetry = telemetry;
  }

  get trace(): TraceIdentity {
    this.#trace ??= new RequestTrace(this.#headers, this.#telemetry);
    return this.#trace;
  }

  get response_rewrites(): ResponseRewrites {
    this.#response_rewrites ??= new ResponseRewrites();
    return this.#response_rewrites;
  }

  recordLimits(limits: readonly LimitStatus[], at: number): void {
    this.all_limits = limits;
    this.limits = limits.every(isMoney) ? limits : limits.filter(isMoney);
    this.limits_at = at;
  }

  /** Throws after the record is written, and for invalid fields. */
  addAuditFields(stage: string, record: AuditRecord): void {
    if (this.is_recorded)
      throw new Error('the audit record of this request is already written; list the stage above "audit"');
    this.audit_fields = withAuditFields(this.audit_fields, stage, record);
  }

  recordStage(place: number, at: number): void {
    this.begun.push({ place, at });
  }

  /** @param began_at on the monotonic clock */
  recordAttempt({ n, ms }: AttemptRecord, began_at: number): void {
    const known = this.attempt_times[n - 1];
    // A later record of the same attempt corrects its result, not its times.
    if (known === undefined) this.attempt_times = [...this.attempt_times, { began_at, ended_at: began_at + ms }];
  }
}

interface Decided extends EndedFacts {
  readonly pipeline: CompiledPipeline;
  readonly entered: readonly CompiledStage[];
  readonly shadows: readonly string[];
  readonly notes: RequestRecorder;
  readonly ended_at: number | undefined;
  readonly clock: { monotonic(): number };
  readonly left_out: ReadonlySet<CompiledStage> | undefined;
}

/** Maximum length of one fact in a record, in characters or items. */
const TEXT_LENGTH_MAX = 200;
const ENTRIES_MAX = 50;
const REASON_LENGTH_MAX = 600;
/** Maximum stages, limits and facts in one record. */
const RECORDED_MAX = 60;
const LIMIT_CODES: ReadonlySet<string> = new Set(['spend_limit_exceeded', 'rate_limit_exceeded']);

/** The facts that the guards of a pipeline and the rules of gateway.yaml read. */
export function ruleFacts({ stages, on_error, finally: last }: PipelineSpec, config: GatewayConfig): FactPath[] {
  const guards = [...stages, ...on_error, ...last].map(({ when }) => when);
  const rules = [...routingRules(config), ...accessRules(config), ...spendLimits(config)].map(({ logic }) => logic);
  return [...new Set([...guards, ...rules].flatMap(factsRead))] as FactPath[];
}

/** A finished request's audit record. `limits`: before it; `seen`: facts that rules read, without a field. @param now in ms */
export function describeRequest(ctx: Decided, now: number): AuditRecord {
  const { pipeline, notes } = ctx;
  const seen = pipeline.seen_facts.flatMap((path) => {
    const value = bounded(ctx.peek(path));
    return value === undefined ? [] : [[path, value] as const];
  });
  return Object.assign(recordOf(ctx, now), {
    config: pipeline.version,
    pipeline: pipeline.spec.name,
    steps: describeSteps(ctx),
    ...describeRefusal(notes.error),
    ...(notes.clause !== undefined && { answered_by: notes.clause }),
    ...(notes.all_limits.length > 0 && { limits: describeLimits(ctx) }),
    ...describeFound(ctx),
    ...(seen.length > 0 && { seen: Object.fromEntries(seen.slice(0, RECORDED_MAX)) }),
  });
}

/** By operator's stage: its facts declared as `recorded`, and the audit fields that it added. */
function describeFound(ctx: Decided): AuditRecord {
  const by_stage: Record<string, Readonly<Record<string, unknown>>> = { ...ctx.notes.audit_fields };
  for (const { definition } of ctx.entered) {
    const { name, facts } = definition;
    if (facts === undefined) continue;
    const recorded = Object.keys(facts).filter((fact) => facts[fact]!.recorded);
    const values = recorded.map((fact) => [fact, ctx.peek(`${name}.${fact}` as FactPath)] as const);
    const set = values.filter(([, value]) => value !== undefined);
    // A declared fact wins over an audit field of the same name.
    if (set.length > 0) by_stage[name] = { ...by_stage[name], ...Object.fromEntries(set) };
  }
  return Object.keys(by_stage).length === 0 ? {} : { found: by_stage };
}

/** The rule that rejected a request; for a limit also the message, the only one that never quotes an upstream. */
function describeRefusal(error: StageError | undefined): AuditRecord {
  if (error === undefined) return {};
  const { policy, token_group, access_rule } = error.details;
  const group = token_group && `token group ${token_group}`;
  const rule = access_rule && `access rule ${access_rule}`;
  const by = typeof policy === 'string' ? `policy ${policy}` : (group ?? rule);
  return {
    ...(typeof by === 'string' && { refused_by: by.slice(0, TEXT_LENGTH_MAX) }),
    ...(LIMIT_CODES.has(error.code) && { reason: error.message.slice(0, REASON_LENGTH_MAX) }),
  };
}

/** The stages up to the last one reached, and the observing stages below it. */
function describeSteps(ctx: Decided): string[] {
  const { pipeline, notes, clock } = ctx;
  const { stages } = pipeline;
  const { begun } = notes;
  const error_stage = ctx.peek('error.stage');
  const error_at = error_stage === undefined ? -1 : stages.findIndex(({ id }) => id === error_stage);
  const reached = Math.max(error_at, begun.at(-1)?.place ?? -1);
  const ended = ctx.ended_at ?? clock.monotonic();
  const steps: string[] = [];
  let next = 0;
  for (let place = 0; place < stages.length && steps.length < RECORDED_MAX; place++) {
    const began_at = begun[next]?.place === place ? begun[next++]!.at : undefined;
    const end = endOf(ctx, stages[place]!, place, { reached, error_at });
    if (end === undefined) continue;
    const ms = began_at === undefined ? undefined : Math.max(0, (begun[next]?.at ?? ended) - began_at);
    steps.push(`${stages[place]!.id}: ${end}${ms === undefined ? '' : `, ${Math.round(ms * 10) / 10} ms`}`);
  }
  return steps;
}

function endOf(
  ctx: Decided,
  stage: CompiledStage,
  place: number,
  { reached, error_at }: { readonly reached: number; readonly error_at: number },
): string | undefined {
  if (place === error_at) return Number(ctx.peek('error.status')) < 500 ? 'refused' : 'failed';
  if (ctx.left_out?.has(stage)) return 'left out';
  if (ctx.entered.includes(stage)) return place === reached && error_at < 0 ? 'answered' : 'ran';
  if (ctx.shadows.includes(stage.id)) return 'shadow';
  return place < reached ? 'skipped' : undefined;
}

/** The limits without the reservation of this request. Amounts are in the limit's unit, money in USD. */
function describeLimits(ctx: Decided): object[] {
  const own = Number(ctx.peek('spend.reserved_nano_usd') ?? 0);
  return ctx.notes.all_limits.slice(0, RECORDED_MAX).map((limit) => describeLimit(limit, own));
}

function describeLimit(status: LimitStatus, own: number): object {
  const { rule, scope, key, window, unit, resets_at, changes, ...amounts } = status;
  const is_usd = unit === 'nano_usd';
  const shown = (amount: number) => (is_usd ? nanoToUsd(amount) : amount);
  return {
    ...{ rule, scope, key: key.slice(0, TEXT_LENGTH_MAX), window, unit: is_usd ? 'usd' : unit },
    limit: shown(amounts.limit),
    spent: shown(amounts.spent),
    reserved: shown(Math.max(0, amounts.reserved - (is_usd ? own : 0))),
    resets_at: resets_at === null ? null : isoTime(resets_at),
    ...(changes !== undefined && describeChanges(changes, shown)),
  };
}

const isoTime = (at: number) => new Date(at).toISOString();

/** The last change of a limit, and its temporary raises. */
function describeChanges({ set, grants }: LimitChanges, shown: (amount: number) => number): object {
  return {
    ...(set !== null && { set_at: isoTime(set.at), set_by: set.by.slice(0, TEXT_LENGTH_MAX) }),
    ...(grants.length > 0 && {
      grants: grants.map(({ id, amount, at, by, expires_at }) => ({
        ...{ id, amount: shown(amount), granted_at: isoTime(at), granted_by: by.slice(0, TEXT_LENGTH_MAX) },
        expires_at: isoTime(expires_at),
      })),
    }),
  };
}

/** Bounds a fact for the record: clients choose the length of some. Of an object only the numbers are kept. */
function bounded(value: unknown): unknown {
  if (typeof value === 'string') return value.slice(0, TEXT_LENGTH_MAX);
  if (Array.isArray(value)) {
    return value.slice(0, ENTRIES_MAX).flatMap((item) => (typeof item === 'string' ? [bounded(item)] : []));
  }
  if (typeof value !== 'object' || value === null) return value;
  const numbers = Object.entries(value).filter(([, each]) => typeof each === 'number');
  return numbers.length === 0 ? undefined : Object.fromEntries(numbers.slice(0, ENTRIES_MAX));
}
