/** Facts, attempts and upstreams in words, for commands and pages alike. @module */
import { ATTEMPT_REASONS, DROP_REASONS } from '../../base/contract/forwarding.ts';
import { formatUsd, isNanoUsd, usdToNano } from '../../base/kit/money.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import type { Reason } from '../../base/rules/trace.ts';
import type { RequestAttempt } from '../../domain/budget/reports/request-ledger.ts';

export type FormatMoment = (moment: Date) => string;

/** A time to the minute in UTC. */
export const formatInUtc: FormatMoment = (moment) => `${moment.toISOString().slice(0, 16).replace('T', ' ')} UTC`;

/** The value of a fact for people: money in USD, times as dates. */
export function describeValue(path: string, value: unknown, format: FormatMoment = formatInUtc): string {
  if (value === null || value === undefined) return 'not set';
  if (isNanoUsd(path)) return `${formatUsd(Number(value))} USD`;
  if (path.endsWith('_at')) return format(new Date(Number(value)));
  return jsonText(value);
}

/** A comparison with the facts it read: `request.model is coder-1 (request.model is "coder-2")`. */
export function describeReason({ condition, saw }: Reason, format: FormatMoment = formatInUtc): string {
  const values = Object.entries(saw).map(([path, value]) => `${path} is ${describeValue(path, value, format)}`);
  return values.length === 0 ? condition : `${condition} (${values.join(', ')})`;
}

/** An amount of a limit, in its unit. */
export function describeAmount(unit: string, amount: number): string {
  return unit === 'usd' ? `${formatUsd(usdToNano(amount))} USD` : `${amount} ${unit}`;
}

function meaningOf(words: Readonly<Record<string, string>>, word: string): string {
  return Object.hasOwn(words, word) ? `${words[word]} (${word})` : word;
}

/** The result of an attempt: `main: overloaded, status 529, 12 ms; went to the next upstream: overloaded (next_overloaded)`. */
export function describeAttempt(attempt: Omit<RequestAttempt, 'cost_nano_usd'>): string {
  const { upstream, outcome, status, reason, ms, possibly_billed_nano_usd: possibly } = attempt;
  const facts = [
    outcome,
    ...(status === null ? [] : [`status ${status}`]),
    ...(ms === null || ms === undefined ? [] : [`${Math.round(ms)} ms`]),
    ...(possibly ? [`possibly billed: ${formatUsd(possibly)} USD`] : []),
  ];
  return `${upstream}: ${facts.join(', ')}; ${meaningOf(ATTEMPT_REASONS, reason)}`;
}

/** Why an upstream was skipped, from `name: reason`. */
export function describeDropped(text: string): string {
  const [upstream = '', reason = ''] = text.split(': ');
  return `${upstream}: ${meaningOf(DROP_REASONS, reason)}`;
}
