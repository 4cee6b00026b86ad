import { readFileSync } from 'node:fs';
import pg from 'pg';
import type { GatewayConfig } from '../../../contract/config.ts';
import { StartError } from '../../../contract/start-error.ts';
import { secretPlace } from '../../../kit/secret-names.ts';
import { findServer } from '../../../store/database-server.ts';
import { DATABASE, USER } from '../../../store/embedded/postgres-cluster.ts';
import { findExistingHome } from '../../../store/embedded/postgres-home.ts';
import { readServerState } from '../../../store/embedded/postgres-process.ts';
import { migrationState, migrations, NEWER_SCHEMA_REMEDY } from '../../../store/migrate.ts';
import { describeTrouble } from '../../../store/postgres-client.ts';
import { clientConfig, type PostgresSettings } from '../../../store/postgres-connection.ts';
import {
  grantHelp,
  listRights,
  migrateHelp,
  missingRights,
  ROLES_SQL,
  readStanding,
  type Standing,
  schemaHelp,
} from '../../../store/rights.ts';
import { listForeignSpools } from '../../../store/spool/spool-names.ts';
import type { LiveOutcome } from './live-check.ts';

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** SQLSTATE of a right that is missing. */
const FORBIDDEN = '42501';

/** What is done with a connection that only reads; its outcome is told as it is. */
export type LookInto<T> = (client: pg.Client) => Promise<T>;

/**
 * Connects to the database of a configuration and reads its version and schema; changes nothing and starts nothing.
 */
export function checkDatabase(
  config: GatewayConfig,
  env: NodeJS.ProcessEnv,
  timeout_seconds: number,
): Promise<LiveOutcome> {
  return lookIntoDatabase({ config, env, timeout_seconds }, (client) =>
    examine(client, config.spend_limits?.spool_dir),
  );
}

/** Looks into the database of a configuration over a connection that can only read; says why it can't be reached otherwise. */
export async function lookIntoDatabase<T>(
  given: { readonly config: GatewayConfig; readonly env: NodeJS.ProcessEnv; readonly timeout_seconds: number },
  look: LookInto<T>,
): Promise<T | LiveOutcome> {
  const { config, env, timeout_seconds } = given;
  const { postgres, embedded } = config.database;
  if (postgres === undefined) return lookIntoEmbedded(embedded?.data_dir ?? '', timeout_seconds, look);
  let settings: PostgresSettings;
  try {
    settings = (await findServer({ config, env, log: SILENT, supervise: false })).settings();
  } catch (error) {
    const what = error instanceof StartError ? error.message : 'its URL cannot be used';
    return { ok: false, what, help: `correct the URL in ${secretPlace(postgres.url_env)}` };
  }
  return connected(
    settings,
    timeout_seconds,
    `start the server, or correct the URL in ${secretPlace(postgres.url_env)}`,
    look,
  );
}

async function lookIntoEmbedded<T>(
  data_dir: string,
  timeout_seconds: number,
  look: LookInto<T>,
): Promise<T | LiveOutcome> {
  const home = findExistingHome(data_dir);
  const state = home === undefined ? undefined : readServerState(home.cluster);
  if (home === undefined || state === undefined) {
    return { ok: true, what: 'embedded PostgreSQL, made when the gateway first starts' };
  }
  if (state.kind !== 'running' || !state.ready) {
    return { ok: true, what: 'embedded PostgreSQL, not running; it starts with the gateway' };
  }
  let password: string;
  try {
    password = readFileSync(home.password_file, 'utf8').trim();
  } catch {
    return { ok: false, what: 'its password cannot be read', help: `run this as the owner of ${home.directory}` };
  }
  const settings = { host: '127.0.0.1', port: state.port, user: USER, database: DATABASE, password };
  return connected(settings, timeout_seconds, `see ${home.log_file}`, look);
}

async function connected<T>(
  settings: PostgresSettings,
  timeout_seconds: number,
  remedy: string,
  look: LookInto<T>,
): Promise<T | LiveOutcome> {
  const limit_ms = timeout_seconds * 1000;
  const timeouts = { connectionTimeoutMillis: limit_ms, query_timeout: limit_ms };
  const client = new pg.Client(clientConfig({ application_name: 'appscli check', ...settings, ...timeouts }));
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('set default_transaction_read_only = on');
    return await look(client);
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === FORBIDDEN) {
      const what = 'this user may not read the tables of the gateway, which another one made';
      return {
        ok: false,
        what,
        help: `run the SQL of ${ROLES_SQL} as the owner of the tables, or name that one in the URL`,
      };
    }
    return { ok: false, what: describeTrouble(error), help: remedy };
  } finally {
    // A server that does not answer would not answer this either.
    void client.end().catch(() => {});
  }
}

/** Its version, and whether it has the tables of this program. */
export async function examine(client: pg.Client, spool_dir: string | undefined): Promise<LiveOutcome> {
  const { rows } = await client.query<{ version: string }>("select current_setting('server_version') as version");
  const { version = '' } = rows[0] ?? {};
  const standing = await readStanding((text) => client.query(text));
  const { applied, unknown } = await migrationState((text) => client.query<{ name: string }>(text));
  const { host, port, database } = client;
  const location = `${host}:${port}/${database}`;
  const is_complete = applied === migrations.length && unknown.length === 0;
  const missing = is_complete ? await missingRights((text) => client.query(text)) : [];
  const outcome = judge(`PostgreSQL ${version.split(' ')[0]}`, location, { applied, unknown, standing, missing });
  if (spool_dir === undefined || !outcome.ok || applied < migrations.length) return outcome;
  return { ...outcome, warnings: await foreignSpools(client, spool_dir) };
}

/** What is told of files that no gateway of this database writes to it. */
async function foreignSpools(client: pg.Client, spool_dir: string): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>('select id from database_identity');
  const { id = '' } = rows[0] ?? {};
  try {
    return (await listForeignSpools(spool_dir, id)).map(
      ({ name, database_id }) =>
        `the spool file ${name} in ${spool_dir} belongs to the database ${database_id}, so it stays there until a gateway of that one takes it; this one is ${id}`,
    );
  } catch (error) {
    return [`the spool directory ${spool_dir} cannot be read (${(error as NodeJS.ErrnoException).code})`];
  }
}

function judge(
  server: string,
  location: string,
  found: {
    readonly applied: number;
    readonly unknown: readonly string[];
    readonly standing: Standing;
    readonly missing: readonly string[];
  },
): LiveOutcome {
  const { applied, unknown, standing, missing } = found;
  const { user, schema, may_migrate } = standing;
  const total = migrations.length;
  if (unknown.length > 0) {
    return {
      ok: false,
      what: `${server} at ${location}, migrated by a newer version of this program`,
      help: `this one does not know ${unknown.join(', ')}: ${NEWER_SCHEMA_REMEDY}`,
    };
  }
  if (schema === null) {
    return {
      ok: false,
      what: `${server}, but ${user} may use no schema of its search path`,
      help: schemaHelp(standing),
    };
  }
  if (missing.length > 0) {
    return { ok: false, what: `${server}, but ${user} lacks ${listRights(missing)}`, help: grantHelp(missing, user) };
  }
  if (applied === total) return { ok: true, what: `${server}, schema up to date` };
  const done = applied === 0 ? 'no tables yet' : `${applied} of ${total} migrations`;
  if (!may_migrate) {
    const what = `${server}, ${done}, and ${user} may not migrate`;
    return { ok: false, what, help: migrateHelp(standing) };
  }
  return { ok: true, what: `${server}, ${done}; the gateway does the rest when it starts` };
}
