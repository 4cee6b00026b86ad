import { LRUCache } from 'lru-cache';
import type { Clock, EffectivePolicy, Log } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { atMost } from '../../kit/memory.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { Database } from '../../store/database.ts';

/** Which managed settings clients have asked for, so that people can look it up. */
export interface PolicyFetches {
  /** Notes that a client of somebody has these settings now. */
  note(principal_id: string, policy: Pick<EffectivePolicy, 'names' | 'checksum'>): void;
}

interface Fetch {
  readonly at: number;
  readonly checksum: string;
  readonly names: readonly string[];
}

const INTERVAL_MS = 2000;
const CLOSE_PATIENCE_MS = 500;
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
  const { database, clock, log, every = everyInBackground } = options;
  const known = new LRUCache<string, Fetch>(atMost(MAX_NOTED));
  let noted = new Map<string, Fetch>();
  let writing: Promise<void> | undefined;

  const write = async () => {
    const taken = noted;
    noted = new Map();
    try {
      await writeFetches(database, taken);
    } catch (error) {
      log.debug({ err: error }, 'who asked for managed settings is written down later');
      for (const [principal_id, fetch] of taken) if (!noted.has(principal_id)) noted.set(principal_id, fetch);
    }
  };
  const flush = async () => {
    await writing;
    if (noted.size === 0) return;
    writing ??= write().finally(() => {
      writing = undefined;
    });
    await writing;
  };
  const stop = every(INTERVAL_MS, () => {
    if (writing === undefined) void flush();
  });

  return {
    note(principal_id: string, { checksum, names }: Pick<EffectivePolicy, 'names' | 'checksum'>) {
      const at = clock.now();
      const before = known.get(principal_id);
      if (before?.checksum === checksum && at - before.at < AGAIN_MS) return;
      if (noted.size >= MAX_NOTED && !noted.has(principal_id)) return;
      const fetch = { at, checksum, names };
      known.set(principal_id, fetch);
      noted.set(principal_id, fetch);
    },
    /** Writes down what is noted. A timer calls it; so may a test. Never rejects. */
    flush,
    async close() {
      stop();
      await waitAtMost(CLOSE_PATIENCE_MS, flush());
    },
  };
}

async function writeFetches(database: Pick<Database, 'query'>, fetches: ReadonlyMap<string, Fetch>): Promise<void> {
  const rows = [...fetches].map(([principal_id, { at, checksum, names }]) => {
    return { principal_id, fetched_at: new Date(at), checksum, policies: names };
  });
  await database.query(
    'policy_fetches_write',
    // Locked in one order: other replicas write down the same ones. Whoever is known from a disk alone has no row to refer to.
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
