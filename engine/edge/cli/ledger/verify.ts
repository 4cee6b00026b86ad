import { systemClock } from '../../../base/kit/clock.ts';
import { formatUsd, isNanoUsd } from '../../../base/kit/money.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { describeCounter } from '../../../domain/budget/limits/spend-limits.ts';
import {
  type CounterDifference,
  type DisagreeingAttempts,
  type Found,
  type LedgerVerification,
  type LeftReservation,
  type RepeatedRequest,
  sumAgain,
  type UncountedRequest,
  type UsageDifference,
  verifyLedger,
} from '../../../domain/budget/reports/verify-ledger.ts';

import { counted } from '../amounts.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK } from '../exit-codes.ts';
import { assertPeriod, day, option } from '../options.ts';
import { describeFindings, SHOWN, showReport } from '../show.ts';
import { formatMoment } from '../times.ts';
import { withDatabase } from '../with-database.ts';

const WIDTH = 80;

/** `appscli ledger verify`: recomputes all counters and sums from the ledger and the reservations. */
async function verify(
  context: CommandContext,
  { config, json }: { readonly config: string; readonly json?: true },
): Promise<number> {
  const verification = await withDatabase(context, config, ({ database }) =>
    verifyLedger({ database, clock: systemClock }),
  );
  showReport(context, json, verificationJson(verification), () => describeVerification(verification));
  return addsUp(verification) ? EXIT_OK : EXIT_FINDINGS;
}

function addsUp({ differences, repeated, uncounted, attempts, left, sums }: LedgerVerification): boolean {
  return [differences, repeated, uncounted, attempts, left, sums].every(({ total }) => total === 0);
}

/** A verification as text. */
export function describeVerification(verification: LedgerVerification): string[] {
  const { differences, repeated, uncounted, attempts, left, sums } = verification;
  const found = [
    ...describeKind(
      differences,
      (many) => `${counted(many, 'amount')} of the counters ${many === 1 ? 'differs' : 'differ'} from the ledger:`,
      describeDifference,
      'Limits use the counters; reports and bills use the ledger. No command changes only one of them: were tables edited by hand, or restored in part? If not, please report it.',
    ),
    ...describeKind(
      repeated,
      (many) => `${counted(many, 'request')} recorded more than once:`,
      describeRepeated,
      'A request has either a reservation or one ledger row.',
    ),
    ...describeKind(
      uncounted,
      (many) => `${counted(many, 'ledger row')} whose cost is in no counter:`,
      ({ request_id, user, cost_nano_usd }: UncountedRequest) => `${request_id} of ${user}: ${usd(cost_nano_usd)}`,
      'Limits did not count this cost. The cause may be a custom stage that reserves or settles without demands.',
    ),
    ...describeKind(
      attempts,
      (many) => `${counted(many, 'ledger row')} with attempts that do not add up:`,
      describeAttempts,
      "A row's cost is the sum of its attempts, and its upstream is that of the last one. No command changes attempts: was the ledger edited by hand? If not, please report it.",
    ),
    ...describeKind(
      left,
      (many) => `${counted(many, 'reservation')} of gateways that no longer run:`,
      describeLeft,
      'A running gateway settles them within two minutes, at the reserved amount. Start a gateway; if one runs, see its log.',
    ),
    ...describeKind(
      sums,
      (many) => `${counted(many, 'sum')} of usage by hour or day ${many === 1 ? 'differs' : 'differ'} from the ledger:`,
      describeSum,
      'Only usage reports read these sums. Recompute them with `appscli ledger sum --since DAY --until DAY`.',
    ),
  ];
  const decision = addsUp(verification) ? 'The ledger adds up' : 'The ledger does not add up';
  return [...found, ...wrapText(`${decision}: ${extentOf(verification)}.`, WIDTH)];
}

function extentOf(verification: LedgerVerification): string {
  const { counters, ledger_rows, cost_nano_usd, reservations, reserved_nano_usd } = verification;
  const rows = `${counted(ledger_rows, 'ledger row')} of ${usd(cost_nano_usd)}`;
  const holds = `${counted(reservations, 'reservation')} of ${usd(reserved_nano_usd)}`;
  return `compared ${counted(counters, 'counter')} with ${rows} and ${holds}`;
}

function describeKind<Finding>(
  { total, first }: Found<Finding>,
  title: (many: number) => string,
  describe: (finding: Finding) => string,
  remedy: string,
): string[] {
  const others = ' with smaller amounts (--json shows up to 1000)';
  return describeFindings(title(total), first.slice(0, SHOWN).map(describe), remedy, { total, others });
}

function describeDifference(difference: CounterDifference): string {
  const { counter_id, scope, key, window, unit, window_start, amount, kept, recomputed } = difference;
  const since = window_start === null ? '' : ` from ${formatMoment(window_start)}`;
  const counter =
    scope === null || key === null
      ? `counter ${counter_id ?? 'without an id'}, which does not exist`
      : `${describeCounter({ scope, key })}, ${window}${since}`;
  const text = (value: bigint) => {
    if (amount === 'in_flight') return counted(Number(value), 'request');
    return unit === null || unit === 'nano_usd' ? usd(value) : counted(Number(value), unit.slice(0, -1));
  };
  const off = kept - recomputed;
  const direction = off > 0n ? 'too much' : 'too little';
  return `${counter}: ${amount} ${text(kept)}, should be ${text(recomputed)} (${text(off < 0n ? -off : off)} ${direction})`;
}

