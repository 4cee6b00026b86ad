/** What is known of a metric: one series for each combination of its labels' values. */
export interface MetricSpec {
  readonly kind: 'counter' | 'histogram' | 'gauge';
  /** By UCUM, as OpenTelemetry wants it: `s`, `By`, `1` for a ratio, and in braces what is counted, which is in no name. */
  readonly unit: string;
  /** A sentence without its full stop. */
  readonly meaning: string;
  /** Attributes that tell its series apart. Each has few values, never a user, a token, a session or an address. */
  readonly labels: readonly string[];
  /** Upper bounds of the buckets of a histogram. */
  readonly bounds?: readonly number[];
  /** Value of `telemetry.conventions` with which it is there; absent: with any. */
  readonly conventions?: '1.41' | 'latest';
}
