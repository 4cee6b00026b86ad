import type { SchemaMigration } from '../migrate.ts';

const KEYS = `
-- Ids of the keys that gateways verify and open with, and when one of them last said that it has it.
create table signing_keys (
  id text primary key,
  held_at timestamptz not null
);
`;

/** Which signing keys some gateway has. */
export const signingKeys: SchemaMigration = {
  name: '0011_signing_keys',
  async up(knex) {
    await knex.raw(KEYS);
  },
};
