import type { SelfCheck } from '../check.ts';

/** Responses. */
export const RESPONSES_CHECKS: readonly SelfCheck[] = [];
