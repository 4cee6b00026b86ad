import type { SchemaMigration } from '../migrate.ts';
import { LATE_FUNCTIONS, WINDOW_FUNCTIONS } from './0010_late_functions.ts';

/** What a store that was away makes up for. */
export const store: SchemaMigration = {
  name: '0010_store',
  async up(knex) {
    for (const statements of [LATE_FUNCTIONS, WINDOW_FUNCTIONS]) await knex.raw(statements);
  },
};
