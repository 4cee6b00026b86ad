import { defineStage, type ResponseEvent, type StageContext, StageError, type UpstreamConfig } from '../engine/api.ts';
import {
  type AnswerWatch,
  CALL_MEMORY,
  createTranslator,
  definitionOf,
  type Protocol,
  protocolOf,
  removeMadeReasoning,
  returnState,
  type Translation,
  takesTurns,
  translateRequest,
  wantsCallState,
} from '../engine/domain/protocols/index.ts';

/** State of an attempt: the translation of its response, and the recorder of its tool calls. */
interface Attempt {
  readonly translation?: Translation;
  readonly watch?: AnswerWatch | undefined;
}

const NO_MEMORY = { recall: undefined, watch: undefined };

const MEMORY_FACTS = [
  'principal.id',
  'request.session_key',
  'request.names_session',
  'request.tool_count',
  'request.choices',
] as const;

/** The remembered state of the caller's tool calls at an upstream, and a recorder for those of the response. */
function memoryFor(ctx: StageContext<never, (typeof MEMORY_FACTS)[number], never>, { state_boundary }: UpstreamConfig) {
  const caller = ctx.get('principal.id');
  if (caller === undefined) return NO_MEMORY;
  const asker = {
    caller,
    state_boundary,
    session: ctx.get('request.names_session') ? ctx.get('request.session_key') : undefined,
  };
  const may_call = (ctx.get('request.tool_count') ?? 0) > 0 && (ctx.get('request.choices') ?? 1) === 1;
  return {
    recall: CALL_MEMORY.recalling(asker),
    watch: may_call ? CALL_MEMORY.watch(asker) : undefined,
  };
}

const READS = [
  'request.id',
  'request.protocol',
  'request.model',
  'route.protocol',
  'route.upstream',
  'route.upstream_model',
] as const;
const READS_IF_SET = ['request.unproven_reasoning', 'request.input_tokens_estimate', ...MEMORY_FACTS] as const;

type TranslateContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], 'translation.losses'>;

export default defineStage({
  name: 'translate',
  version: 1,
  summary:
    'Translates for upstreams of another protocol; otherwise removes translated reasoning, and restores tool call state that clients omit.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      remember_calls: {
        type: 'boolean',
        default: true,
        description:
          'Whether the process remembers, for at most a day, state that chat upstreams expect back with tool calls, for clients that omit it. It may contain reasoning text.',
      },
    },
  },
  examples: [
    { title: 'Translate, and remember state of tool calls', yaml: '- stage: translate' },
    { title: 'Remember nothing of a response', yaml: '- stage: translate\n  options: { remember_calls: false }' },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: ['translation.losses'],
  raises: ['invalid_request', 'not_translatable', 'upstream_invalid', 'upstream_failed'],
  needs: ['raw-body', 'rewrite-body', 'convert-response'],
  below: ['check-budget', 'meter-usage'],
  create({ remember_calls }, { models, clock, config, pipeline }) {
    const may_remember = remember_calls && wantsCallState(config) && pipeline.protocol !== 'count_tokens';

    async function makeReady(ctx: TranslateContext, from: Protocol | undefined, to: Protocol): Promise<void> {
      const upstream = models.upstream(ctx.get('route.upstream'));
      const { recall, watch } = may_remember && definitionOf(to).kept.call_state ? memoryFor(ctx, upstream) : NO_MEMORY;
      if (from === to) {
        if (watch !== undefined) ctx.state = { watch } satisfies Attempt;
        if (recall !== undefined) await returnState(ctx.body!, recall);
        const found = ctx.get('request.unproven_reasoning');
        const { supports } = upstream;
        const is_taken = found === 'unsigned' ? supports.unsigned_reasoning : supports.unproven_reasoning;
        if (found !== undefined && !is_taken) await removeMadeReasoning(ctx.body!, to, supports.unsigned_reasoning);
        return;
      }
      // Token counting is not translated; the stages below reject it where the upstream cannot count.
      const protocol = ctx.get('request.protocol');
      if (protocol === 'count_tokens') return;
      if (from === undefined)
        throw new StageError('invalid_request', `Requests of the protocol ${protocol} cannot be translated.`);
      const { max_output_tokens, default_output_tokens, supports } = models.find(ctx.get('request.model'))!;
      const upstream_model = ctx.get('route.upstream_model');
      const { json, ...translation } = translateRequest({
        from,
        to,
        body: await ctx.body!.json(),
        upstream: ctx.get('route.upstream'),
        state_boundary: upstream.state_boundary,
        upstream_model,
        target: {
          max_output_tokens,
          default_output_tokens,
          thinking: supports.thinking,
          sampling: supports.sampling,
          strict_turns: upstream.supports.strict_turns ?? takesTurns(upstream_model),
          max_tokens_field: upstream.max_tokens_field,
          recall,
        },
        input_tokens_estimate: ctx.get('request.input_tokens_estimate'),
        request_id: ctx.get('request.id'),
        created_at: Math.floor(clock.now() / 1000),
      });
      ctx.state = { translation, watch } satisfies Attempt;
      ctx.body!.replace(json);
      ctx.convertResponse((head) => createTranslator(translation, head));
    }

    return {
      attempt(ctx) {
        ctx.state = undefined;
        const from = protocolOf(ctx.get('request.protocol'));
        const to = ctx.get('route.protocol') as Protocol;
        const is_as_it_is = from === to && !(may_remember && definitionOf(to).kept.call_state);
        const is_ready = is_as_it_is && ctx.get('request.unproven_reasoning') === undefined;
        return is_ready ? undefined : makeReady(ctx, from, to);
      },
      ...(may_remember && {
        event(ctx: { readonly state: unknown }, event: ResponseEvent) {
          (ctx.state as Attempt | undefined)?.watch?.read(event);
        },
      }),
      finish(ctx) {
        const { translation, watch } = (ctx.state ?? {}) as Attempt;
        watch?.end();
        if (translation !== undefined) ctx.set('translation.losses', translation.notes.names);
      },
    };
  },
});
