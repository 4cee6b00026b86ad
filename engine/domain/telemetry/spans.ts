import type { TraceIdentity } from '../../base/contract/telemetry.ts';

export type AttributeValue = string | number | boolean | readonly string[];

/** Attributes by name; those that are `undefined` are omitted. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

export interface SpanEvent {
  readonly name: string;
  readonly at: number;
  readonly attributes: Attributes;
}

/** A finished span; identifiers in hexadecimal digits, times in milliseconds since the epoch with fractions. */
export interface FinishedSpan {
  readonly name: string;
  readonly kind: 'server' | 'client' | 'internal';
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_span_id: string | undefined;
  readonly trace_state?: string | undefined;
  readonly began_at: number;
  readonly ended_at: number;
  readonly attributes: Attributes;
  readonly events: readonly SpanEvent[];
  /** Status error; the attribute `error.type` names the error. */
  readonly failed: boolean;
}

/** A span that is not part of a request, from one time to another in milliseconds since the epoch. */
export function internalSpan(
  name: string,
  { trace_id, span_id, parent_span_id }: Pick<TraceIdentity, 'trace_id' | 'span_id' | 'parent_span_id'>,
  [began_at, ended_at]: readonly [number, number],
  attributes: Attributes = {},
  failed = false,
): FinishedSpan {
  const ids = { trace_id, span_id, parent_span_id };
  return { name, kind: 'internal', ...ids, began_at, ended_at, attributes, events: [], failed };
}

export interface SpanSink {
  /** Whether spans are exported; otherwise none need to be made. */
  readonly active: boolean;
  /** Queues spans of one request. Never throws, never waits; drops and counts spans if the queue is full. */
  take(spans: readonly FinishedSpan[]): void;
}

/** Creates a rate limit: at most `most` spans of a name in each second of the monotonic clock. */
export function spansPerSecond(most: number): (now_ms: number, name?: string) => boolean {
  let second = -1;
  const taken = new Map<string, number>();
  return (now_ms, name = '') => {
    const now = Math.floor(now_ms / 1000);
    if (now !== second) taken.clear();
    second = now;
    const before = taken.get(name) ?? 0;
    taken.set(name, before + 1);
    return before < most;
  };
}
