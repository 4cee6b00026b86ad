/** The gateway's state in its database, as tests need to see it. */
import { readdirSync } from 'node:fs';
import type { Database } from '../../../engine/base/store/database.ts';
import { statementsOnLanes } from '../../support/lanes.ts';
import { until } from '../../support/until.ts';

/** A ledger row, with numbers as numbers. */
export interface LedgerRow {
  readonly request_id: string;
  readonly protocol: string;
  readonly user_email: string;
  readonly team: string | null;
  readonly model: string;
  readonly upstream: string;
  readonly upstream_model: string;
  readonly status: number | null;
  readonly aborted: boolean;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly cost_nano_usd: number;
  readonly provenance: Readonly<Record<string, string>>;
  readonly server_tools: Readonly<Record<string, number>> | null;
}

function withNumbers(row: Record<string, unknown>): Record<string, unknown> {
  const numeric = /tokens|nano_usd|_ms$|_bytes$/;
  return Object.fromEntries(
    Object.entries(row).map(([key, value]) => [key, numeric.test(key) && value !== null ? Number(value) : value]),
  );
}

/** All ledger rows, oldest first. */
export async function ledgerRows(database: Database): Promise<LedgerRow[]> {
  const rows: Record<string, unknown>[] = await database.knex('ledger').select('*').orderBy('settled_at');
  return rows.map(withNumbers) as unknown as LedgerRow[];
}

/** The ledger row of a request, once it is written. */
export async function ledgerRow(database: Database, request_id: string): Promise<LedgerRow> {
  return await until(`request ${request_id} is in the ledger`, async () => {
    const row: Record<string, unknown> | undefined = await database.knex('ledger').where({ request_id }).first();
    return row && (withNumbers(row) as unknown as LedgerRow);
  });
}

/** All audit records, oldest first. */
export async function auditRows(database: Database): Promise<Record<string, unknown>[]> {
  return await database.knex('audit_log').select('*');
}

/** The audit record of a request, once it is written; its own fields and the columns beside them. */
export async function auditRecord(database: Database, request_id: string): Promise<Record<string, unknown>> {
  return await until(`request ${request_id} is in the audit log`, async () =>
    database.knex('audit_log').where({ request_id }).first(),
  );
}

/** Reservations in all counters for requests, in nano-USD, without leased headroom, and how many reservations are open. */
export async function reserved(database: Database): Promise<{ nano_usd: number; reservations: number }> {
  const [counters] = await database
    .knex('spend_counters')
    .where({ unit: 'nano_usd' })
    .select(
      database.knex.raw(
        `coalesce(sum(reserved - coalesce(
           (select sum(amount) from reservation_leases l where l.counter_id = spend_counters.id), 0)), 0) as reserved`,
      ),
    );
  const [open] = await database.knex('reservations').count({ count: '*' });
  return { nano_usd: Number(counters?.reserved ?? 0), reservations: Number(open?.count ?? 0) };
}

/** Waits until nothing is reserved any more, nor will be for finished requests. */
export async function nothingReserved(database: Database): Promise<void> {
  await until('nothing is reserved', async () => {
    if (statementsOnLanes(database) > 0) return false;
    const { nano_usd, reservations } = await reserved(database);
    return nano_usd === 0 && reservations === 0;
  });
}

/** Files in a spool directory with requests or records; known callers are stored there, too. */
export function spoolFiles(spool_dir: string): readonly string[] {
  return readdirSync(spool_dir).filter((name) => name.endsWith('.spool'));
}
