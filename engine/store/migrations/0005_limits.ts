import type { SchemaMigration } from '../migrate.ts';
import { COUNTER_FUNCTIONS } from './0005_counter_functions.ts';
import { EXCHANGE_FUNCTIONS } from './0005_exchange_functions.ts';
import { RESERVATION_FUNCTIONS } from './0005_hold_functions.ts';
import { LEDGER_ROW_FUNCTIONS } from './0005_ledger_row_functions.ts';

const FORMER_FUNCTIONS = `
drop function open_counters(text[], text[], text[], timestamptz, text);
drop function insert_reservations(uuid, timestamptz, bigint[], jsonb, text[]);
drop function place_reservations(uuid, timestamptz, text, bigint[], jsonb);
drop function write_ledger(timestamptz, bigint[], reservations[], jsonb);
drop function exchange_batch(uuid, timestamptz, text, text[], text[], text[], jsonb, jsonb);
`;

/*
 * A counter says of its window, in its unit: what was spent, what is reserved, how many requests hold it, and the most that
 * these can come to. Only counters of money are named by ledger rows.
 */
const TABLES = `
alter table spend_counters rename column spent_nano_usd to spent;
alter table spend_counters rename column reserved_nano_usd to reserved;
alter table spend_counters
  add column unit text not null default 'nano_usd',
  add column most bigint not null default 0,
  add column in_flight integer not null default 0,
  drop constraint spend_counters_pkey,
  add primary key (scope, key, window_kind, window_start, unit);
create index on spend_counters (window_start) where window_kind = 'minute';
update spend_counters s
set most = s.reserved,
    in_flight = (select count(*) from reservations r where s.id = any (r.counter_ids))
where s.reserved <> 0 or exists (select from reservations r where s.id = any (r.counter_ids));

alter table reservations
  add column most_nano_usd bigint,
  add column tokens bigint not null default 0,
  add column rate_counter_ids bigint[] not null default '{}';
update reservations set most_nano_usd = amount_nano_usd;
alter table reservations alter column most_nano_usd set not null;

alter table ledger
  add column kind text not null default 'request' check (kind in ('request', 'adjustment')),
  add column server_tools jsonb;
`;

/** Limits by week and minute, of requests and tokens, for several scopes at once, and holds of what is typical. */
export const limits: SchemaMigration = {
  name: '0005_limits',
  async up(knex) {
    const functions = [COUNTER_FUNCTIONS, RESERVATION_FUNCTIONS, LEDGER_ROW_FUNCTIONS, EXCHANGE_FUNCTIONS];
    for (const statements of [FORMER_FUNCTIONS, TABLES, ...functions]) await knex.raw(statements);
  },
};
