import type { GatewayConfig } from '../../contract/config.ts';
import { formatUsd, nanoToUsd } from '../../kit/money.ts';
import { printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type MostExpensiveRequest, mostExpensiveRequest } from '../../money/limits/overshoot.ts';

/** How requests are charged whose bill the gateway may never see: early leavers, and what fails at an upstream. */
export interface UnknownBills {
  /** Upstreams whose answers are read on when the client has gone, and those whose answers are cancelled. */
  readonly drained: readonly string[];
  readonly cancelled: readonly string[];
  /** What is charged for one request can be off by what it can cost at most; `undefined` without models. */
  readonly most_expensive: MostExpensiveRequest | undefined;
  /** Whether it is charged the most it can cost, and whether what upstreams may bill for failures counts against limits. */
  readonly worst_case: boolean;
}

/** What a configuration makes of bills that nobody may ever see. */
export function unknownBills(config: GatewayConfig): UnknownBills {
  const named = (mode: string) =>
    config.upstreams.filter(({ on_client_abort }) => on_client_abort === mode).map(({ name }) => name);
  return {
    drained: named('drain'),
    cancelled: named('cancel'),
    most_expensive: mostExpensiveRequest(config),
    worst_case: config.spend_limits?.reserve === 'worst_case',
  };
}

const LINE_WIDTH = 80;

/** The same for people, for the summary of `check`. */
export function describeUnknownBills({ drained, cancelled, most_expensive, worst_case }: UnknownBills): string {
  const known = drained.length === 0 ? '' : `what the answer reports (${drained.join(', ')}); `;
  const where = drained.length === 0 ? '' : `beyond drain_limits${cancelled.length > 0 ? ', and' : ','} `;
  const at = cancelled.length > 0 ? `where answers are cancelled (${cancelled.join(', ')}), ` : '';
  const usual = worst_case ? 'the most they can cost' : 'what 95 of 100 such requests cost';
  const off =
    most_expensive === undefined ? '' : `, each off by at most ${formatUsd(most_expensive.cost_nano_usd)} USD`;
  const possible = worst_case
    ? 'counts against limits, up to the most a request can cost'
    : 'is kept apart and counts against no limit';
  return printableLines([
    ...wrapText(`early leavers: charged ${known}${where}${at}${usual}${off}`, LINE_WIDTH, '', '  '),
    ...wrapText(`failures of upstreams: charged nothing; what they may bill ${possible}`, LINE_WIDTH, '', '  '),
  ]);
}

/** The same for programs. */
export function unknownBillsJson({ most_expensive, worst_case, drained, cancelled }: UnknownBills): object {
  return {
    drained,
    cancelled,
    off_by_at_most_usd: most_expensive === undefined ? null : nanoToUsd(most_expensive.cost_nano_usd),
    possibly_billed_counts: worst_case,
  };
}
