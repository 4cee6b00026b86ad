import type pg from 'pg';
import { secretIn, secretPlace } from '../../kit/secret-names.ts';
import { migrationState, migrations, OLDEST_POSTGRES } from '../../store/migrate.ts';
import {
  grantHelp,
  listRights,
  migrateHelp,
  missingRights,
  readStanding,
  type Standing,
  schemaHelp,
} from '../../store/rights.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type Host, placeOf } from './host.ts';
import { diagnosisOf } from './live/as-diagnosis.ts';
import { examine, lookIntoDatabase } from './live/database.ts';
import type { LiveOutcome } from './live/live-check.ts';
import type { Machine } from './machine.ts';

/** What was found of the database, and how far its clock is from the one here, in milliseconds: its own is that much ahead. */
export interface FoundDatabase {
  readonly diagnoses: readonly Diagnosis[];
  readonly ahead_ms: number | undefined;
}

interface Looked {
  readonly reach: LiveOutcome;
  readonly facts: DatabaseFacts;
}

/** Looks at the database over one connection that can only read; starts nothing and waits for no lock. */
export async function examineDatabase(host: Host): Promise<FoundDatabase> {
  const { config, env, timeout_seconds } = host;
  const where = placeOf(host, '/database');
  const base = { id: 'database.reach', title: 'database', where };
  const url_env = config.database.postgres?.url_env;
  if (url_env !== undefined && (secretIn(url_env, env) ?? '') === '') {
    const found = `${secretPlace(url_env)} is not set here, so it can't be asked`;
    return { diagnoses: [{ ...base, verdict: 'skipped', found }], ahead_ms: undefined };
  }
  const looked = await lookIntoDatabase(
    { config, env, timeout_seconds },
    async (client: pg.Client): Promise<Looked> => {
      // One after the other: the connection takes one statement at a time.
      const reach = await examine(client, undefined);
      return { reach, facts: await readDatabaseFacts(client, host.machine) };
    },
  );
  if (!('facts' in looked)) {
    return { diagnoses: [diagnosisOf(base, looked)], ahead_ms: undefined };
  }
  const { reach, facts } = looked;
  return {
    diagnoses: [diagnosisOf(base, reach), ...judgeDatabase(facts, host)].map((found) => ({ where, ...found })),
    ahead_ms: facts.ahead_ms,
  };
}

const JUDGES = [judgeVersion, judgeWritable, judgeRights, judgeConnections] as const;

/** What follows from what a database says of itself. */
export function judgeDatabase(facts: DatabaseFacts, host: Pick<Host, 'config' | 'running'>): Diagnosis[] {
  return JUDGES.flatMap((judge) => judge(facts, host) ?? []);
}

function judgeVersion({ version }: DatabaseFacts): Diagnosis | undefined {
  if (version >= OLDEST_POSTGRES) return undefined;
  return {
    ...{ id: 'database.version', title: 'version of PostgreSQL', verdict: 'failed' },
    found: `${version}: the gateway needs ${OLDEST_POSTGRES} or later`,
    remedy: 'upgrade the server to a version that is still maintained',
  };
}

function judgeWritable({ is_standby, is_read_only }: DatabaseFacts): Diagnosis {
  const base = { id: 'database.writable', title: 'database can be written to' };
  if (is_standby) {
    return {
      ...base,
      verdict: 'failed',
      found: 'it is a standby, which only reads',
      remedy: 'name the primary server in the URL, or an address that follows it',
    };
  }
  if (is_read_only) {
    return {
      ...base,
      verdict: 'failed',
      found: 'transactions are read-only by default (default_transaction_read_only)',
      remedy:
        'find out who set it, often because the disk ran full; then: alter database ... reset default_transaction_read_only',
    };
  }
  return { ...base, verdict: 'ok', found: 'it is a primary server, and takes writes' };
}

function judgeRights(facts: DatabaseFacts): Diagnosis {
  const { schema, user, owner, may_migrate, is_migrated, missing_rights } = facts;
  const base = { id: 'database.rights', title: 'rights in the database' };
  if (schema === null) {
    const found = `${user} has no schema to make tables in (search_path)`;
    return { ...base, verdict: 'failed', found, remedy: schemaHelp(facts) };
  }
  if (missing_rights.length > 0) {
    const remedy = grantHelp(missing_rights, user);
    return { ...base, verdict: 'failed', found: `${user} lacks ${listRights(missing_rights)}`, remedy };
  }
  if (may_migrate) return { ...base, verdict: 'ok', found: `${user} may migrate and run in the schema ${schema}` };
  if (is_migrated) {
    return { ...base, verdict: 'ok', found: `${user} may run a gateway in the schema ${schema}; ${owner} migrates it` };
  }
  const found = `${user} may not migrate the schema ${schema}, which is not that of this version`;
  return { ...base, verdict: 'failed', found, remedy: migrateHelp(facts) };
}

const NEARLY_ALL = 0.9;

