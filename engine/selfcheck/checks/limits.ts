import type { SelfCheck } from '../check.ts';

/** The refusal of a caller whose limit is used up. */
export const LIMIT_CHECKS: readonly SelfCheck[] = [];
