import type { SelfCheck } from '../check.ts';

/** The list of models, and what callers without a good credential are told. */
export const MODELS_CHECKS: readonly SelfCheck[] = [];
