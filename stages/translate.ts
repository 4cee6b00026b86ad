import {
  createTranslator,
  defineStage,
  type Protocol,
  protocolOf,
  StageError,
  type Translation,
  translateRequest,
} from '../engine/api.ts';

export default defineStage({
  name: 'translate',
  version: 1,
  summary: 'Translates requests and their answers where the upstream does not speak the API of the client.',
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: translate' }],
  reads: ['request.id', 'request.surface', 'request.model', 'route.protocol', 'route.upstream_model'],
  writes: ['translation.losses'],
  raises: ['invalid_request', 'not_translatable', 'upstream_invalid', 'upstream_failed'],
  needs: ['raw-body', 'rewrite-body', 'convert-response'],
  below: ['check-budget', 'meter-usage'],
  create(_options, { models, clock }) {
    return {
      async request(ctx): Promise<undefined> {
        const surface = ctx.get('request.surface');
        const from = protocolOf(surface);
        const to = ctx.get('route.protocol') as Protocol;
        if (from === to) return;
        if (from === undefined)
          throw new StageError('invalid_request', `The surface ${surface} has no API to translate.`);
        const { max_output_tokens, supports } = models.find(ctx.get('request.model'))!;
        const { json, ...translation } = translateRequest({
          from,
          to,
          body: await ctx.body!.json(),
          upstream_model: ctx.get('route.upstream_model'),
          target: { max_output_tokens, thinking: supports.thinking, sampling: supports.sampling },
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
