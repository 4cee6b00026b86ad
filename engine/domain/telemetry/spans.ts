export type AttributeValue = string | number | boolean | readonly string[];

/** By name; one that is `undefined` is left out. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

export interface SpanEvent {
  readonly name: string;
  /** Milliseconds since the epoch, with fractions. */
  readonly at: number;
  readonly attributes: Attributes;
}

/** A span that is over; identifiers in lower-case hexadecimal digits. */
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
  /** Whether it went wrong; the attribute `error.type` says how. */
  readonly failed: boolean;
}

export interface SpanSink {
  /** Whether they go anywhere; nothing needs to be made of a request otherwise. */
  readonly active: boolean;
  /** Takes spans of one request. Never throws, never waits; drops and counts what there is no room for. */
  take(spans: readonly FinishedSpan[]): void;
}