function judgeConnections(
  facts: DatabaseFacts,
  { config, running }: Pick<Host, 'config' | 'running'>,
): Diagnosis | undefined {
  const each = config.database.postgres?.pool_max;
  // The embedded one is set up for the gateway that owns it.
  if (each === undefined) return undefined;
  const base = { id: 'database.connections', title: 'connections of the database' };
  const { usable, in_use, limited_by } = facts;
  const processes = Math.floor(usable / each);
  const found = `${in_use} of ${usable} in use (${limited_by}); a gateway process opens up to ${each} (pool_max), so there is room for ${processes} of them`;
  const remedy = `raise ${limited_by}, lower database.postgres.pool_max, or have fewer processes; all processes and programs together must stay below it`;
  if (usable < each) return { ...base, verdict: 'failed', found, remedy };
  const is_tight = in_use >= usable * NEARLY_ALL || (running === undefined && usable - in_use < each);
  if (is_tight || processes < 2) {
    const why = processes < 2 && !is_tight ? `${found}: during an upgrade two run at once` : found;
    return { ...base, verdict: 'warning', found: why, remedy };
  }
  return { ...base, verdict: 'ok', found };
}

/** What a database says of itself. */
export interface DatabaseFacts extends Standing {
  /** Major version. */
  readonly version: number;
  readonly is_standby: boolean;
  readonly is_read_only: boolean;
  readonly is_migrated: boolean;
  /** Rights that a gateway needs and this role lacks; none before the tables are those of this program. */
  readonly missing_rights: readonly string[];
  /** Connections that programs can have, how many there are, and which setting limits them. */
  readonly usable: number;
  readonly in_use: number;
  readonly limited_by: string;
  /** How far its clock is ahead of the one here. */
  readonly ahead_ms: number | undefined;
}

const SETTINGS = `
select current_setting('server_version_num')::integer / 10000 as version, pg_is_in_recovery() as is_standby,
  coalesce((select reset_val = 'on' from pg_settings where name = 'default_transaction_read_only'), false) as is_read_only,
  current_setting('max_connections')::integer as max_connections,
  current_setting('superuser_reserved_connections')::integer
    + coalesce(current_setting('reserved_connections', true)::integer, 0) as reserved,
  (select datconnlimit from pg_database where datname = current_database()) as database_limit,
  (select rolconnlimit from pg_roles where rolname = current_user) as user_limit`;

/** Backends alone use up connections; the session that asks is not counted. */
const CONNECTIONS = `
select count(*)::integer as all, count(*) filter (where datname = current_database())::integer as of_database,
  count(*) filter (where usename = current_user)::integer as of_user
from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`;

interface Settings extends Pick<DatabaseFacts, 'version' | 'is_standby' | 'is_read_only'> {
  readonly max_connections: number;
  readonly reserved: number;
  readonly database_limit: number;
  readonly user_limit: number;
}

/** Reads what a database says of itself, over a connection that can only read. */
async function readDatabaseFacts(client: pg.Client, machine: Machine): Promise<DatabaseFacts> {
  const rowsOf = async <Row extends object>(text: string) => (await client.query<Row>(text)).rows;
  const [settings] = (await rowsOf<Settings>(SETTINGS)) as [Settings];
  const [counts] = (await rowsOf<{ all: number; of_database: number; of_user: number }>(CONNECTIONS)) as [
    { all: number; of_database: number; of_user: number },
  ];
  const { applied, unknown } = await migrationState((text) => client.query<{ name: string }>(text));
  const is_migrated = applied === migrations.length && unknown.length === 0;
  const run = <Row extends object>(text: string) => client.query<Row>(text);
  const standing = await readStanding(run);
  const missing_rights = is_migrated ? await missingRights(run) : [];
  return {
    ...settings,
    is_migrated,
    ...standing,
    missing_rights,
    ...connectionsOf(settings, counts),
    ahead_ms: await clockAhead(client, machine),
  };
}

function connectionsOf(
  { max_connections, reserved, database_limit, user_limit }: Settings,
  { all, of_database, of_user }: { readonly all: number; readonly of_database: number; readonly of_user: number },
): Pick<DatabaseFacts, 'usable' | 'in_use' | 'limited_by'> {
  const limits = [
    { usable: max_connections - reserved, in_use: all, limited_by: 'max_connections' },
    { usable: database_limit, in_use: of_database, limited_by: 'the connection limit of the database' },
    { usable: user_limit, in_use: of_user, limited_by: 'the connection limit of the user' },
  ];
  // A negative limit is none.
  const set = limits.filter(({ usable }) => usable >= 0);
  return set.reduce((least, limit) => (limit.usable - limit.in_use < least.usable - least.in_use ? limit : least));
}

const SAMPLES = 3;

/** The sample with the shortest way there and back says most. */
async function clockAhead(client: pg.Client, machine: Machine): Promise<number | undefined> {
  let best: { readonly took_ms: number; readonly ahead_ms: number } | undefined;
  for (let sample = 0; sample < SAMPLES; sample++) {
    const [asked_at, asked] = [machine.now(), performance.now()];
    const { rows } = await client.query<{ at: number }>(
      'select extract(epoch from clock_timestamp())::float8 * 1000 as at',
    );
    const took_ms = performance.now() - asked;
    const ahead_ms = Number(rows[0]?.at) - (asked_at + took_ms / 2);
    if (best === undefined || took_ms < best.took_ms) best = { took_ms, ahead_ms };
  }
  return best === undefined || Number.isNaN(best.ahead_ms) ? undefined : best.ahead_ms;
}
