import { fieldsOf } from './answer.ts';
import type { SelfCheck, TokensUsed } from './check.ts';

/** What a model costs. */
export interface Price {
  readonly input_usd_per_million: number;
  readonly output_usd_per_million: number;
}

/**
 * Where a price comes from: the gateway's list of models, an assumption where it tells none, or nowhere, because the echo
 * upstream answers.
 */
export type PriceSource = 'gateway' | 'assumed' | 'echo';

/** That of a model of middle size; all checks but the runs of clients cost less than one cent at it. */
export const ASSUMED_PRICE: Price = { input_usd_per_million: 3, output_usd_per_million: 15 };

/** Where nothing reaches a provider. */
export const NO_PRICE: Price = { input_usd_per_million: 0, output_usd_per_million: 0 };

const MILLION = 1e6;
/** No token costs as much, so a larger number is the price of a million. */
const TOKEN_USD_MAX = 0.01;

/** The price that an entry of a list of models tells, in one of the forms that gateways use; `undefined` where it tells none. */
export function toldPrice(entry: Readonly<Record<string, unknown>>): Price | undefined {
  const { pricing, input_cost_per_token, output_cost_per_token } = entry;
  const { prompt, completion, input, output } = fieldsOf(pricing);
  const input_usd = numberOf(prompt ?? input ?? input_cost_per_token);
  const output_usd = numberOf(completion ?? output ?? output_cost_per_token);
  if (input_usd === undefined || output_usd === undefined) return undefined;
  const factor = Math.max(input_usd, output_usd) > TOKEN_USD_MAX ? 1 : MILLION;
  return { input_usd_per_million: input_usd * factor, output_usd_per_million: output_usd * factor };
}

function numberOf(value: unknown): number | undefined {
  if (typeof value !== 'number' && (typeof value !== 'string' || value.trim() === '')) return undefined;
  const number = Number(value);
  return Number.isFinite(number) && number >= 0 && number < MILLION ? number : undefined;
}

/** What tokens cost, in USD. */
export function costOf({ input, output }: TokensUsed, price: Price): number {
  return (input * price.input_usd_per_million + output * price.output_usd_per_million) / MILLION;
}

/** What checks cost at most, and which of them would cost too much. */
export interface Budget {
  readonly requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly usd: number;
  /** Checks that do not fit, with what to allow for each. */
  readonly too_dear: ReadonlyMap<SelfCheck, number>;
}

/** Takes as many checks as `max_usd` pays for, in their order; those behind one that is too dear may still fit. */
export function planCosts(checks: readonly SelfCheck[], price: Price, max_usd: number): Budget {
  const total = { requests: 0, input_tokens: 0, output_tokens: 0, usd: 0 };
  const too_dear = new Map<SelfCheck, number>();
  for (const check of checks) {
    const { uses } = check;
    if (uses === undefined) continue;
    const usd = costOf(uses, price);
    if (total.usd + usd > max_usd) {
      too_dear.set(check, usd);
      continue;
    }
    total.requests += uses.requests ?? 1;
    total.input_tokens += uses.input;
    total.output_tokens += uses.output;
    total.usd += usd;
  }
  return { ...total, too_dear };
}
