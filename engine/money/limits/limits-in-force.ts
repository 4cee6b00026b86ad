import type { Clock, CounterName, LimitsInForce } from '../../contract/services.ts';
import { createGroupCommit } from '../../kit/group-commit.ts';
import type { Database } from '../../store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { limitInForce } from './room.ts';

interface Asked {
  readonly name: CounterName;
  readonly written: number;
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
      const [row] = await database.query<Record<'set' | 'granted', readonly (number | null)[] | null>>(
        'limits_now',
        `select to_json(amounts) as set, to_json(granted) as granted
         from limit_changes($1, $2, $3, $4, coalesce($5::timestamptz, now()))`,
        [
          ...[
            part(({ scope }) => scope),
            part(({ key }) => key),
            part(({ window }) => window),
            part(({ unit }) => unit),
          ],
          databaseTime(clock),
        ],
      );
      const { set, granted } = row!;
      return asked.map(
        ({ written }, i) => limitInForce(written, { set: set?.[i] ?? null, granted: granted?.[i] ?? 0 })!,
      );
    },
  });
  return { amount: (name, written) => lookups.run({ name, written }) };
}
