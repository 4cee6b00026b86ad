/** A witness inside the database: it sees every state of the counters that was ever committed, and notes the bad ones. */

import type { Database } from '../../../engine/base/store/database.ts';
import { overshootBound } from '../../../engine/domain/budget/limits/overshoot.ts';
import { loadToRun } from '../../../engine/edge/gateway/reload.ts';
import { stages } from '../../../stages/index.ts';

/** The checked amounts: spent and reserved, or the possible spending at the maximum cost of everything in flight. */
export type Watched = 'spent + reserved' | 'spent + most';

/** The limits in money of a test, or their overshoot, by scope, in nano-USD. */
export interface ByScope {
  readonly user: number;
  readonly team: number;
}

/**
 * Begins to watch the counters in money.
 * @returns a function that gives the most by which a limit was passed at any moment so far.
 */
export async function watchCounters(
  database: Database,
  watched: Watched,
  limits: ByScope,
): Promise<() => Promise<ByScope>> {
  const { user, team } = limits;
  const limit = `case scope when 'user' then ${BigInt(user)} when 'team' then ${BigInt(team)} end`;
  // Deferred, so that it sees what is committed, and not the invisible steps of a transaction.
  await database.knex.raw(`
    create table overshoots (scope text, passed_by bigint);
    create function note_overshoot() returns trigger language plpgsql as $$
    begin
      insert into overshoots select scope, ${watched} - ${limit} from spend_counters
      where id = new.id and unit = 'nano_usd' and ${watched} > ${limit};
      return null;
    end $$;
    create constraint trigger note_overshoot after update on spend_counters deferrable initially deferred
    for each row execute function note_overshoot();`);
  return async () => {
    const rows: { scope: string; most: string }[] = await database
      .knex('overshoots')
      .max({ most: 'passed_by' })
      .select('scope')
      .groupBy('scope');
    return { user: 0, team: 0, ...Object.fromEntries(rows.map(({ scope, most }) => [scope, Number(most)])) };
  };
}

/** How far `check` permits the daily limit of users and the monthly one of teams to be exceeded, in nano-USD. */
export async function boundOf(config_file: string): Promise<ByScope> {
  const env = { TEST_UPSTREAM_KEY: 'some-key', TEST_DATABASE_URL: 'postgres://127.0.0.1' };
  const { config, loaded } = await loadToRun(config_file, { stages, env, environment: 'required' });
  const { bound_nano_usd, limits } = overshootBound(config, loaded.pipelines);
  const bound = (name: string) => limits.find((limit) => limit.name === name)?.bound_nano_usd ?? bound_nano_usd!;
  return { user: bound('defaults.user_daily_usd'), team: bound('defaults.team_monthly_usd') };
}
