/** What is known of an attribute of a span, an event or a metric. */
export interface AttributeSpec {
  /** A double has fractions; the SDK sends one that is whole as an integer. */
  readonly kind: 'string' | 'number' | 'double' | 'boolean' | 'strings';
  /** A sentence without its full stop. */
  readonly meaning: string;
  /** The closed set of values, where there is one. */
  readonly values?: readonly string[];
  /** Value of `telemetry.conventions` with which it has this name; absent: with any. */
  readonly conventions?: '1.41' | 'latest';
}

/** What is known of an event within a span. */
export interface EventSpec {
  /** A sentence without its full stop. */
  readonly meaning: string;
  /** Attributes that it can have. */
  readonly attributes: readonly string[];
}

/** What is known of a kind of span. */
export interface SpanSpec {
  /** As it is called; what is in braces differs. */
  readonly name: string;
  readonly kind: 'server' | 'client' | 'internal';
  /** A sentence without its full stop. */
  readonly meaning: string;
  /** Attributes that it can have. */
  readonly attributes: readonly string[];
  /** Events that it can have. */
  readonly events: readonly string[];
}