function describeRepeated({ request_id, ledger_rows, reservations, cost_nano_usd }: RepeatedRequest): string {
  const reserved = reservations === 0 ? '' : ', and still reserved';
  return `${request_id}: ${counted(ledger_rows, 'ledger row')} of ${usd(cost_nano_usd)}${reserved}`;
}

function describeAttempts(found: DisagreeingAttempts): string {
  const { request_id, user, cost_nano_usd, attempts_nano_usd } = found;
  const { possibly_billed_nano_usd: possible, attempts_possibly_billed_nano_usd: by_attempts } = found;
  const costs = `${usd(cost_nano_usd)}, its attempts ${usd(attempts_nano_usd)}`;
  return `${request_id} of ${user}: ${costs}; possibly billed ${usd(possible)}, its attempts ${usd(by_attempts)}`;
}

function describeLeft({ request_id, user, reserved_at, amount_nano_usd, heartbeat_at }: LeftReservation): string {
  const heard = heartbeat_at === null ? 'is unknown' : `was last alive at ${formatMoment(heartbeat_at)}`;
  return `${request_id} of ${user}: ${usd(amount_nano_usd)} since ${formatMoment(reserved_at)}; its gateway ${heard}`;
}

function describeSum({ span, start, user, model, upstream, amount, off_by }: UsageDifference): string {
  const much = off_by < 0n ? -off_by : off_by;
  const name = amount.replace(/_nano_usd$/, '').replaceAll('_', ' ');
  const direction = off_by > 0n ? 'too much' : 'too little';
  const text = `${isNanoUsd(amount) ? usd(much) : String(much)} ${direction}`;
  const of = [user, model].map((each) => each ?? 'no name').join(', ');
  return `${span} from ${formatMoment(start)}, ${of} at ${upstream ?? 'no name'}: ${name} ${text}`;
}

function usd(nano_usd: bigint): string {
  return `${formatUsd(nano_usd)} USD`;
}

/** A verification as JSON, with amounts as decimal texts, because JSON numbers are inexact. */
function verificationJson(verification: LedgerVerification): object {
  const { differences, repeated, uncounted, attempts, left, sums, ...extent } = verification;
  const list = <Finding>({ total, first }: Found<Finding>) => ({
    total,
    first: first.map((each) => inUsd(each as object)),
  });
  return {
    ok: addsUp(verification),
    ...inUsd(extent),
    differences: { total: differences.total, first: differences.first.map(differenceJson) },
    repeated: list(repeated),
    uncounted: list(uncounted),
    attempts: list(attempts),
    left: list(left),
    sums: { total: sums.total, first: sums.first.map((sum) => ({ ...sum, off_by: String(sum.off_by) })) },
  };
}

function differenceJson({ kept, recomputed, ...difference }: CounterDifference): object {
  const is_money = difference.amount !== 'in_flight' && (difference.unit ?? 'nano_usd') === 'nano_usd';
  if (is_money) return { ...difference, kept_usd: formatUsd(kept), recomputed_usd: formatUsd(recomputed) };
  return { ...difference, kept: String(kept), recomputed: String(recomputed) };
}

function inUsd(fields: object): object {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) =>
      typeof value === 'bigint' ? [name.replace(/nano_usd$/, 'usd'), formatUsd(value)] : [name, value],
    ),
  );
}

/** Options of `appscli ledger sum`; days in UTC. */
interface SumOptions {
  readonly config: string;
  readonly since?: string;
  readonly until?: string;
  readonly json?: true;
}

/** `appscli ledger sum`: recomputes the sums of usage reports from the ledger. */
async function sum(context: CommandContext, { config, since, until, json }: SumOptions): Promise<number> {
  assertPeriod({ since, until });
  const lines = await withDatabase(context, config, ({ database }) => sumAgain(database, { since, until }));
  return showReport(context, json, { lines }, () => [`Recomputed the sums of ${counted(lines, 'ledger line')}.`]);
}

/** `appscli ledger verify` and `sum`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'verify',
    summary: 'verify counters and sums against the ledger',
    about:
      'recompute the counters of limits and the sums of usage reports from the ledger, and compare them; exits 1 for differences; gateways may run meanwhile',
    place: 'configuration',
    json: 'print the result as JSON, amounts as exact decimals',
    examples: ['appscli ledger verify', 'appscli ledger verify --json | jq .differences'],
    run: verify,
  },
  {
    name: 'sum',
    summary: 'recompute the sums of usage reports',
    about:
      'recompute the hourly and daily sums of usage reports from the ledger, after `ledger verify` found differences; gateways may run meanwhile',
    options: [
      option('--since <day>', 'first day, in UTC (default: all)', day),
      option('--until <day>', 'day after the last day, in UTC (default: all)', day),
    ],
    place: 'configuration',
    json: 'print the number of ledger lines as JSON',
    examples: ['appscli ledger sum --since 2027-01-31 --until 2027-02-01'],
    run: sum,
  },
];
