import type { Database } from '../../../base/store/database.ts';
import { momentSql, readForLong } from './long-report.ts';

/** A line of the bill: what an upstream charges for a model on a day. */
export interface BilledCost {
  readonly day: string;
  readonly model: string;
  readonly cost_nano_usd: bigint;
}

/** Tolerance of the comparison: a share of the bill, or an absolute amount. */
export interface Tolerance {
  readonly millipercent: number;
  readonly nano_usd: bigint;
}

export interface ReconcileInput {
  readonly upstream: string;
  readonly bill: readonly BilledCost[];
  readonly tolerance: Tolerance;
  /** First day; default: the first of the bill. */
  readonly since?: string | undefined;
  /** Day after the last; default: after the last day of the bill. */
  readonly until?: string | undefined;
  readonly time_zone: string;
}

interface LedgerSum extends Readonly<Record<'day' | 'model' | 'cost' | 'estimated' | 'beyond' | 'possible', string>> {
  readonly requests: number;
}

/**
 * Compares a bill of at least one line with the ledger, per day and per model as the upstream calls it; a day of the ledger is
 * that of the settlement, as in reports on usage. Its errors are pg's own.
 */
export async function reconcile(database: Pick<Database, 'knex'>, input: ReconcileInput) {
  const days = input.bill.map(({ day }) => day).sort();
  const since = input.since ?? days[0]!;
  const until = input.until ?? dayAfter(days.at(-1)!);
  const bill = input.bill.filter(({ day }) => since <= day && day < until);
  const sums = await sumLedger(database, { ...input, since, until });

  const billed = new Map(bill.map((line) => [nameOf(line), line]));
  const found = new Map(sums.map((sum) => [nameOf(sum), sum]));
  const rows = [...new Set([...billed.keys(), ...found.keys()])].sort().map((name) => {
    const line = billed.get(name);
    const sum = found.get(name);
    const { day, model } = (line ?? sum)!;
    return { day, model, ...compare(line?.cost_nano_usd, sum, input.tolerance) };
  });
  const add = (of: (row: ReconciledRow) => bigint | undefined) => rows.reduce((sum, row) => sum + (of(row) ?? 0n), 0n);
  const billed_nano_usd = add((row) => row.billed_nano_usd);
  const ledger_nano_usd = add((row) => row.ledger_nano_usd);
  const total = {
    billed_nano_usd,
    ledger_nano_usd,
    estimated_nano_usd: add((row) => row.estimated_nano_usd),
    possibly_billed_nano_usd: add((row) => row.possibly_billed_nano_usd),
    possible_nano_usd: add((row) => row.possible_nano_usd),
    requests: rows.reduce((sum, row) => sum + row.requests, 0),
    agrees: isClose(billed_nano_usd, ledger_nano_usd, input.tolerance),
  };
  return {
    first_day: since,
    last_day: dayBefore(until),
    rows,
    total,
    /** Lines of the bill outside of the period. */
    left_out: input.bill.length - bill.length,
    agrees: total.agrees && rows.every((row) => row.agrees),
  };
}

/** A bill compared with the ledger. */
export type Reconciliation = Awaited<ReturnType<typeof reconcile>>;

/** A model and day, in the bill and in the ledger. */
export interface ReconciledRow extends ReturnType<typeof compare> {
  readonly day: string;
  readonly model: string;
}

function compare(billed: bigint | undefined, sum: LedgerSum | undefined, tolerance: Tolerance) {
  const ledger = sum === undefined ? undefined : BigInt(sum.cost);
  return {
    billed_nano_usd: billed,
    ledger_nano_usd: ledger,
    /** Part of the ledger's cost that is not based on reported usage. */
    estimated_nano_usd: BigInt(sum?.estimated ?? 0),
    /** Possible charges for failed attempts beyond the ledger's cost. */
    possibly_billed_nano_usd: BigInt(sum?.beyond ?? 0),
    /** Possible charges included in the ledger's cost (`reserve: worst_case`). */
    possible_nano_usd: BigInt(sum?.possible ?? 0),
    /** Requests that ended at the upstream. */
    requests: sum?.requests ?? 0,
    agrees: isClose(billed ?? 0n, ledger ?? 0n, tolerance),
  };
}

function isClose(billed: bigint, ledger: bigint, { millipercent, nano_usd }: Tolerance): boolean {
  const off = absolute(billed - ledger);
  return off <= nano_usd || off * 100_000n <= absolute(billed) * BigInt(millipercent);
}

function absolute(amount: bigint): bigint {
  return amount < 0n ? -amount : amount;
}

function sumLedger(
  database: Pick<Database, 'knex'>,
  { upstream, time_zone, since, until }: ReconcileInput & { readonly since: string; readonly until: string },
): Promise<readonly LedgerSum[]> {
  const from = momentSql(since, time_zone);
  const to = momentSql(until, time_zone);
  return readForLong(database, (read) =>
    read<LedgerSum>(
      `select to_char(settled_at at time zone ?, 'YYYY-MM-DD') as day, upstream_model as model,
         sum(requests)::bigint as requests, sum(cost_nano_usd)::text as cost,
         coalesce(sum(cost_nano_usd) filter (where estimated <> 'no'), 0)::text as estimated,
         sum(possibly_billed_nano_usd)::text as beyond, sum(possible_nano_usd)::text as possible
       from usage_lines
       where upstream = ? and settled_at >= ${from.text} and settled_at < ${to.text}
       group by 1, 2`,
      [time_zone, upstream, ...from.values, ...to.values],
    ),
  );
}

function nameOf({ day, model }: { readonly day: string; readonly model: string }): string {
  return `${day} ${model}`;
}

const DAY_MS = 86_400_000;

const dayAfter = (day: string, days = 1) =>
  new Date(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);

const dayBefore = (day: string) => dayAfter(day, -1);
