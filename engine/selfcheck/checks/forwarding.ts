import type { SelfCheck } from '../check.ts';

/** What reaches the upstream, seen by the echo upstream. */
export const ECHO_CHECKS: readonly SelfCheck[] = [];
