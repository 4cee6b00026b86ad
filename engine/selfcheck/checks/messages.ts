import type { SelfCheck } from '../check.ts';

/** The Messages API: whole answers, usage, errors, token counting. */
export const MESSAGES_CHECKS: readonly SelfCheck[] = [];
