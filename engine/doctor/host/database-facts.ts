import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type pg from 'pg';
import { printableLine } from '../../kit/text/printable.ts';
import { migrationState, migrations } from '../../store/migrate.ts';
import { missingRights, readStanding } from '../../store/rights.ts';
import type { Machine } from './machine.ts';

/** A session that does something for long; `who` is its application, user and process id. */
export interface LongSession {
  readonly seconds: number;
  readonly who: string;
}

/** What a database says of itself. */
export interface DatabaseFacts {
  /** Major version. */
  readonly version: number;
  readonly is_standby: boolean;
  readonly is_read_only: boolean;
  /** In which tables are made; `null` where there is none. */
  readonly schema: string | null;
  readonly user: string;
  readonly may_migrate: boolean;
  /** Of the tables; `null` before there are any. */
  readonly owner: string | null;
  readonly is_migrated: boolean;
  /** Rights that a gateway needs and this role lacks; none before the tables are those of this program. */
  readonly missing_rights: readonly string[];
  /** Connections that programs can have, how many there are, and which setting limits them. */
  readonly usable: number;
  readonly in_use: number;
  readonly limited_by: string;
  /** Process id that the connection was told at its begin, and those that served it since. */
  readonly session: number | undefined;
  readonly backends: readonly number[];
  readonly is_encrypted: boolean;
  /** Whether the certificate of the server was checked. */
  readonly is_checked: boolean;
  readonly is_local: boolean;
  readonly longest_idle: LongSession;
  readonly longest_transaction: LongSession;
  readonly blocked: LongSession;
  /** Whether the sessions of other users can be seen, too. */
  readonly sees_all: boolean;
  readonly bytes: number;
  /** Monthly tables of the ledger from this month on. */
  readonly months_ahead: number;
  /** How far its clock is ahead of the one here. */
  readonly ahead_ms: number | undefined;
  readonly database_id: string | undefined;
}

const SETTINGS = `
select current_setting('server_version_num')::integer / 10000 as version, pg_is_in_recovery() as is_standby,
  coalesce((select reset_val = 'on' from pg_settings where name = 'default_transaction_read_only'), false) as is_read_only,
  pg_has_role('pg_read_all_stats', 'usage') or (select rolsuper from pg_roles where rolname = current_user) as sees_all,
  pg_database_size(current_database())::float8 as bytes,
  current_setting('max_connections')::integer as max_connections,
  current_setting('superuser_reserved_connections')::integer
    + coalesce(current_setting('reserved_connections', true)::integer, 0) as reserved,
  (select datconnlimit from pg_database where datname = current_database()) as database_limit,
  (select rolconnlimit from pg_roles where rolname = current_user) as user_limit,
  coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as is_encrypted`;

/** Backends alone use up connections; the session that asks is not counted. */
const CONNECTIONS = `
select count(*)::integer as all, count(*) filter (where datname = current_database())::integer as of_database,
  count(*) filter (where usename = current_user)::integer as of_user
from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`;

const SESSIONS = `
select pid, coalesce(application_name, '') as application, coalesce(usename, '')::text as "user", state,
  extract(epoch from clock_timestamp() - state_change)::float8 as in_state,
  extract(epoch from clock_timestamp() - xact_start)::float8 as in_transaction,
  extract(epoch from clock_timestamp() - query_start)::float8 as in_query, wait_event_type = 'Lock' as is_blocked
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
  and backend_type in ('client backend', 'parallel worker')
order by xact_start limit 1000`;

const MONTHS = `
select count(*)::integer as months from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = to_regclass('ledger')
  and right(c.relname, 7) >= to_char(now() at time zone 'UTC', 'YYYY_MM') and c.relname ~ '^ledger_[0-9]{4}_[0-9]{2}$'`;

interface Settings
  extends Pick<DatabaseFacts, 'version' | 'is_standby' | 'is_read_only' | 'sees_all' | 'bytes' | 'is_encrypted'> {
  readonly max_connections: number;
  readonly reserved: number;
  readonly database_limit: number;
  readonly user_limit: number;
}

interface Session {
  readonly pid: number;
  readonly application: string;
  readonly user: string;
  readonly state: string | null;
  readonly in_state: number | null;
  readonly in_transaction: number | null;
  readonly in_query: number | null;
  readonly is_blocked: boolean | null;
}

const LOOKS_AT_BACKEND = 4;

/** Reads what a database says of itself, over a connection that can only read. */
export async function readDatabaseFacts(client: pg.Client, machine: Machine): Promise<DatabaseFacts> {
  const rowsOf = async <Row extends object>(text: string) => (await client.query<Row>(text)).rows;
  const [settings] = (await rowsOf<Settings>(SETTINGS)) as [Settings];
  const [counts] = (await rowsOf<{ all: number; of_database: number; of_user: number }>(CONNECTIONS)) as [
    { all: number; of_database: number; of_user: number },
  ];
  const { applied, unknown } = await migrationState((text) => client.query<{ name: string }>(text));
  const is_migrated = applied === migrations.length && unknown.length === 0;
  const standing = await readStanding((text) => client.query(text));
  const missing_rights = is_migrated ? await missingRights((text) => client.query(text)) : [];
  const sessions = await rowsOf<Session>(SESSIONS);
  const [month] = await rowsOf<{ months: number }>(MONTHS);
  const backends: number[] = [];
  for (let look = 0; look < LOOKS_AT_BACKEND; look++) {
    backends.push(...(await rowsOf<{ pid: number }>('select pg_backend_pid() as pid')).map(({ pid }) => pid));
  }
  const [identity] =
    is_migrated && !missing_rights.includes('select on database_identity')
      ? await rowsOf<{ id: string }>('select id::text from database_identity')
      : [];
  return {
    ...settings,
    is_migrated,
    ...standing,
    missing_rights,
    ...connectionsOf(settings, counts),
    session: (client as { readonly processID?: number | null }).processID ?? undefined,
    backends,
    is_local: isLocal(client.host),
    is_checked: checksCertificate(client),
    longest_idle: longest(sessions, ({ state, in_state }) =>
      /^idle in transaction/.test(state ?? '') ? in_state : null,
    ),
    longest_transaction: longest(sessions, ({ in_transaction }) => in_transaction),
    blocked: longest(sessions, ({ is_blocked, in_query }) => (is_blocked ? in_query : null)),
    months_ahead: month?.months ?? 0,
    ahead_ms: await clockAhead(client, machine),
    database_id: identity?.id,
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

function checksCertificate({ ssl }: { readonly ssl: unknown }): boolean {
  return typeof ssl === 'object' && ssl !== null && (ssl as ConnectionOptions).rejectUnauthorized === true;
}

/** A socket in a directory, or this machine's own address. */
function isLocal(host: string): boolean {
  return (
    host.startsWith('/') || host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
  );
}

const WORD_MAX = 40;

function longest(sessions: readonly Session[], secondsOf: (session: Session) => number | null): LongSession {
  let found: LongSession = { seconds: 0, who: '' };
  for (const session of sessions) {
    const seconds = secondsOf(session) ?? 0;
    if (seconds <= found.seconds) continue;
    const word = (text: string) => printableLine(text).slice(0, WORD_MAX);
    found = {
      seconds,
      who: `${word(session.application) || 'a program'} (user ${word(session.user)}, process ${session.pid})`,
    };
  }
  return found;
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
