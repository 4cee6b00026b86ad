import type { RoutingRuleConfig, UpstreamConfig } from '../contract/config.ts';
import { StageError } from '../contract/errors.ts';
import type { FactPath, FactValue } from '../contract/facts.ts';
import type { CacheLifetime } from '../contract/services.ts';

/** Facts about the prompt cache that change with the upstream. */
export const CACHE_FACTS = ['cache.effective_ttl', 'cache.downgraded'] as const;

/** What becomes of a request for a 1-hour lifetime; `as_asked` where its upstream can do what it asks for. */
export type CacheFate = 'as_asked' | UpstreamConfig['on_unsupported_cache'];

/** What becomes of the prompt cache of a request at one upstream. */
export interface CacheChoice {
  readonly fate: CacheFate;
  readonly facts: { readonly [path in (typeof CACHE_FACTS)[number]]: FactValue<path & FactPath> };
}

/** What may happen, made once: nothing of it depends on the request but what it asks for. */
const CHOICES: ReadonlyMap<string, CacheChoice> = new Map(
  (['as_asked', 'downgrade', 'refuse', 'pass'] as const).flatMap((fate) =>
    (['none', '5m', '1h'] as const).map((asked) => [`${fate} ${asked}`, choiceOf(fate, asked)] as const),
  ),
);

function choiceOf(fate: CacheFate, asked: CacheLifetime): CacheChoice {
  const downgraded = fate === 'downgrade';
  return Object.freeze({
    fate,
    facts: Object.freeze({
      'cache.effective_ttl': downgraded ? '5m' : asked,
      'cache.downgraded': downgraded,
    }),
  });
}

/**
 * What becomes of a request that asks for a cache lifetime, at an upstream.
 * @param asked the fact `cache.requested_ttl`; none where it is absent
 * @param keeps_hour whether upstream and model keep prompts for an hour (`route.supports.prompt_cache_1h`)
 * @param rule the rule that chose the upstream; what it says goes before what the upstream says
 */
export function cacheChoice(
  asked: string | undefined,
  keeps_hour: boolean,
  upstream: Pick<UpstreamConfig, 'on_unsupported_cache'>,
  rule?: Pick<RoutingRuleConfig, 'on_unsupported_cache'>,
): CacheChoice {
  const fits = asked !== '1h' || keeps_hour;
  const fate = fits ? 'as_asked' : (rule?.on_unsupported_cache ?? upstream.on_unsupported_cache);
  return CHOICES.get(`${fate} ${asked ?? 'none'}`)!;
}

/** The refusal of a request for a 1-hour lifetime that none of the upstreams it could go to supports. */
export function refuseLifetime(upstreams: readonly string[]): StageError {
  const names = upstreams.map((name) => `"${name}"`).join(' and ');
  const what = upstreams.length === 1 ? `The upstream ${names} does` : `The upstreams ${names} do`;
  const message = `${what} not keep prompts of this model for an hour, and the gateway is told to refuse such requests (on_unsupported_cache). Ask for five minutes: cache_control with ttl 5m, or without ttl; with the client of the Messages API set FORCE_PROMPT_CACHING_5M=1.`;
  return new StageError('invalid_request', message, {
    details: { param: 'cache_control.ttl', ...(upstreams.length === 1 && { upstream: upstreams[0]! }) },
  });
}
