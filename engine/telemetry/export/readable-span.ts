import {
  type Attributes,
  type HrTime,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
} from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { FinishedSpan, Attributes as GivenAttributes, SpanEvent } from '../spans.ts';

/** Who tells the spans. */
export type Scope = ReadableSpan['instrumentationScope'];

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;
const FAILED = { code: SpanStatusCode.ERROR };
const UNSET = { code: SpanStatusCode.UNSET };
const NO_LINKS: ReadableSpan['links'] = [];

/** A finished span in the shape that exporters of OpenTelemetry take. */
export class ExportedSpan implements ReadableSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly parentSpanContext?: SpanContext;
  readonly startTime: HrTime;
  readonly endTime: HrTime;
  readonly duration: HrTime;
  readonly status: ReadableSpan['status'];
  readonly attributes: Attributes;
  readonly events: ReadableSpan['events'];
  readonly links = NO_LINKS;
  readonly ended = true;
  readonly resource: Resource;
  readonly instrumentationScope: Scope;
  readonly droppedAttributesCount = 0;
  readonly droppedEventsCount = 0;
  readonly droppedLinksCount = 0;
  readonly #context: SpanContext;

  constructor(span: FinishedSpan, resource: Resource, scope: Scope) {
    this.name = span.name;
    this.kind = KINDS[span.kind];
    this.#context = contextOf(span, span.span_id, false);
    if (span.parent_span_id !== undefined) {
      this.parentSpanContext = contextOf(span, span.parent_span_id, span.parent_is_remote);
    }
    this.startTime = hrTime(span.began_at);
    this.endTime = hrTime(span.ended_at);
    this.duration = hrTime(Math.max(0, span.ended_at - span.began_at));
    this.status = span.failed ? FAILED : UNSET;
    this.attributes = definedOnly(span.attributes);
    this.events = span.events.map(timedEvent);
    this.resource = resource;
    this.instrumentationScope = scope;
  }

  spanContext(): SpanContext {
    return this.#context;
  }
}

function contextOf({ trace_id, trace_state }: FinishedSpan, spanId: string, isRemote: boolean): SpanContext {
  const context = { traceId: trace_id, spanId, traceFlags: TraceFlags.SAMPLED, isRemote };
  return trace_state === undefined ? context : { ...context, traceState: traceState(trace_state) };
}

/** A `tracestate` is passed on as it came; nobody asks it for its members. */
function traceState(text: string): NonNullable<SpanContext['traceState']> {
  const state = { get: () => undefined, set: () => state, unset: () => state, serialize: () => text };
  return state;
}

function timedEvent({ name, at, attributes }: SpanEvent): ReadableSpan['events'][number] {
  return { name, time: hrTime(at), attributes: definedOnly(attributes) };
}

/** Attributes without those that are `undefined`, which an encoder would write as empty values. */
function definedOnly(attributes: GivenAttributes): Attributes {
  const defined: Record<string, Attributes[string]> = {};
  for (const name in attributes) {
    const value = attributes[name];
    if (value !== undefined) defined[name] = value as Attributes[string];
  }
  return defined;
}

/** Seconds and nanoseconds of milliseconds since the epoch, to the microsecond that a double can tell. */
export function hrTime(milliseconds: number): HrTime {
  const seconds = Math.floor(milliseconds / 1000);
  const nanoseconds = Math.round((milliseconds - seconds * 1000) * 1000) * 1000;
  return nanoseconds === 1_000_000_000 ? [seconds + 1, 0] : [seconds, nanoseconds];
}
