import type pg from 'pg';
import { secretIn, secretPlace } from '../../kit/secret-names.ts';
import { OLDEST_POSTGRES } from '../../store/migrate.ts';
import { grantHelp, listRights, migrateHelp, schemaHelp } from '../../store/rights.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type DatabaseFacts, readDatabaseFacts } from './database-facts.ts';
import { type Host, placeOf } from './host.ts';
import { diagnosisOf } from './live/as-diagnosis.ts';
import { examine, lookIntoDatabase } from './live/database.ts';
import type { LiveOutcome } from './live/live-check.ts';
import { sizeText, spanText } from './sizes.ts';

/** What was found of the database, and how far its clock is from the one here, in milliseconds: its own is that much ahead. */
export interface FoundDatabase {
  readonly diagnoses: readonly Diagnosis[];
  readonly ahead_ms: number | undefined;
  /** Which database it is, as spool files name it. */
  readonly database_id: string | undefined;
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
    return { diagnoses: [{ ...base, verdict: 'skipped', found }], ahead_ms: undefined, database_id: undefined };
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
    return { diagnoses: [diagnosisOf(base, looked)], ahead_ms: undefined, database_id: undefined };
  }
  const { reach, facts } = looked;
  return {
    diagnoses: [diagnosisOf(base, reach), ...judgeDatabase(facts, host)].map((found) => ({ where, ...found })),
    ahead_ms: facts.ahead_ms,
    database_id: facts.database_id,
  };
}

const JUDGES = [
  judgeVersion,
  judgeWritable,
  judgeRights,
  judgeConnections,
  judgePooler,
  judgeEncryption,
  judgeActivity,
  judgeSize,
] as const;

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

function judgePooler({ session, backends }: DatabaseFacts): Diagnosis | undefined {
  const base = { id: 'database.pooler', title: 'a connection pooler in front of the database' };
  if (new Set(backends).size > 1) {
    return {
      ...base,
      verdict: 'failed',
      found:
        'it gives each transaction another connection; LISTEN and prepared statements of the gateway need one that stays',
      remedy:
        'let it pool sessions for this database (PgBouncer: pool_mode = session), or name the server itself in the URL',
    };
  }
  if (session === undefined || backends.length === 0 || backends[0] === session) return undefined;
  return {
    ...base,
    verdict: 'warning',
    found: "there is one; whether it pools sessions or transactions can't be told while few use it",
    remedy: 'make sure that it pools sessions (PgBouncer: pool_mode = session)',
  };
}

function judgeEncryption(
  { is_encrypted, is_checked, is_local }: DatabaseFacts,
  { config }: Pick<Host, 'config'>,
): Diagnosis | undefined {
  const url_env = config.database.postgres?.url_env;
  if (url_env === undefined || is_local) return undefined;
  const base = { id: 'database.encryption', title: 'connection to the database' };
  if (is_encrypted) {
    const unchecked = ', and which server it is is not checked (sslmode=verify-full does)';
    return { ...base, verdict: 'ok', found: `it is encrypted${is_checked ? '' : unchecked}` };
  }
  return {
    ...base,
    verdict: 'warning',
    found: 'it is not encrypted, and the server is another machine',
    remedy: `add ?sslmode=verify-full to the URL in ${secretPlace(url_env)} (and sslrootcert= for an authority of your own)`,
  };
}

const IDLE_SECONDS_MAX = 60;
const TRANSACTION_SECONDS_MAX = 600;
const BLOCKED_SECONDS_MAX = 10;

function judgeActivity({ longest_idle, longest_transaction, blocked, sees_all }: DatabaseFacts): Diagnosis {
  const base = { id: 'database.activity', title: 'transactions in the database' };
  const remedy =
    'find it in pg_stat_activity; end it with pg_terminate_backend(pid) if nobody needs it, and set idle_in_transaction_session_timeout';
  const said = [
    longest_idle.seconds > IDLE_SECONDS_MAX &&
      `one of ${longest_idle.who} has been idle in a transaction for ${spanText(longest_idle.seconds)}, and keeps its locks`,
    longest_transaction.seconds > TRANSACTION_SECONDS_MAX &&
      `one of ${longest_transaction.who} has run for ${spanText(longest_transaction.seconds)}, and keeps old rows from being cleaned up`,
    blocked.seconds > BLOCKED_SECONDS_MAX && `one of ${blocked.who} has waited ${spanText(blocked.seconds)} for a lock`,
  ].filter((text) => text !== false);
  if (said.length > 0) return { ...base, verdict: 'warning', found: said.join('; '), remedy };
  const which = sees_all ? '' : ', as far as this user sees (pg_monitor shows those of other users)';
  return { ...base, verdict: 'ok', found: `none is idle, long or blocked${which}` };
}

function judgeSize({ bytes, months_ahead, is_migrated }: DatabaseFacts): Diagnosis {
  const base = { id: 'database.size', title: 'size of the database' };
  const found = `${sizeText(bytes)}; how much room its disk has only its own machine can tell`;
  if (is_migrated && months_ahead === 0) {
    return {
      ...base,
      verdict: 'warning',
      found: `${found}; the tables of this month are missing, and its rows go into the default partition`,
      remedy: 'the gateway makes them every hour while it runs: its log says why it could not',
    };
  }
  return { ...base, verdict: 'ok', found };
}
