import type { Clock, CounterName, LimitsInForce } from '../../contract/services.ts';
import { createGroupCommit } from '../../kit/group-commit.ts';
import type { Database } from '../../store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { limitInForce } from './room.ts';

interface Asked {
  readonly name: CounterName;
  readonly written: number;
}

interface Row {
  readonly set_amount: number | null;
  readonly granted: string;
}

/** Makes the service that knows what was set and granted at run time. */
export function createLimitsInForce(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
}): LimitsInForce {
  const { database, clock } = options;
  const lookups = createGroupCommit<Asked, number>({
    lanes: 1,
    max_items: 100,
    isolates: () => false,
    async execute(asked) {
      const part = (read: (name: CounterName) => string) => asked.map(({ name }) => read(name));
      const rows = await database.query<Row>(
        'limits_now',
        `with moment as (select coalesce($1::timestamptz, now()) as at)
         select s.amount as set_amount, (select coalesce(sum(g.amount), 0)::text from limit_grants g
           where g.scope = n.scope and g.key = n.key and g.window_kind = n.window_kind and g.unit = n.unit
             and g.revoked_at is null and g.expires_at > at) as granted
         from moment
         cross join unnest($2::text[], $3::text[], $4::text[], $5::text[])
           with ordinality as n (scope, key, window_kind, unit, position)
         left join limit_settings s
           on s.scope = n.scope and s.key = n.key and s.window_kind = n.window_kind and s.unit = n.unit
         order by n.position`,
        [
          databaseTime(clock),
          part(({ scope }) => scope),
          part(({ key }) => key),
          part(({ window }) => window),
          part(({ unit }) => unit),
        ],
      );
      return rows.map(
        ({ set_amount, granted }, i) => limitInForce(asked[i]!.written, { set: set_amount, granted: Number(granted) })!,
      );
    },
  });
  return { amount: (name, written) => lookups.run({ name, written }) };
}
