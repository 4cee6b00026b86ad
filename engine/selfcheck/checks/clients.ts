import type { SelfCheck } from '../check.ts';

/** A single run of each coding client that is installed. */
export const CLIENT_CHECKS: readonly SelfCheck[] = [];
