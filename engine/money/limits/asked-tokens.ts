import type { ModelConfig, UpstreamConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { Protocol } from '../../contract/protocol.ts';
import type { StageContext } from '../../contract/stage.ts';
import { type MostTokens, mostTokens } from './most-tokens.ts';

/** The facts that say how many tokens a request asks for, beside its protocol. */
export const ASKED_FACTS = {
  reads: ['request.input_tokens_estimate', 'request.input_tokens_max'],
  reads_if_set: [
    'request.max_tokens',
    'request.context_window',
    'request.choices',
    'request.output_bounds',
    'request.iterations',
    'request.compacts',
    'route.protocol',
    'request.cache.ttl',
    'cache.downgraded',
  ],
} as const;

type AskedContext = Pick<
  StageContext<
    'request.protocol' | (typeof ASKED_FACTS)['reads'][number],
    (typeof ASKED_FACTS)['reads_if_set'][number]
  >,
  'get'
>;

/** How many answers a request asks for. */
export function choicesOf(ctx: AskedContext): number {
  return ctx.get('request.choices') ?? 1;
}

/** How many texts a request of an API beside those for models has at most; each may fill the window of its model. */
export function textsOf(ctx: AskedContext): number {
  return ctx.get('request.protocol') === 'none' ? choicesOf(ctx) : 1;
}

/** There are servers that take a bound of 0 for none. Raises invalid_request. */
export function refuseZeroBound(ctx: AskedContext, { name, supports }: UpstreamConfig): void {
  if (ctx.get('request.max_tokens') !== 0 || supports.max_tokens_0) return;
  throw new StageError(
    'invalid_request',
    `max_tokens: must be 1 or more: some providers take 0 for no bound at all. Where the upstream "${name}" takes it for no output, an administrator can say so: \`supports.max_tokens_0\`.`,
    { details: { param: 'max_tokens' } },
  );
}

/** The longest cache lifetime the prompt may be written for. Only the Messages protocol leaves that to the request. */
export function cacheLifetime(ctx: AskedContext): string {
  if (ctx.get('request.protocol') === 'none') return 'none';
  if (ctx.get('cache.downgraded') === true) return '5m';
  const asked = ctx.get('request.cache.ttl') ?? 'none';
  return asked === 'none' && (ctx.get('route.protocol') ?? 'messages') !== 'messages' ? '5m' : asked;
}

/** The context window of a model; a beta header may ask for a longer one, and the upstream may grant it. */
export function windowOf(ctx: AskedContext, { context_window }: ModelConfig): number {
  return Math.max(context_window, ctx.get('request.context_window') ?? 0);
}

/** The most tokens a request can use of a model. */
export function mostTokensOf(ctx: AskedContext, model: ModelConfig, upstream: UpstreamConfig): MostTokens {
  const max_tokens = ctx.get('request.max_tokens');
  const bounds = ctx.get('request.output_bounds') ?? (max_tokens === undefined ? {} : { max_tokens });
  return mostTokens(model, upstream, {
    window_asked: ctx.get('request.context_window'),
    protocol: ctx.get('request.protocol'),
    upstream_protocol: (ctx.get('route.protocol') as Protocol | undefined) ?? 'messages',
    input_max: ctx.get('request.input_tokens_max'),
    output_bounds: bounds as Readonly<Record<string, number>>,
    max_tokens,
    choices: choicesOf(ctx),
    iterations: ctx.get('request.iterations') ?? 1,
    compacts: ctx.get('request.compacts') ?? false,
  });
}

/** The tokens a request counts as against limits by tokens. */
export function likelyTokens(ctx: AskedContext, model: ModelConfig): number {
  const { max_output_tokens } = model;
  const input = Math.min(ctx.get('request.input_tokens_estimate'), windowOf(ctx, model) * textsOf(ctx));
  return input + Math.min(ctx.get('request.max_tokens') ?? max_output_tokens, max_output_tokens) * choicesOf(ctx);
}
