import type { SelfCheck } from '../check.ts';

/** Chat completions. */
export const CHAT_CHECKS: readonly SelfCheck[] = [];
