import type { SelfCheck } from '../check.ts';

/** Streams of the Messages API: that events arrive one by one as they are made. */
export const STREAM_CHECKS: readonly SelfCheck[] = [];
