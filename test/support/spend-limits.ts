import type { SpendLimitsConfig } from '../../engine/base/contract/config.ts';

/** The section `spend_limits` as loaded with only some keys: no limits, worst case. */
export function spendLimitsSection(keys: Partial<SpendLimitsConfig> = {}): SpendLimitsConfig {
  return {
    defaults: {},
    on_exceeded: 'deny',
    on_store_error: 'deny',
    store_timeout_seconds: 30,
    spool_dir: 'spool',
    reserve: 'worst_case',
    lease: 'on',
    overshoot_percent: 10,
    status: 429,
    time_zone: 'UTC',
    rules: [],
    ...keys,
  };
}
