import { systemClock } from '../../../base/kit/clock.ts';
import { formatUsd } from '../../../base/kit/money.ts';
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
import { day, demandPeriod, option } from '../options.ts';
import { describeFindings, SHOWN, showReport } from '../show.ts';
import { formatMoment } from '../times.ts';
import { withDatabase } from '../with-database.ts';

const WIDTH = 80;

/** `appscli ledger verify`: whether every counter and every sum says what the ledger and the reservations come to. */
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

/** Lines for people, at most 80 characters wide where no name is longer. */
export function describeVerification(verification: LedgerVerification): string[] {
  const { differences, repeated, uncounted, attempts, left, sums } = verification;
  const found = [
    ...describeKind(
      differences,
      (many) => `${counted(many, 'amount')} of the counters ${many === 1 ? 'differs' : 'differ'} from the ledger:`,
      describeDifference,
      'Limits decide by the counters, reports and bills by the ledger. No command changes only one of them: look for whoever has changed the tables by hand, or restored only some of them. If nobody has, please report it.',
    ),
    ...describeKind(
      repeated,
      (many) => `${counted(many, 'request')} in the books more than once:`,
      describeRepeated,
      'A request is reserved or has one ledger row, never both and never two.',
    ),
    ...describeKind(
      uncounted,
      (many) => `${counted(many, 'ledger row')} with a cost that no counter has:`,
      ({ request_id, user, cost_nano_usd }: UncountedRequest) => `${request_id} of ${user}: ${usd(cost_nano_usd)}`,
      'Limits never saw this money. Stages of your own that reserve or settle without demands make such rows.',
    ),
    ...describeKind(
      attempts,
      (many) => `${counted(many, 'ledger row')} with attempts that do not come to ${many === 1 ? 'it' : 'them'}:`,
      describeAttempts,
      'A row costs what its attempts cost, and went where the last one did. No command changes attempts: look for whoever has changed the ledger by hand. If nobody has, please report it.',
    ),
    ...describeKind(
      left,
      (many) => `${counted(many, 'reservation')} left by gateways that are gone:`,
      describeLeft,
      'A running gateway records such reservations within two minutes, at the amount reserved. Start one; if one runs, its log says why it does not.',
    ),
    ...describeKind(
      sums,
      (many) => `${counted(many, 'sum')} of usage by hour or day ${many === 1 ? 'differs' : 'differ'} from the ledger:`,
      describeSum,
      'Reports on usage read these sums; bills, limits and the ledger itself are not concerned. Compute the sums of those days anew with `appscli ledger sum --since DAY --until DAY`.',
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
  const others = ', smaller ones (--json shows up to 1000)';
  return describeFindings(title(total), first.slice(0, SHOWN).map(describe), remedy, { total, others });
}

function describeDifference(difference: CounterDifference): string {
  const { counter_id, scope, key, window, unit, window_start, amount, kept, recomputed } = difference;
  const since = window_start === null ? '' : ` from ${formatMoment(window_start)}`;
  const counter =
    scope === null || key === null
      ? `counter ${counter_id ?? 'without an id'}, which does not exist`
      : `${describeCounter({ scope, key })}, ${window}${since}`;
  const told = (value: bigint) => {
    if (amount === 'in_flight') return counted(Number(value), 'request');
    return unit === null || unit === 'nano_usd' ? usd(value) : counted(Number(value), unit.slice(0, -1));
  };
  const off = kept - recomputed;
  const direction = off > 0n ? 'too much' : 'too little';
  return `${counter}: ${amount} ${told(kept)}, should be ${told(recomputed)} (${told(off < 0n ? -off : off)} ${direction})`;
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
  const heard = heartbeat_at === null ? 'is not known' : `was last heard of at ${formatMoment(heartbeat_at)}`;
  return `${request_id} of ${user}: ${usd(amount_nano_usd)} since ${formatMoment(reserved_at)}; its gateway ${heard}`;
}

function describeSum({ span, start, user, model, upstream, amount, off_by }: UsageDifference): string {
  const much = off_by < 0n ? -off_by : off_by;
  const money = amount.endsWith('_nano_usd');
  const name = amount.replace(/_nano_usd$/, '').replaceAll('_', ' ');
  const direction = off_by > 0n ? 'too much' : 'too little';
  const told = `${money ? usd(much) : String(much)} ${direction}`;
  const of = [user, model].map((each) => each ?? 'no name').join(', ');
  return `${span} from ${formatMoment(start)}, ${of} at ${upstream ?? 'no name'}: ${name} ${told}`;
}

function usd(nano_usd: bigint): string {
  return `${formatUsd(nano_usd)} USD`;
}

/** The same for programs; every amount is a decimal in a text, since a JSON number is not exact everywhere. */
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

/** What `appscli ledger sum` may be given; days are of UTC. */
interface SumOptions {
  readonly config: string;
  readonly since?: string;
  readonly until?: string;
  readonly json?: true;
}

/** `appscli ledger sum`: the sums that reports read, computed anew from the ledger. */
async function sum(context: CommandContext, { config, since, until, json }: SumOptions): Promise<number> {
  demandPeriod({ since, until });
  const lines = await withDatabase(context, config, ({ database }) => sumAgain(database, { since, until }));
  return showReport(context, json, { lines }, () => [`Summed up ${counted(lines, 'line')} of the ledger anew.`]);
}

/** `appscli ledger verify` and `sum`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'verify',
    summary: 'whether counters and sums say what the ledger comes to',
    about:
      'add the ledger up again and compare with it every counter of a limit, and the sums that reports on usage read; gateways may run; exit code 1 when something does not add up',
    place: 'configuration',
    json: 'print what was looked at and found as JSON, amounts as exact decimals',
    examples: ['appscli ledger verify', 'appscli ledger verify --json | jq .differences'],
    run: verify,
  },
  {
    name: 'sum',
    summary: 'compute the sums of usage anew from the ledger',
    about:
      'compute the sums by hour and day that reports on usage read anew from the ledger, where `ledger verify` found that they differ; the ledger itself is not changed, gateways may run',
    options: [
      option('--since <day>', 'first day, of UTC; else from the beginning', day),
      option('--until <day>', 'up to here, that day not included; else to the end', day),
    ],
    place: 'configuration',
    json: 'print how many lines of the ledger were summed up as JSON',
    examples: ['appscli ledger sum --since 2027-01-31 --until 2027-02-01'],
    run: sum,
  },
];
