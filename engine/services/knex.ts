import knex, { type Knex } from 'knex';
import type { Pool } from 'pg';

export type { Knex } from 'knex';

/** A knex instance on a pool of ours; whoever made the pool ends it. */
export function createKnex(pool: Pool): Knex {
  return knex({ client: 'pg', connectionPool: pool });
}
