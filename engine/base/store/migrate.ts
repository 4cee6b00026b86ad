import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import pg from 'pg';
import { StartError } from '../contract/start-error.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';
import type { PostgresConnections } from './postgres-client.ts';

const SCHEMA = join(PACKAGE_ROOT, 'engine/base/store/schema');
const readSql = (file: string) => readFileSync(join(SCHEMA, file), 'utf8');

const INITIAL = [
  'identity.sql',
  'windows.sql',
  'money.sql',
  'audit.sql',
  'usage.sql',
  'configuration.sql',
  'database.sql',
];
/** Until the first release these files change: the digest detects databases of other versions. */
const digest = createHash('sha256').update(INITIAL.map(readSql).join()).digest('hex').slice(0, 8);

/** All migrations, in order of their names, with their files in `schema/`. A released migration never changes: add `0002_name.sql`. */
export const migrations: readonly { readonly name: string; readonly files: readonly string[] }[] = [
  { name: `0001_initial_${digest}`, files: INITIAL },
  ...readdirSync(SCHEMA)
    .filter((file) => /^\d{4}_\w+\.sql$/.test(file))
    .toSorted()
    .map((file) => ({ name: basename(file, '.sql'), files: [file] })),
];

/** Oldest supported major version of PostgreSQL. */
export const OLDEST_POSTGRES = 15;

/** Problem and remedy of a database with unknown migrations. */
export function unknownSchema(unknown: readonly string[]): { readonly what: string; readonly remedy: string } {
  if (unknown.some((name) => name.startsWith('0001_'))) {
    return {
      what: 'migrated by another version from before the first release, whose tables this program cannot use',
      remedy: 'use an empty database: set another database.postgres or database.embedded.data_dir',
    };
  }
  return {
    what: `migrated by a newer version of this program (it has ${unknown.join(', ')})`,
    remedy: 'run that version or a later one, or restore a backup from before the upgrade',
  };
}

/** Key of the advisory lock of migrating processes; an arbitrary number that never changes. */
const LOCK_KEY = 7_204_817_101;
const LOCK_TIMEOUT_SECONDS = 60;
/** Timeout of a silent server; longer than the wait for the lock. */
const QUERY_TIMEOUT_SECONDS = 65;
const MIGRATION_TIMEOUT_SECONDS = 3600;
const TABLE = 'schema_migrations';

/**
 * Migrates the schema, each migration in its own transaction, so that its locks end before the next one. Of several processes one
 * migrates and the others wait. For a role that may not migrate, it only checks schema and privileges. Raises StartError if retrying
 * cannot help: the server is too old, the schema is of another version, or a privilege is missing.
 * @param secures whether to reset the privileges if there is nothing to migrate.
 * @returns names of the applied migrations.
 */
export async function migrate(
  connections: PostgresConnections,
  { secures = false }: { readonly secures?: boolean } = {},
): Promise<readonly string[]> {
  const client = new pg.Client({ ...connections.settings(), query_timeout: QUERY_TIMEOUT_SECONDS * 1000 });
  client.on('error', () => {});
  const isComplete = async () => {
    const { applied, unknown } = await migrationState((text) => client.query(text));
    if (unknown.length > 0) {
      const { what, remedy } = unknownSchema(unknown);
      throw new StartError(`it was ${what}; ${remedy}`);
    }
    return applied === migrations.length;
  };
  const applied: string[] = [];
  try {
    await client.connect();
    const standing = await readDatabaseRole((text) => client.query(text));
    if (standing.schema === null || !standing.may_migrate) {
      await assertRights(client, standing, await isComplete());
      return [];
    }
    while (!(await isComplete())) {
      // The lock ends with the transaction, so a killed process cannot leave it behind. Read committed: after waiting for the lock,
      // the next statement must see the migrations of the other process.
      await client.query(
        `begin isolation level read committed; set local statement_timeout = 0; set local lock_timeout = '${LOCK_TIMEOUT_SECONDS}s'`,
      );
      await client.query(`select pg_advisory_xact_lock(${LOCK_KEY})`);
      await assertVersion(client);
      await client.query(
        `create table if not exists ${TABLE} (name text primary key, applied_at timestamptz not null default now())`,
      );
      if (!(await isComplete())) applied.push(await applyNext(client));
      await client.query('commit');
    }
    if (secures && applied.length === 0) await client.query('select secure_schema()');
    return applied;
  } finally {
    await client.end().catch(() => {});
  }
}

async function assertVersion(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ number: number; version: string }>(
    "select current_setting('server_version_num')::integer as number, current_setting('server_version') as version",
  );
  const { number, version } = rows[0]!;
  if (number >= OLDEST_POSTGRES * 10_000) return;
  throw new StartError(`it is PostgreSQL ${version}, but the gateway needs ${OLDEST_POSTGRES} or later; upgrade it`);
}

async function applyNext(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ name: string }>(`select name from ${TABLE}`);
  const { name, files } = migrations.find((step) => !rows.some((row) => row.name === step.name))!;
  for (const file of files) {
    await client.query({ text: readSql(file), query_timeout: MIGRATION_TIMEOUT_SECONDS * 1000 } as pg.QueryConfig);
  }
  await client.query(`insert into ${TABLE} (name) values ($1)`, [name]);
  if (migrations.at(-1)!.name === name) await client.query('select secure_schema()');
  return name;
}

