import { readFileSync } from 'node:fs';
import pg from 'pg';
import { failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { secretIn, secretPlace } from '../../../base/kit/secret-names.ts';
import { findServer } from '../../../base/store/database.ts';
import { DATABASE, findExistingHome, readServerState, USER } from '../../../base/store/embedded-postgres.ts';
import {
  migrationState,
  migrations,
  missingRights,
  OLDEST_POSTGRES,
  ROLES_SQL,
  readDatabaseRole,
  roleProblem,
  unknownSchema,
} from '../../../base/store/migrate.ts';
import { clientConfig, describeOutage, type PostgresSettings } from '../../../base/store/postgres-client.ts';
import { listForeignSpools } from '../../../base/store/spool-files.ts';
import type { Diagnosis } from '../workstation.ts';
import { type Host, type Machine, placeOf } from './host.ts';
import { diagnosisOf, type LiveOptions, type LiveOutcome, SILENT, wrong } from './live/probe.ts';

const FORBIDDEN = '42501';

/** Connects to the configured database and reads its version and schema. Read-only; starts no server. */
export function checkDatabase(options: LiveOptions): Promise<LiveOutcome> {
  const { spool_dir } = options.config.spend_limits ?? {};
  return lookIntoDatabase(options, (client) => inspectDatabase(client, spool_dir));
}

async function lookIntoDatabase<T>(
  { config, env, timeout_seconds }: LiveOptions,
  look: (client: pg.Client) => Promise<T>,
): Promise<T | LiveOutcome> {
  const way = await wayToDatabase(config, env);
  if ('ok' in way) return way;
  const limit_ms = timeout_seconds * 1000;
  const timeouts = { connectionTimeoutMillis: limit_ms, query_timeout: limit_ms };
  const client = new pg.Client(clientConfig({ application_name: 'appscli check', ...way.settings, ...timeouts }));
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('set default_transaction_read_only = on');
    return await look(client);
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== FORBIDDEN) return wrong(describeOutage(error), way.remedy);
    return wrong(
      "this user lacks permission to read the gateway's tables, which another role owns",
      `run the SQL of ${ROLES_SQL} as the owner of the tables, or use the owner in the URL`,
    );
  } finally {
    // Not awaited: an unresponsive server would block it.
    void client.end().catch(() => {});
  }
}

async function wayToDatabase(
  config: GatewayConfig,
  env: NodeJS.ProcessEnv,
): Promise<LiveOutcome | { readonly settings: PostgresSettings; readonly remedy: string }> {
  const { postgres, embedded } = config.database;
  if (postgres !== undefined) {
    const correct = `correct the URL in ${secretPlace(postgres.url_env)}`;
    try {
      const server = await findServer({ config, env, log: SILENT, supervise: false });
      return { settings: server.settings(), remedy: `start the server, or ${correct}` };
    } catch (error) {
      return wrong(error instanceof StartError ? error.message : 'its URL cannot be used', correct);
    }
  }
  const home = findExistingHome(embedded?.data_dir ?? '');
  const state = home && readServerState(home.cluster);
  if (home === undefined || state === undefined)
    return { ok: true, what: 'embedded PostgreSQL, created when the gateway first starts' };
  if (state.kind !== 'running' || !state.ready)
    return { ok: true, what: 'embedded PostgreSQL, not running; it starts with the gateway' };
  try {
    const password = readFileSync(home.password_file, 'utf8').trim();
    const settings = { host: '127.0.0.1', port: state.port, user: USER, database: DATABASE, password };
    return { settings, remedy: `see ${home.log_file}` };
  } catch {
    return wrong('cannot read its password', `run this as the owner of ${home.directory}`);
  }
}

async function inspectDatabase(client: pg.Client, spool_dir: string | undefined): Promise<LiveOutcome> {
  const { rows } = await client.query<{ version: string }>("select current_setting('server_version') as version");
  const server = `PostgreSQL ${rows[0]!.version.split(' ')[0]}`;
  const standing = await readDatabaseRole((text) => client.query(text));
  const { applied, unknown } = await migrationState((text) => client.query<{ name: string }>(text));
  if (unknown.length > 0) {
    const { what, remedy } = unknownSchema(unknown);
    return wrong(`${server} at ${client.host}:${client.port}/${client.database}, ${what}`, remedy);
  }
  const is_complete = applied === migrations.length;
  const missing = is_complete ? await missingRights((text) => client.query(text)) : [];
  const problem = roleProblem(standing, { is_complete, missing });
  if (problem !== undefined) return wrong(`${server}, but ${problem.what}`, problem.remedy);
  if (!is_complete) {
    const done = applied === 0 ? 'no tables yet' : `${applied} of ${migrations.length} migrations`;
    return { ok: true, what: `${server}, ${done}; the gateway applies the rest when it starts` };
  }
  const warnings = spool_dir === undefined ? [] : await unknownSpools(client, spool_dir);
  return { ok: true, what: `${server}, schema up to date`, warnings };
}

