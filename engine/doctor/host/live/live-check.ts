/** What came of one check. Texts hold no secret. */
export interface LiveOutcome {
  readonly ok: boolean;
  /** What was found, in a few words. */
  readonly what: string;
  /** What to do about a failure. */
  readonly help?: string;
  /** What is not quite as the configuration wants it, and may fail later. */
  readonly warnings?: readonly string[];
  /** What is worth knowing. */
  readonly notes?: readonly string[];
  /** How it was reached, where HTTP is spoken: directly, or through which proxy. */
  readonly way?: string;
}

/** One thing outside the configuration, and whether it is as the configuration needs it. */
export interface LiveCheck extends LiveOutcome {
  readonly name: string;
  readonly duration_ms: number;
}
