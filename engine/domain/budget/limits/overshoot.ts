import type { GatewayConfig, ModelConfig } from '../../../base/contract/config.ts';
import type { EffectivePrice } from '../../../base/contract/services.ts';
import { isCertain } from '../../../base/rules/guards.ts';
import type { PipelineSpec } from '../../../base/source/spec.ts';
import { definitionOf } from '../../protocols/index.ts';
import { runCost } from '../ledger/expectations.ts';
import { idsAt } from '../prices/catalogue.ts';
import { cataloguedModels } from '../prices/known-models.ts';
import { createPriceBook } from '../prices/prices.ts';
import { overshootOf } from './headroom.ts';
import { spendLimits } from './spend-limits.ts';

interface MostExpensiveRequest {
  readonly model: string;
  readonly upstream: string;
  readonly cost_nano_usd: number;
}

/** Overshoot bounds of the configured limits in USD. */
export interface Overshoot {
  /** Largest overshoot of a limit, in nano-USD; absent without limits in USD. */
  readonly bound_nano_usd?: number;
  /** Whether there are only limits in other units. */
  readonly only_others?: true;
  readonly limits: readonly { readonly name: string; readonly bound_nano_usd: number }[];
  /** Under `reserve: typical` with a limit in USD. */
  readonly most_expensive?: MostExpensiveRequest;
  readonly not_bounded: readonly string[];
  /** Upstreams that do not declare to enforce `max_completion_tokens`; only under a reservation of the longest response. */
  readonly unbounded_at?: readonly string[];
}

/** Under `worst_case` the reservation includes the uses that the request allows. */
const ENDLESS_TOOLS = 'tools that the upstream runs, where a request does not bound their uses or they have no price';
/** The caller decides how often a request may use them. */
const PROVIDER_TOOLS = 'tools that the upstream runs';
/** Under `worst_case` they are reserved. */
const BESIDE = ['models that a request names beside its own', 'summaries of conversations'] as const;
const OTHER_FEES = 'fees that do not depend on use';
const WHILE_AWAY = 'requests during a database outage (on_store_error: allow)';

/** Whether a pipeline reserves the cost of each request before it forwards it. Counting tokens is free. */
function reservesAll({ match, stages }: PipelineSpec): boolean {
  if (match.protocol === 'count_tokens') return true;
  const runs = stages.filter(({ mode }) => mode === 'enforce');
  const sender = runs.findIndex(({ definition }) => definition.terminal && definition.needs.includes('network'));
  return (
    sender < 0 ||
    runs.slice(0, sender).some((entry) => {
      const charges = (entry.options as { charge?: string }).charge !== 'nothing';
      return isCertain(entry) && charges && entry.definition.writes.includes('spend.reserved_nano_usd');
    })
  );
}

/**
 * The overshoot bound of limits in USD. Under `worst_case` a request reserves the most it can cost: concurrent requests never
 * exceed a limit. Under `typical` the requests in flight may exceed a limit by `overshoot_percent` of it, and a single request by
 * its highest cost.
 */
export function overshootBound(config: GatewayConfig, pipelines: readonly PipelineSpec[]): Overshoot {
  const in_force = spendLimits(config).filter(({ mode }) => mode === 'enforce');
  const enforced = in_force.filter(({ unit }) => unit === 'nano_usd');
  if (config.spend_limits === undefined || enforced.length === 0) {
    return { limits: [], not_bounded: ['all spending'], ...(in_force.length > 0 && { only_others: true }) };
  }
  const { reserve, overshoot_percent } = config.spend_limits;
  const open = pipelines.filter((pipeline) => !reservesAll(pipeline));
  const not_bounded = [
    ...open.map(({ name }) => `what the pipeline ${name} sends without a full reservation`),
    ...(enforced.some(({ on_store_error }) => on_store_error === 'allow') ? [WHILE_AWAY] : []),
    ...(reserve === 'worst_case' ? [ENDLESS_TOOLS] : [...unknownModels(config), PROVIDER_TOOLS, ...BESIDE]),
    OTHER_FEES,
  ];
  if (reserve === 'worst_case') {
    const chat = config.upstreams.filter(({ protocols }) =>
      protocols.some((protocol) => definitionOf(protocol).output.fields.includes('max_completion_tokens')),
    );
    const unbounded_at = chat
      .filter(({ enforces, max_tokens_field }) => !max_tokens_field && !enforces.includes('max_completion_tokens'))
      .map(({ name }) => name);
    return { bound_nano_usd: 0, limits: [], not_bounded, unbounded_at };
  }
  const most_expensive = mostExpensiveRequest(config);
  const limits = enforced.map((limit) => {
    const share = overshootOf(Math.max(limit.limit ?? 0, ...Object.values(limit.by_group ?? {})), overshoot_percent);
    return { name: limit.name, bound_nano_usd: Math.max(share, most_expensive?.cost_nano_usd ?? 0) };
  });
  const bound_nano_usd = Math.max(...limits.map((limit) => limit.bound_nano_usd));
  return { bound_nano_usd, limits, ...(most_expensive && { most_expensive }), not_bounded };
}

/** The most expensive request of all models, upstreams and price periods; `undefined` without models. */
function mostExpensiveRequest(config: GatewayConfig): MostExpensiveRequest | undefined {
  const book = createPriceBook(config);
  let most_expensive: MostExpensiveRequest | undefined;
  for (const model of config.from_model_lists ? cataloguedModels(config) : config.models) {
    for (const { name: upstream } of config.upstreams) {
      for (const { price } of book.periods(model.id, upstream)) {
        const cost_nano_usd = price === undefined ? 0 : mostCost(model, price);
        if (most_expensive === undefined || cost_nano_usd > most_expensive.cost_nano_usd) {
          most_expensive = { model: model.id, upstream, cost_nano_usd };
        }
      }
    }
  }
  return most_expensive;
}

/** Upstreams whose models, and so their highest costs, are known from model lists only. */
function unknownModels({ from_model_lists, upstreams }: GatewayConfig): string[] {
  const names = from_model_lists ? upstreams.filter(({ base_url }) => idsAt(base_url).length === 0) : [];
  return names.map(({ name }) => `what one request to a model on the list of ${name} can cost`);
}

/** Highest cost of the tokens of a request: a full context window of the most expensive kind of input, and the longest output. */
function mostCost({ context_window: input, max_output_tokens }: ModelConfig, price: EffectivePrice): number {
  try {
    const costs = Object.values(price.served?.rates ?? { ordinary: price }).map((rates) => {
      const { audio_input, audio_output } = rates.pico;
      const audio = { input: audio_input !== undefined, output: audio_output !== undefined };
      return runCost(price, rates, { input, cache_ttl: '1h', audio }, Math.max(input, max_output_tokens));
    });
    return Math.max(...costs);
  } catch (error) {
    if (error instanceof RangeError) return Number.MAX_SAFE_INTEGER;
    throw error;
  }
}