async function unknownSpools(client: pg.Client, spool_dir: string): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>('select id from database_identity');
  const { id = '' } = rows[0] ?? {};
  try {
    return (await listForeignSpools(spool_dir, id)).map(
      ({ name, database_id }) =>
        `the spool file ${name} in ${spool_dir} belongs to database ${database_id}, and waits for a gateway of that database; this one is ${id}`,
    );
  } catch (error) {
    return [`the spool directory ${spool_dir} cannot be read (${(error as NodeJS.ErrnoException).code})`];
  }
}

export async function diagnoseDatabase(host: Host) {
  const { config, env } = host;
  const where = placeOf(host, '/database');
  const base = { id: 'database.reach', title: 'database', where };
  const url_env = config.database.postgres?.url_env;
  if (url_env !== undefined && (secretIn(url_env, env) ?? '') === '') {
    const found = `cannot connect: ${secretPlace(url_env)} is not set here`;
    return { diagnoses: [skipped(found, base)], ahead_ms: undefined };
  }
  // In sequence: the connection runs one statement at a time.
  const looked = await lookIntoDatabase(host, async (client) => {
    const reach = await inspectDatabase(client, undefined);
    return { reach, facts: await readDatabaseFacts(client, host.machine) };
  });
  if (!('facts' in looked)) return { diagnoses: [diagnosisOf(base, looked)], ahead_ms: undefined };
  const { reach, facts } = looked;
  return {
    diagnoses: [diagnosisOf(base, reach), ...evaluateDatabase(facts, host).map((found) => ({ where, ...found }))],
    ahead_ms: facts.ahead_ms,
  };
}

export function evaluateDatabase(facts: DatabaseFacts, host: Pick<Host, 'config' | 'running'>): Diagnosis[] {
  const { version } = facts;
  const remedy = 'upgrade the server to a version that is still maintained';
  const of_version = { id: 'database.version', title: 'version of PostgreSQL' };
  return [
    ...(version < OLDEST_POSTGRES
      ? [failed(`${version}: the gateway needs ${OLDEST_POSTGRES} or later`, remedy, of_version)]
      : []),
    ...evaluateConnections(facts, host),
  ];
}

const NEARLY_ALL = 0.9;

function evaluateConnections(facts: DatabaseFacts, { config, running }: Pick<Host, 'config' | 'running'>): Diagnosis[] {
  const each = config.database.postgres?.pool_max;
  // The embedded server is sized for its own gateway.
  if (each === undefined) return [];
  const base = { id: 'database.connections', title: 'connections of the database' };
  const { usable, in_use, limited_by } = facts;
  const processes = Math.floor(usable / each);
  const found = `${in_use} of ${usable} in use (${limited_by}); a gateway process opens up to ${each} (pool_max), so ${processes} fit`;
  const remedy = `raise ${limited_by}, lower database.postgres.pool_max, or run fewer processes: all clients together must stay below the limit`;
  if (usable < each) return [failed(found, remedy, base)];
  const is_tight = in_use >= usable * NEARLY_ALL || (running === undefined && usable - in_use < each);
  if (!is_tight && processes >= 2) return [ok(found, base)];
  return [warning(is_tight ? found : `${found}; during an upgrade two run at once`, remedy, base)];
}

export interface DatabaseFacts {
  readonly version: number;
  readonly usable: number;
  readonly in_use: number;
  readonly limited_by: string;
  readonly ahead_ms: number | undefined;
}

/** The limit on connections that is reached first; negative ones mean unlimited. Counts client backends except this one. */
const FACTS = `
with used as (
  select count(*)::integer as all, count(*) filter (where datname = current_database())::integer as of_database,
    count(*) filter (where usename = current_user)::integer as of_user
  from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
), limits (usable, in_use, limited_by) as (
  select current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true)::integer, 0), used.all, 'max_connections' from used
  union all select datconnlimit, of_database, 'the connection limit of the database'
    from pg_database, used where datname = current_database()
  union all select rolconnlimit, of_user, 'the connection limit of the user' from pg_roles, used where rolname = current_user
)
select current_setting('server_version_num')::integer / 10000 as version, usable, in_use, limited_by
from limits where usable >= 0 order by usable - in_use, limited_by limit 1`;

async function readDatabaseFacts(client: pg.Client, machine: Machine): Promise<DatabaseFacts> {
  const { rows } = await client.query<Omit<DatabaseFacts, 'ahead_ms'>>(FACTS);
  return { ...rows[0]!, ahead_ms: await clockAhead(client, machine) };
}

async function clockAhead(client: pg.Client, machine: Machine): Promise<number | undefined> {
  const [started_at, started] = [machine.now(), performance.now()];
  const { rows } = await client.query<{ at: number }>(
    'select extract(epoch from clock_timestamp())::float8 * 1000 as at',
  );
  const ahead_ms = Number(rows[0]?.at) - (started_at + (performance.now() - started) / 2);
  return Number.isNaN(ahead_ms) ? undefined : ahead_ms;
}
