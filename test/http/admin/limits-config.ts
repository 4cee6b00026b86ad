/** A configuration with limits of every kind, and counters as requests leave them. */
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { config } from './support.ts';

const limit_usd_by_group = { science: 300, engineering: 200 };
const when = { '===': [{ var: 'request.model' }, 'coder-1'] };

/** The configuration of the admin API's tests, with limits. */
export const limitedConfig = {
  ...config,
  spend_limits: {
    defaults: { user_daily_usd: 50, team_monthly_usd: 1000 },
    on_exceeded: 'deny',
    on_store_error: 'deny',
    store_timeout_seconds: 30,
    spool_dir: '/nowhere',
    reserve: 'worst_case',
    overshoot_percent: 5,
    status: 429,
    time_zone: 'UTC',
    rules: [
      { name: 'scientists', scope: 'user', window: 'week', limit_usd: 100, limit_usd_by_group },
      { name: 'writer', scope: ['user', 'model'], window: 'day', limit_usd: 5 },
      { name: 'pace', scope: 'user', concurrency: 4, requests_per_minute: 60, tokens_per_minute: 90_000 },
      { name: 'slow', scope: 'team', requests_per_minute: 5, when },
      { name: 'trial', scope: 'user', window: 'day', limit_usd: 1, mode: 'shadow' },
      { name: 'nights', scope: 'team', window: 'month', limit_usd: 10, when },
    ].map((rule) => ({ mode: 'enforce', ...rule })),
  },
} as unknown as GatewayConfig;

/** One counter as requests leave it. Amounts are in its unit; `start` is when the window began. */
type CountedRow = { readonly [Key in 'scope' | 'key' | 'window' | 'start']: string } & {
  readonly unit?: string;
  readonly spent: string | number;
  readonly reserved?: number;
  readonly in_flight?: number;
};

/** Puts a counter into the database. */
export async function count(database: Pick<Database, 'query'>, row: CountedRow): Promise<void> {
  const { scope, key, window, start, unit = 'nano_usd', spent, reserved = 0, in_flight = 0 } = row;
  await database.query(
    'test_count',
    `insert into spend_counters (scope, key, window_kind, window_start, unit, spent, reserved, most, in_flight)
     values ($1, $2, $3, $4, $5, $6, $7, $7, $8)`,
    [scope, key, window, start, unit, spent, reserved, in_flight],
  );
}
