import { LRUCache } from 'lru-cache';
import type { Clock, EffectivePolicy, Log } from '../../base/contract/services.ts';
import type { Every } from '../../base/kit/clock.ts';
import { atMost } from '../../base/kit/memory.ts';
import { openWriteBehind } from '../../base/kit/write-behind.ts';
import type { Policy } from '../../base/source/spec.ts';
import type { Database } from '../../base/store/database.ts';

interface Fetch {
  readonly at: number;
  readonly checksum: string;
  readonly names: readonly string[];
}

/** Interval in which the same settings of a person are recorded once. */
const AGAIN_MS = 60_000;
/** Bound of the queue; the rest is recorded with the next fetch. */
const MAX_NOTED = 10_000;

/** Opens the record of which managed settings clients fetched, for administrators: write-behind within seconds, later during a database outage. */
export function openPolicyFetches(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  readonly every?: Every;
}) {
  const { database, clock, log, every } = options;
  const known = new LRUCache<string, Fetch>(atMost(MAX_NOTED));
  const noted = openWriteBehind<Fetch>({
    write: (fetches) => writeFetches(database, fetches),
    interval_ms: 2000,
    max: MAX_NOTED,
    when_late: 'could not record fetches of managed settings yet',
    log,
    every,
  });
  return {
    ...noted,
    note(principal_id: string, { checksum, names }: Pick<EffectivePolicy, 'names' | 'checksum'>) {
      const at = clock.now();
      const before = known.get(principal_id);
      if (before?.checksum === checksum && at - before.at < AGAIN_MS) return;
      const fetch = { at, checksum, names };
      known.set(principal_id, fetch);
      noted.note(principal_id, fetch);
    },
  };
}

async function writeFetches(database: Pick<Database, 'query'>, fetches: ReadonlyMap<string, Fetch>): Promise<void> {
  const rows = [...fetches].map(([principal_id, { at, checksum, names }]) => {
    return { principal_id, fetched_at: new Date(at), checksum, policies: names };
  });
  await database.query(
    'policy_fetches_write',
    // Locks in a fixed order: other replicas write the same rows.
    `insert into policy_fetches as kept (principal_id, fetched_at, checksum, policies)
     select f.principal_id, f.fetched_at, f.checksum, f.policies
     from jsonb_to_recordset($1) as f (principal_id text, fetched_at timestamptz, checksum text, policies text[])
     join principals p on p.id = f.principal_id order by f.principal_id
     on conflict (principal_id) do update
       set fetched_at = excluded.fetched_at, checksum = excluded.checksum, policies = excluded.policies
       where kept.fetched_at < excluded.fetched_at`,
    [JSON.stringify(rows)],
  );
}

/** A known person, with their managed settings. */
export interface PolicyPersonKnown {
  readonly user: string;
  readonly name: string | null;
  /** Groups of the latest sign-in or renewal; empty before the first sign-in. */
  readonly groups: readonly string[];
  readonly signed_in_at: Date | null;
  /** Last fetch of managed settings by a client of the person. */
  readonly fetched_at: Date | null;
  /** Checksum of these settings. */
  readonly fetched_checksum: string | null;
}

const COLUMNS = 'p.email as user, p.name, p.groups, p.signed_in_at, f.fetched_at, f.checksum as fetched_checksum';
const PEOPLE = 'principals p left join policy_fetches f on f.principal_id = p.id';
const DOMAIN = "lower(split_part(p.email, '@', -1))";

/** A person; `undefined` if unknown. Raises store_unavailable. */
export async function policyPerson(
  database: Pick<Database, 'query'>,
  user: string,
): Promise<PolicyPersonKnown | undefined> {
  const text = `select ${COLUMNS} from ${PEOPLE} where p.id = $1`;
  const [row] = await database.query<PolicyPersonKnown>('policy_person_known', text, [`user:${user}`]);
  return row;
}

/** People by e-mail address, those who match a list of `for`, after an address. Raises store_unavailable. */
export function listPolicyPeople(
  database: Pick<Database, 'query'>,
  only: { readonly for?: Policy['match']; readonly user?: string; readonly after?: string; readonly limit: number },
): Promise<PolicyPersonKnown[]> {
  return database.query<PolicyPersonKnown>(
    'policy_people',
    `select ${COLUMNS} from ${PEOPLE}
     where p.id like 'user:%' and ($1::text[] is null or p.groups && $1 or ${DOMAIN} = any ($2::text[]))
       and ($3::text is null or p.email > $3) and ($4::text is null or p.email = $4)
     order by p.email limit $5`,
    [only.for?.groups ?? null, only.for?.email_domains ?? null, only.after ?? null, only.user ?? null, only.limit],
  );
}

/** Counts the people who match each list, and all people. Raises store_unavailable. */
export async function countPolicyPeople(
  database: Pick<Database, 'query'>,
  matches: readonly Policy['match'][],
): Promise<{ readonly all: number; readonly fitting: readonly number[] }> {
  const rows = await database.query<{ n: number | null; people: number }>(
    'policy_people_counts',
    `select null::int as n, count(*)::int as people from principals p where p.id like 'user:%'
     union all
     select m.n, count(p.id)::int
     from rows from (jsonb_to_recordset($1) as (groups text[], email_domains text[])) with ordinality as m (groups, email_domains, n)
     left join principals p on p.id like 'user:%' and (p.groups && m.groups or ${DOMAIN} = any (m.email_domains))
     group by m.n`,
    [JSON.stringify(matches)],
  );
  const countOf = (n: number | null) => rows.find((row) => row.n === n)?.people ?? 0;
  return { all: countOf(null), fitting: matches.map((_, index) => countOf(index + 1)) };
}
