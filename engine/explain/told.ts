/** Stages and rules of one request, as they are told. */

/** A comparison that decided. */
export interface ToldReason {
  readonly held: boolean;
  readonly words: string;
}

/** Where a rule or guard is written. */
export interface ToldPlace {
  readonly file: string | null;
  readonly line: number | null;
}

/** How one stage ended. */
export interface ToldStage extends ToldPlace {
  readonly id: string;
  readonly end: 'ran' | 'skipped' | 'shadow' | 'refused' | 'failed' | 'left_out' | 'answered';
  readonly ms: number | null;
  /** Of its guard. */
  readonly condition: string | null;
  readonly reasons: readonly ToldReason[];
}

/** How one rule of gateway.yaml turned out. */
export interface ToldRule extends ToldPlace {
  readonly kind: 'routing' | 'access' | 'spend';
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  /** `null`: it was not asked, because an earlier one had decided, or nobody knows. */
  readonly held: boolean | null;
  readonly condition: string;
  readonly effect: string;
  readonly reasons: readonly ToldReason[];
}
