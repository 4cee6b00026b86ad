/**
 * Settings of functions that look rows up by key, a few or hundreds at a time. Each statement is planned once per
 * connection: with plans made for the arguments of each call, planning was more than half of the time of a small batch, and
 * grows with the partitions of the ledger. Looking up by index is right for any number of rows.
 */
export const PLANNED_ONCE =
  'set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off';
