/** What a case leaves in the ledger, the audit log and the counters of limits, compared with the expectation. */
import assert from 'node:assert/strict';
import type { TestGateway } from '../../support/gateway.ts';
import { USED } from '../../support/model-provider/fault-server.ts';
import { until } from '../../support/until.ts';
import { type Attempt, type Expectation, LETTERS, outcomeOf, type Placed } from '../../upstreams/attempts/cases.ts';
import { PRICING } from '../support/nine.ts';
import type { LedgerRow } from '../support/state.ts';
import type { LedgerAttempt } from './several.ts';

/** The cost of a response in nano-USD: 20 tokens in, 10 out. */
export const COST = USED.input * PRICING.input * 1000 + USED.output * PRICING.output * 1000;

interface FoundAttempt extends LedgerAttempt {
  readonly cost_nano_usd?: number | string;
  readonly possibly_billed_nano_usd?: number | string | null;
}

/** Attempts as `expected.ts` writes them. */
function written(attempts: readonly Attempt[], names: readonly string[]): string {
  return attempts
    .map(({ upstream, outcome, reason }) => `${LETTERS[names.indexOf(upstream)]} ${outcome} ${reason}`)
    .join(', ');
}

const found = (attempts: unknown): Attempt[] =>
  (attempts as FoundAttempt[]).map((one) => ({ upstream: one.upstream, outcome: outcomeOf(one), reason: one.reason }));

/** Everything that is written down of some requests. */
export interface Books {
  readonly audit: ReadonlyMap<string, Record<string, unknown>>;
  readonly ledger: ReadonlyMap<string, LedgerRow>;
  readonly attempts: ReadonlyMap<string, readonly FoundAttempt[]>;
  /** The counters of limits, by key. */
  readonly spent: ReadonlyMap<string, number>;
}

const keyOf = (model: string, name: string) => JSON.stringify([model, name]);

/** Reads the records of requests, by their identifiers, once complete: the audit record is written last. */
export async function readBooks(
  { database: { knex } }: TestGateway,
  ids: readonly string[],
  cases: readonly Placed[],
): Promise<Books> {
  const audit = await until('all requests are in the audit log', async () => {
    const rows = await knex('audit_log').whereIn('request_id', ids).select('request_id', 'record');
    return rows.length === ids.length && rows;
  });
  const keys = cases.flatMap(({ model, names }) => [model, ...names.map((name) => keyOf(model, name))]);
  const counters = await until('nothing is reserved', async () => {
    const rows: { key: string; spent: string; reserved: string }[] = await knex('spend_counters')
      .where({ unit: 'nano_usd' })
      .whereIn('key', keys);
    return rows.every(({ reserved }) => Number(reserved) === 0) && rows;
  });
  const ledger: LedgerRow[] = await knex('ledger').whereIn('request_id', ids);
  const attempts = await knex('ledger_attempts').whereIn('request_id', ids).orderBy('n');
  const spent = new Map<string, number>();
  for (const row of counters) spent.set(row.key, (spent.get(row.key) ?? 0) + Number(row.spent));
  return {
    audit: new Map(audit.map(({ request_id, record }) => [request_id, record])),
    ledger: new Map(ledger.map((row) => [row.request_id, row])),
    attempts: Map.groupBy(attempts, ({ request_id }) => request_id),
    spent,
  };
}

/** Compares all records of a request. `worst_case`: whether the possible bill counts against limits. */
export function checkBooks(
  books: Books,
  { model, names }: Placed,
  { attempts, answer: response }: Expectation,
  how: { readonly request_id: string; readonly worst_case: boolean },
): void {
  const { request_id, worst_case } = how;
  const { attempts: audited } = books.audit.get(request_id)!;
  // The record of a serving one says it itself.
  if (attempts.length > 1 || attempts[0]!.reason !== 'served') {
    assert.equal(written(found(audited), names), written(attempts, names), 'attempts in the audit log');
  }
  const row = books.ledger.get(request_id);
  if (attempts.every(({ outcome }) => outcome === 'not_sent')) {
    assert.equal(row, undefined, 'an unsent attempt has no row');
    checkSums(books, model, 0, new Map(names.map((name) => [name, 0])));
    return;
  }
  assert.ok(row, 'there is a row in the ledger');
  const rows = books.attempts.get(request_id)!;
  assert.equal(written(found(rows), names), written(attempts, names));
  assert.equal(row.upstream, attempts.at(-1)!.upstream);

  const costs = rows.map(({ cost_nano_usd }) => Number(cost_nano_usd));
  const possible = rows.map(({ possibly_billed_nano_usd }) => Number(possibly_billed_nano_usd ?? 0));
  for (const [at, { possibly }] of attempts.entries()) {
    const is_last = at === attempts.length - 1;
    // The relayed part of a truncated response is charged by its content, and its rest may be billed, too.
    if (is_last && response === 'broken') continue;
    const why = `attempt ${at + 1}: ${JSON.stringify(rows[at])}`;
    assert.equal(possible[at]! > 0, possibly, why);
    assert.equal(costs[at], is_last && response === 'whole' ? COST : worst_case ? possible[at] : 0, why);
  }
  const cost = Number(row.cost_nano_usd);
  assert.equal(sum(costs), cost, 'the cost of all attempts');
  assert.equal(Number(row.provenance.possibly_billed_nano_usd ?? 0), sum(possible), 'the possibly billed part');
  const by_upstream = names.map((name) => [name, sum(costs.filter((_, at) => rows[at]!.upstream === name))] as const);
  checkSums(books, model, cost, new Map(by_upstream));
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** What the limits count for this case alone, by its own model, and by each upstream. */
function checkSums({ spent }: Books, model: string, cost: number, by_upstream: ReadonlyMap<string, number>): void {
  assert.equal(spent.get(model) ?? 0, cost, 'the sum of the model');
  for (const [name, expected] of by_upstream) {
    assert.equal(spent.get(keyOf(model, name)) ?? 0, expected, `the sum of ${name}`);
  }
}
