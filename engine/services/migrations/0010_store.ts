import type { SchemaMigration } from '../migrate.ts';
import { LATE_FUNCTIONS } from './0010_late_functions.ts';

/** What a store that was away makes up for. */
export const store: SchemaMigration = {
  name: '0010_store',
  async up(knex) {
    await knex.raw(LATE_FUNCTIONS);
  },
};
