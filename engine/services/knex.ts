import knex, { type Knex } from 'knex';
import type { Pool } from 'pg';

export type { Knex } from 'knex';

/** A knex instance on a pool of ours; whoever made the pool ends it. */
export function createKnex(pool: Pool): Knex {
  return knex({ client: 'pg', connectionPool: pool, log: SILENT });
}

function ignore() {}

/** Knex would write to the console what it also raises. */
const SILENT = { warn: ignore, error: ignore, deprecate: ignore, debug: ignore };
