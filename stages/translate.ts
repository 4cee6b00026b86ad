import { defineStage, StageError } from '../engine/api.ts';
import {
  createTranslator,
  type Protocol,
  protocolOf,
  removeMadeReasoning,
  type Translation,
  takesTurns,
  translateRequest,
} from '../engine/protocols/index.ts';

export default defineStage({
  name: 'translate',
  version: 1,
  summary:
    'Translates where the upstream does not speak the protocol of the client, and takes translated reasoning out of conversations where it does.',
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: translate' }],
  reads: [
    'request.id',
    'request.protocol',
    'request.model',
    'route.protocol',
    'route.upstream',
    'route.upstream_model',
  ],
  readsIfSet: ['request.unproven_reasoning', 'request.input_tokens_estimate'],
  writes: ['translation.losses'],
  raises: ['invalid_request', 'not_translatable', 'upstream_invalid', 'upstream_failed'],
  needs: ['raw-body', 'rewrite-body', 'convert-response'],
  below: ['check-budget', 'meter-usage'],
  create(_options, { models, clock }) {
    return {
      async attempt(ctx): Promise<void> {
        ctx.state = undefined;
        const protocol = ctx.get('request.protocol');
        const from = protocolOf(protocol);
        const to = ctx.get('route.protocol') as Protocol;
        if (from === to) {
          const found = ctx.get('request.unproven_reasoning');
          const { supports } = models.upstream(ctx.get('route.upstream'));
          const is_taken = found === 'unsigned' ? supports.unsigned_reasoning : supports.unproven_reasoning;
          if (found !== undefined && !is_taken) await removeMadeReasoning(ctx.body!, to, supports.unsigned_reasoning);
          return;
        }
        // Where tokens cannot be counted is for the stages below to say.
        if (protocol === 'count_tokens') return;
        if (from === undefined)
          throw new StageError('invalid_request', `Requests of the protocol ${protocol} cannot be translated.`);
        const { max_output_tokens, default_output_tokens, supports } = models.find(ctx.get('request.model'))!;
        const upstream = models.upstream(ctx.get('route.upstream'));
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
          },
          input_tokens_estimate: ctx.get('request.input_tokens_estimate'),
          request_id: ctx.get('request.id'),
          created_at: Math.floor(clock.now() / 1000),
        });
        ctx.state = translation;
        ctx.body!.replace(json);
        ctx.convertResponse((head) => createTranslator(translation, head));
      },
      finish(ctx) {
        const translation = ctx.state as Translation | undefined;
        if (translation !== undefined) ctx.set('translation.losses', translation.notes.names);
      },
    };
  },
});
