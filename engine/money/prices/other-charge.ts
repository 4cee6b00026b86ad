/** What requests cost to APIs beside those for models, whose answers need not say what they used. */
import { NO_MODEL } from '../../contract/no-model.ts';
import type { Outcome, TokenCounts } from '../../contract/services.ts';
import type { UsageReading } from '../../protocols/usage/reading.ts';
import { type Ending, settleUnknown } from '../ledger/ending.ts';
import { NO_TOKENS } from './prices.ts';

/** What is known of the cost of such a request, in nano-USD. */
export interface OtherCosts {
  readonly model: string;
  /** What the operator says that one request costs. */
  readonly per_request: number | undefined;
  /** The most it can cost by the price of its model. */
  readonly most: number;
  /** Whether what is possibly billed counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/** A charge of which nobody knows the tokens. */
export interface OtherCharge extends Pick<Outcome, 'provenance' | 'possibly_billed_nano_usd'> {
  readonly usage: TokenCounts;
  readonly cost: number;
}

/** Whether an answer tells what the request used, in tokens that have a price. */
export function tellsUsage(reading: UsageReading, model: string): boolean {
  return model !== NO_MODEL.id && reading.seen;
}

/**
 * The charge of a request whose answer does not tell its usage: what the operator says, else the most its model can cost, else
 * nothing. Tokens are never made up.
 */
export function chargeUnknown(ending: Exclude<Ending, 'refused'>, costs: OtherCosts): OtherCharge {
  const { model, per_request, most, counts_possible } = costs;
  const [amount, by] =
    per_request !== undefined
      ? ([per_request, 'per_request'] as const)
      : model === NO_MODEL.id
        ? ([0, 'unknown'] as const)
        : ([most, 'most'] as const);
  if (ending !== 'failed') return { usage: NO_TOKENS, provenance: unknownBy(by), cost: amount };
  const bounds = { known: 0, most: amount, usual: undefined, counts_possible };
  const { cost_nano_usd, possibly_billed_nano_usd, by: found } = settleUnknown('failed', bounds);
  return { usage: NO_TOKENS, provenance: unknownBy(found ?? 'unknown'), cost: cost_nano_usd, possibly_billed_nano_usd };
}

function unknownBy(cost: Outcome['provenance'][string]): Outcome['provenance'] {
  const unknown = 'unknown';
  return {
    input: unknown,
    output: unknown,
    cache_read: unknown,
    cache_write_5m: unknown,
    cache_write_1h: unknown,
    cost,
  };
}
