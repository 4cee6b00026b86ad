import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { StartError } from '../contract/start-error.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';
import type { PostgresConnections } from './postgres-client.ts';
import {
  grantHelp,
  listRights,
  migrateHelp,
  missingRights,
  readStanding,
  type Standing,
  schemaHelp,
} from './rights.ts';

interface SchemaMigration {
  /** Recorded in the database; sorts in the order of application. */
  readonly name: string;
  /** Files in `engine/base/store/schema/`, in the order they are run. */
  readonly files: readonly string[];
}

/** All migrations, in the order they are applied. A released one never changes: add another. */
export const migrations: readonly SchemaMigration[] = [
  {
    name: '0001_schema',
    files: ['identity.sql', 'money.sql', 'audit.sql', 'usage.sql', 'configuration.sql', 'database.sql'],
  },
];

/** The first migration of the versions before the first release; their tables are not those of `migrations`. */
const UNRELEASED = '0001_baseline';

/** The oldest PostgreSQL, by its major version, that takes the schema. */
export const OLDEST_POSTGRES = 15;

/** What is wrong with a database that has migrations this program does not know, and what to do about it. */
export function foreignSchema(unknown: readonly string[]): { readonly what: string; readonly remedy: string } {
  if (unknown.includes(UNRELEASED)) {
    return {
      what: 'migrated by a version from before the first release, whose tables this program cannot take over',
      remedy: 'use an empty database: another database.postgres, or another database.embedded.data_dir',
    };
  }
  return {
    what: `migrated by a newer version of this program (it has ${unknown.join(', ')})`,
    remedy: 'run that version or a later one, or restore a backup from before the upgrade',
  };
}

/** Any number will do, as long as it never changes: it names the lock that migrating processes share. */
const LOCK_KEY = 7_204_817_101;
const LOCK_PATIENCE_SECONDS = 60;
/** A server that has fallen silent is given up after this; waiting for the lock must not take as long. */
const QUERY_PATIENCE_SECONDS = 65;
const MIGRATION_PATIENCE_SECONDS = 3600;
const TABLE = 'schema_migrations';

/**
 * Brings the schema up to date, one migration after the other, each of them whole or not at all: so the locks of one end before
 * the next begins. Several processes may do this at once: one migrates, the others wait for it. A role that may not migrate is only
 * looked at. Raises StartError where no waiting helps: the server is too old, the database of another version, or a right
 * is missing.
 * @param secures whether rights are put right where nothing is to migrate.
 * @returns names of the migrations that it applied.
 */
export async function migrate(
  connections: PostgresConnections,
  { secures = false }: { readonly secures?: boolean } = {},
): Promise<readonly string[]> {
  const client = new pg.Client({ ...connections.settings(), query_timeout: QUERY_PATIENCE_SECONDS * 1000 });
  client.on('error', () => {});
  const isComplete = async () => {
    const { applied, unknown } = await migrationState((text) => client.query(text));
    if (unknown.length > 0) {
      const { what, remedy } = foreignSchema(unknown);
      throw new StartError(`it was ${what}; ${remedy}`);
    }
    return applied === migrations.length;
  };
  const applied: string[] = [];
  try {
    await client.connect();
    const standing = await readStanding((text) => client.query(text));
    const { user, schema, may_migrate } = standing;
    if (schema === null) throw new StartError(`${user} may use no schema of its search path; ${schemaHelp(standing)}`);
    if (!may_migrate) {
      await demandRights(client, standing, await isComplete());
      return [];
    }
    while (!(await isComplete())) {
      // The lock lives as long as the transaction, so a killed process can't leave it behind.
      // With one snapshot for all of it, whoever waited for the lock would not see what was made meanwhile.
      await client.query(
        `begin isolation level read committed; set local statement_timeout = 0; set local lock_timeout = '${LOCK_PATIENCE_SECONDS}s'`,
      );
      await client.query(`select pg_advisory_xact_lock(${LOCK_KEY})`);
      await demandVersion(client);
      // Whoever waited for the lock still believes that there is no such table, as it was before: this looks again.
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

async function demandVersion(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ number: number; version: string }>(
    "select current_setting('server_version_num')::integer as number, current_setting('server_version') as version",
  );
  const { number, version } = rows[0]!;
  if (number >= OLDEST_POSTGRES * 10_000) return;
  throw new StartError(`it is PostgreSQL ${version}, and the gateway needs ${OLDEST_POSTGRES} or later; upgrade it`);
}

async function applyNext(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ name: string }>(`select name from ${TABLE}`);
  const { name, files } = migrations.find((step) => !rows.some((row) => row.name === step.name))!;
  for (const file of files) {
    const text = readFileSync(join(PACKAGE_ROOT, 'engine/base/store/schema', file), 'utf8');
    await client.query({ text, query_timeout: MIGRATION_PATIENCE_SECONDS * 1000 } as pg.QueryConfig);
  }
  await client.query(`insert into ${TABLE} (name) values ($1)`, [name]);
  if (migrations.at(-1)!.name === name) await client.query('select secure_schema()');
  return name;
}

/** Raises StartError where a role that may not migrate can't run a gateway either. */
async function demandRights(client: pg.Client, standing: Standing, is_complete: boolean): Promise<void> {
  const { user } = standing;
  if (!is_complete) {
    throw new StartError(
      `its tables are not those of this version, and ${user} may not change them; ${migrateHelp(standing)}`,
    );
  }
  const missing = await missingRights((text) => client.query(text));
  if (missing.length === 0) return;
  throw new StartError(`${user} lacks ${listRights(missing)}; ${grantHelp(missing, user)}`);
}

/**
 * Which migrations a database has, without changing it.
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
