import { createRequire } from 'node:module';
import type { Knex } from 'knex';
import type { Pool } from 'pg';

export type { Knex } from 'knex';

const require = createRequire(import.meta.url);

/** A knex instance on a pool of ours; whoever made the pool ends it. Reads knex itself when the first is made. */
export function createKnex(pool: Pool): Knex {
  const { knex } = require('knex') as typeof import('knex');
  return knex({ client: 'pg', connectionPool: pool, log: SILENT });
}

function ignore() {}

/** Knex would write to the console what it also raises. */
const SILENT = { warn: ignore, error: ignore, deprecate: ignore, debug: ignore };