/** Raises StartError if a role that may not migrate cannot run a gateway either. */
async function assertRights(client: pg.Client, standing: DatabaseRole, is_complete: boolean): Promise<void> {
  const missing = is_complete ? await missingRights((text) => client.query(text)) : [];
  const problem = roleProblem(standing, { is_complete, missing });
  if (problem !== undefined) throw new StartError(`${problem.what}; ${problem.remedy}`);
}

/**
 * The migrations of a database. Read-only.
 * @param query runs one statement.
 */
export async function migrationState(
  query: (text: string) => Promise<{ readonly rows: readonly { readonly name: string }[] }>,
): Promise<{ readonly applied: number; readonly unknown: readonly string[] }> {
  const there = await query(`select to_regclass('${TABLE}')::text as name`);
  if (there.rows[0]?.name == null) return { applied: 0, unknown: [] };
  const { rows } = await query(`select name from ${TABLE} order by name`);
  const known = new Set(migrations.map((step) => step.name));
  return {
    applied: rows.filter(({ name }) => known.has(name)).length,
    unknown: rows.map(({ name }) => name).filter((name) => !known.has(name)),
  };
}

// The two roles of a database: one owns the schema and migrates, the other runs gateways.

type RunQuery = <Row extends object>(text: string) => Promise<{ readonly rows: readonly Row[] }>;

interface DatabaseRole {
  readonly user: string;
  /** Current schema; `null` if the search path has no accessible schema. */
  readonly schema: string | null;
  readonly may_migrate: boolean;
  readonly owner: string | null;
}

const STANDING = `
select current_user::text as "user", current_schema()::text as schema,
  coalesce(has_schema_privilege(current_schema(), 'create'), false) and coalesce(pg_has_role(c.relowner, 'usage'), true)
    as may_migrate,
  pg_get_userbyid(c.relowner)::text as owner
from (select) as one left join pg_class c on c.oid = to_regclass('schema_migrations')`;

/** Reads the connected role. Read-only. */
export async function readDatabaseRole(run: RunQuery): Promise<DatabaseRole> {
  const { rows } = await run<DatabaseRole>(STANDING);
  return rows[0]!;
}

const FUNCTIONS = `
select 'execute on function ' || p.oid::regprocedure as missing
from pg_proc p
where p.pronamespace = current_schema()::regnamespace and not has_function_privilege(p.oid, 'execute')
order by 1`;

const TABLES = `
select r.name || ' on ' || case r.name when 'usage' then 'sequence ' else '' end || n.relation as missing
from needed_rights() as n cross join unnest(n.rights) as r (name)
where not case r.name when 'usage' then has_sequence_privilege(n.relation, 'usage') else has_table_privilege(n.relation, r.name) end
order by n.relation::text, r.name`;

/** The privileges that a gateway needs and this role lacks, in the form of `grant`: `insert on ledger`. Requires a current schema. */
export async function missingRights(run: RunQuery): Promise<readonly string[]> {
  const functions = (await run<{ missing: string }>(FUNCTIONS)).rows.map(({ missing }) => missing);
  // Without that function the needed privileges are unknown.
  if (functions.some((missing) => missing.includes('needed_rights'))) return functions;
  return [...functions, ...(await run<{ missing: string }>(TABLES)).rows.map(({ missing }) => missing)];
}

/** SQL that sets up the two roles; repeatable. */
export const ROLES_SQL = 'examples/oidc-and-postgres/roles.sql';
const SHOWN_MAX = 3;

function listRights(missing: readonly string[]): string {
  const shown = missing.slice(0, SHOWN_MAX).join(', ');
  return missing.length > SHOWN_MAX ? `${shown} and ${missing.length - SHOWN_MAX} more` : shown;
}

function grantHelp(missing: readonly string[], user: string): string {
  if (missing.length > SHOWN_MAX) return `run ${ROLES_SQL} again as the owner of the tables`;
  return `as the owner of the tables: ${missing.map((right) => `grant ${right} to ${user}`).join('; ')}`;
}

/** Why a role cannot run a gateway, as a sentence, and its remedy; `undefined` if it can. */
export function roleProblem(
  { user, schema, may_migrate, owner }: DatabaseRole,
  { is_complete, missing }: { readonly is_complete: boolean; readonly missing: readonly string[] },
): { readonly what: string; readonly remedy: string } | undefined {
  if (schema === null) {
    const remedy = `grant ${user} usage on the schema of the gateway, and set it as the search_path of the role or with ?schema= in the URL`;
    return { what: `${user} cannot use any schema of its search path`, remedy };
  }
  if (missing.length > 0) return { what: `${user} lacks ${listRights(missing)}`, remedy: grantHelp(missing, user) };
  if (is_complete || may_migrate) return undefined;
  const whose = owner === null ? 'of the role that will own the tables' : `of ${owner}, who owns the tables`;
  return {
    what: `its schema is not up to date, and ${user} may not change it`,
    remedy: `run \`appscli migrate\` with the database URL ${whose}`,
  };
}
