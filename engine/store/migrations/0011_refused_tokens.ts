import type { SchemaMigration } from '../migrate.ts';

/** When a refresh token was first refused because what replaced it is in use. */
export const refusedTokens: SchemaMigration = {
  name: '0011_refused_tokens',
  async up(knex) {
    await knex.raw('alter table refresh_tokens add column refused_at timestamptz');
  },
};
