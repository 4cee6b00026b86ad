import type { ModelConfig, UpstreamConfig } from '../config.ts';
import type { FactPath, FactValue } from '../facts.ts';
import { PROTOCOLS, type Protocol } from '../translation/protocol.ts';

type Written<P extends FactPath> = { readonly [path in P]?: FactValue<path> };

/** Facts that tell what the requested model is and can do. */
export type ModelFacts = Written<Extract<FactPath, `model.${string}`>>;

/** Facts that tell where a request goes, apart from the rule that decided it and the cost. */
export type UpstreamFacts = Written<
  | 'route.upstream'
  | 'route.protocol'
  | 'route.upstream_model'
  | 'route.region'
  | 'route.supports.count_tokens'
  | 'route.supports.prompt_cache_1h'
>;

/** What a model is and can do, for routing rules. */
export function modelFacts({ family, context_window, max_output_tokens, supports }: ModelConfig): ModelFacts {
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

/** Where a request of a surface for a model goes when an upstream was chosen. */
export function upstreamFacts(surface: string, model: ModelConfig, upstream: UpstreamConfig): UpstreamFacts {
  const { name, region, supports } = upstream;
  return {
    'route.upstream': name,
    'route.protocol': askedIn(surface, upstream),
    'route.upstream_model': model.upstream_ids[name] ?? model.id,
    ...(region !== undefined && { 'route.region': region }),
    'route.supports.count_tokens': supports.count_tokens,
    'route.supports.prompt_cache_1h': supports.prompt_cache_1h && model.supports.prompt_cache_1h,
  };
}

/** The client's own API where the upstream has it, else the first of the upstream's; tokens are counted in Messages. */
function askedIn(surface: string, { protocols }: UpstreamConfig): Protocol {
  const own = PROTOCOLS.find((protocol) => protocol === (surface === 'count_tokens' ? 'messages' : surface));
  return own !== undefined && protocols.includes(own) ? own : protocols[0]!;
}
