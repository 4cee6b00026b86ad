import pg from 'pg';
import { StartError } from '../contract/start-error.ts';
import { createKnex, type Knex } from './knex.ts';
import { migrations } from './migrations/index.ts';
import type { PostgresConnections } from './postgres-client.ts';

/** One step of the schema, forward only. */
export interface SchemaMigration {
  /** Recorded in the database; sorts in the order of application. */
  readonly name: string;
  up(knex: Knex): Promise<void>;
}

/** What to do about a database of a later version. */
export const NEWER_SCHEMA_REMEDY = 'run that version or a later one, or restore a backup from before the upgrade';

/** A database has migrations that this program does not know. Waiting does not help. */
export class NewerSchemaError extends StartError {
  constructor(unknown: readonly string[]) {
    super(`it was migrated by a newer version of this program (it has ${unknown.join(', ')}); ${NEWER_SCHEMA_REMEDY}`);
    this.name = 'NewerSchemaError';
  }
}

/** Any number will do, as long as it never changes: it names the lock that migrating processes share. */
const LOCK_KEY = 7_204_817_101;
const LOCK_PATIENCE_SECONDS = 60;
const TABLE = 'schema_migrations';

/**
 * Brings the schema up to date. Several processes may do this at once: one migrates, the others wait for it.
 * Raises NewerSchemaError when the database is newer than this program.
 */
export async function migrate(
  connections: PostgresConnections,
  steps: readonly SchemaMigration[] = migrations,
): Promise<void> {
  // The lock lives as long as this connection, so a killed process can't leave it behind.
  const lock = new pg.Client({ ...connections.settings(), query_timeout: (LOCK_PATIENCE_SECONDS + 5) * 1000 });
  lock.on('error', () => {});
  const pool = connections.createPool(1, 0);
  try {
    await lock.connect();
    if (await isUpToDate(lock, steps)) return;
    const knex = createKnex(pool);
    await lock.query(`set lock_timeout = '${LOCK_PATIENCE_SECONDS}s'`);
    await lock.query('select pg_advisory_lock($1)', [LOCK_KEY]);
    await refuseNewerSchema(knex, steps);
    const config = { migrationSource: sourceOf(steps), tableName: TABLE };
    // Knex's own lock is a row, which a killed process does leave behind; under the advisory lock nobody holds it.
    await knex.migrate.forceFreeMigrationsLock(config);
    await knex.migrate.latest(config);
  } finally {
    await Promise.allSettled([pool.end(), lock.end()]);
  }
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
  const { rows } = await query(`select name from ${TABLE} order by id`);
  const known = new Set(migrations.map((step) => step.name));
  return {
    applied: rows.filter(({ name }) => known.has(name)).length,
    unknown: rows.map(({ name }) => name).filter((name) => !known.has(name)),
  };
}

/** Whether nothing is left to do: at most starts, where nobody needs to wait for anybody. */
async function isUpToDate(client: pg.Client, steps: readonly SchemaMigration[]): Promise<boolean> {
  const { rows: there } = await client.query(`select to_regclass('${TABLE}') is not null as is_there`);
  if (!there[0].is_there) return false;
  const { rows } = await client.query<{ name: string }>(`select name from ${TABLE}`);
  const applied = new Set(rows.map(({ name }) => name));
  return applied.size === steps.length && steps.every(({ name }) => applied.has(name));
}

async function refuseNewerSchema(knex: Knex, steps: readonly SchemaMigration[]): Promise<void> {
  if (!(await knex.schema.hasTable(TABLE))) return;
  const known = new Set(steps.map((step) => step.name));
  const rows: { name: string }[] = await knex(TABLE).select('name').orderBy('id');
  const unknown = rows.map((row) => row.name).filter((name) => !known.has(name));
  if (unknown.length === 0) return;
  throw new NewerSchemaError(unknown);
}

function sourceOf(steps: readonly SchemaMigration[]): Knex.MigrationSource<SchemaMigration> {
  return {
    getMigrations: async () => [...steps],
    getMigrationName: (step) => step.name,
    getMigration: async (step) => ({
      up: step.up,
      down: async () => {
        throw new Error('migrations only go forward');
      },
    }),
  };
}
