import { LRUCache } from 'lru-cache';
import type { Clock, EffectivePolicy, Log } from '../../base/contract/services.ts';
import type { Every } from '../../base/kit/clock.ts';
import { atMost } from '../../base/kit/memory.ts';
import { openWriteBehind } from '../../base/kit/write-behind.ts';
import type { Policy } from '../../base/source/spec.ts';
import type { Database } from '../../base/store/database.ts';

/** Which managed settings clients have asked for, so that people can look it up. */
export type PolicyFetches = Pick<ReturnType<typeof openPolicyFetches>, 'note'>;

interface Fetch {
  readonly at: number;
  readonly checksum: string;
  readonly names: readonly string[];
}

/** The same settings are noted once in this time: many clients of somebody may start in one minute. */
const AGAIN_MS = 60_000;
/** What is beyond is noted when clients ask the next time. */
const MAX_NOTED = 10_000;

/** Opens the fetches of a process; written within some seconds, later while the database is away. */
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
    when_late: 'who asked for managed settings is written down later',
    log,
    every,
  });
  return {
    ...noted,
    /** Notes that a client of somebody has these settings now. */
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
    // Locked in one order: other replicas write down the same ones.
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

/** Somebody this gateway knows, as far as managed policies go. */
export interface PolicyPersonKnown {
  readonly user: string;
  readonly name: string | null;
  /** Those of the latest sign-in or renewal; none where the person never signed in. */
  readonly groups: readonly string[];
  readonly signed_in_at: Date | null;
  /** When a client of the person asked for managed settings last. */
  readonly fetched_at: Date | null;
  /** Of the settings that it has since. */
  readonly fetched_checksum: string | null;
}

const COLUMNS = 'p.email as user, p.name, p.groups, p.signed_in_at, f.fetched_at, f.checksum as fetched_checksum';
const PEOPLE = 'principals p left join policy_fetches f on f.principal_id = p.id';
const DOMAIN = "lower(split_part(p.email, '@', -1))";

/** One person; `undefined` for somebody unknown. Raises store_unavailable. */
export async function policyPerson(
  database: Pick<Database, 'query'>,
  user: string,
): Promise<PolicyPersonKnown | undefined> {
  const text = `select ${COLUMNS} from ${PEOPLE} where p.id = $1`;
  const [row] = await database.query<PolicyPersonKnown>('policy_person_known', text, [`user:${user}`]);
  return row;
}

/**
 * People by e-mail address.
 * @param only `for`: only those whom one of its lists fits; `after`: those beyond an address. Raises store_unavailable.
 */
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

/** How many people each of several lists fits, in their order, and how many there are. Raises store_unavailable. */
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
