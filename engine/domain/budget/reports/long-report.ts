import type { Database, Knex } from '../../../base/store/database.ts';

export type ReportValue = Date | string | number | boolean | null | readonly string[];

/** Part of a statement, with the values of its question marks. */
export interface SqlPart {
  readonly text: string;
  readonly values: readonly ReportValue[];
}

/** Runs a statement with a `?` per value, and returns its rows. */
export type ReportRead = <Row>(text: string, values: readonly ReportValue[]) => Promise<Row[]>;

/** Default timeout: a report over years may take hours. */
const PATIENCE_MS = 6 * 3_600_000;
const SERVER_FIRST_MS = 5000;
/** `work_mem` of a report; a process runs at most two. */
const MEMORY = '64MB';

/** Runs a report in a read-only transaction with one snapshot, for hours by default. Errors are pg's own. */
export function readForLong<T>(
  database: Pick<Database, 'knex'>,
  report: (read: ReportRead) => Promise<T>,
  patience_ms = PATIENCE_MS,
): Promise<T> {
  return inTransaction(database, report, { isolationLevel: 'repeatable read', readOnly: true }, patience_ms);
}

export function workForLong<T>(database: Pick<Database, 'knex'>, work: (run: ReportRead) => Promise<T>): Promise<T> {
  return inTransaction(database, work, {}, PATIENCE_MS);
}

function inTransaction<T>(
  { knex }: Pick<Database, 'knex'>,
  work: (run: ReportRead) => Promise<T>,
  kind: Knex.TransactionConfig,
  patience_ms: number,
): Promise<T> {
  return knex.transaction(async (transaction) => {
    await transaction.raw(`set local statement_timeout = ${patience_ms}; set local work_mem = '${MEMORY}'`);
    return work(async <Row>(text: string, values: readonly ReportValue[]) => {
      const { rows } = await transaction
        .raw<{ rows: Row[] }>(text, [...values] as never)
        // Otherwise pg gives up after the timeout of the pool. The server times out first.
        .options({ query_timeout: patience_ms + SERVER_FIRST_MS });
      return rows;
    });
  }, kind);
}

export function joinSql(parts: readonly SqlPart[], separator: string): SqlPart {
  return { text: parts.map(({ text }) => text).join(separator), values: parts.flatMap(({ values }) => values) };
}

/** A moment as SQL: a date (YYYY-MM-DD) is midnight in a time zone. */
export function momentSql(moment: Date | string, time_zone: string): SqlPart {
  if (moment instanceof Date) return { text: 'cast(? as timestamptz)', values: [moment] };
  return { text: 'first_of(cast(? as timestamp) at time zone ?, ?)', values: [moment, time_zone, time_zone] };
}
