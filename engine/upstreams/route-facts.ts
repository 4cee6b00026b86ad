import type { ModelConfig, UpstreamConfig } from '../contract/config.ts';
import type { FactPath, FactValue } from '../contract/facts.ts';
import { askedIn } from '../contract/protocol.ts';

type Written<P extends FactPath> = { readonly [path in P]?: FactValue<path> };

/** Facts that tell what the requested model is and can do. */
export const MODEL_FACTS = [
  'model.family',
  'model.context_window',
  'model.max_output_tokens',
  'model.supports.tools',
  'model.supports.images',
  'model.supports.thinking',
  'model.supports.prompt_cache_1h',
] as const;

/** Facts that tell where a request goes, apart from the rule that decided it and the cost. */
export const UPSTREAM_FACTS = [
  'route.upstream',
  'route.protocol',
  'route.upstream_model',
  'route.region',
  'route.supports.count_tokens',
  'route.supports.prompt_cache_1h',
] as const;

type ModelFacts = Written<(typeof MODEL_FACTS)[number]>;

const facts_of_models = new WeakMap<ModelConfig, ModelFacts>();

/** What a model is and can do, for routing rules. */
export function modelFacts(model: ModelConfig): ModelFacts {
  let facts = facts_of_models.get(model);
  if (facts === undefined) {
    facts = describeModel(model);
    facts_of_models.set(model, facts);
  }
  return facts;
}

function describeModel({ family, context_window, max_output_tokens, supports }: ModelConfig): ModelFacts {
  return {
    ...(family !== undefined && { 'model.family': family }),
    'model.context_window': context_window,
    'model.max_output_tokens': max_output_tokens,
    'model.supports.tools': supports.tools,
    'model.supports.images': supports.images,
    'model.supports.thinking': supports.thinking !== 'none',
    'model.supports.prompt_cache_1h': supports.prompt_cache_1h,
  };
}

/** Where a request of a protocol for a model goes when an upstream was chosen; what is not known there is `undefined`. */
export function upstreamFacts(
  protocol: string,
  model: ModelConfig,
  upstream: UpstreamConfig,
): { readonly [path in (typeof UPSTREAM_FACTS)[number]]: FactValue<path> | undefined } {
  const { name, region, protocols, supports } = upstream;
  return {
    'route.upstream': name,
    'route.protocol': askedIn(protocol, protocols),
    'route.upstream_model': model.upstream_ids[name] ?? model.id,
    'route.region': region,
    'route.supports.count_tokens': supports.count_tokens,
    'route.supports.prompt_cache_1h': supports.prompt_cache_1h && model.supports.prompt_cache_1h,
  };
}
