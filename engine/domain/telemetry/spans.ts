export type AttributeValue = string | number | boolean | readonly string[];

/** Attributes by name; those that are `undefined` are omitted. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

export interface SpanEvent {
  readonly name: string;
  /** Milliseconds since the epoch, with fractions. */
  readonly at: number;
  readonly attributes: Attributes;
}

/** A finished span; identifiers in lower-case hexadecimal digits. */
export interface FinishedSpan {
  readonly name: string;
  readonly kind: 'server' | 'client' | 'internal';
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_span_id: string | undefined;
  readonly parent_is_remote: boolean;
  readonly trace_state: string | undefined;
  /** Milliseconds since the epoch, with fractions. */
  readonly began_at: number;
  /** Milliseconds since the epoch, with fractions. */
  readonly ended_at: number;
  readonly attributes: Attributes;
  readonly events: readonly SpanEvent[];
  /** Status error; the attribute `error.type` says which. */
  readonly failed: boolean;
}

export interface SpanSink {
  /** Whether spans are exported; otherwise none need to be made. */
  readonly active: boolean;
  /** Queues spans of one request. Never throws, never waits; drops and counts spans if the queue is full. */
  take(spans: readonly FinishedSpan[]): void;
}
