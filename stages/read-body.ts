import { defineStage, readBodyFacts, StageError } from '../engine/api.ts';

const WRITES = [
  'request.body_bytes',
  'request.model',
  'request.alias',
  'request.max_tokens',
  'request.stream',
  'request.choices',
  'request.tool_count',
  'request.server_tool_uses',
  'request.message_count',
  'request.image_count',
  'request.input_tokens_estimate',
  'request.input_tokens_max',
  'request.cache.ttl',
  'request.service_tier',
  'request.speed',
  'request.inference_geo',
  'request.decisive_fields',
] as const;

export default defineStage<Record<never, never>, 'request.surface', never, (typeof WRITES)[number]>({
  name: 'read-body',
  version: 1,
  summary: 'Reads the request body into memory and notes what routing and spend rules may know about it.',
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: read-body' }],
  reads: ['request.surface'],
  writes: WRITES,
  raises: [
    'invalid_request',
    'invalid_json',
    'invalid_encoding',
    'body_too_large',
    'request_timeout',
    'overloaded',
    'bad_http',
  ],
  needs: ['raw-body'],
  create: (_options, { models }) => ({
    async request(ctx) {
      const { 'content-encoding': coding = 'identity' } = ctx.headers;
      if (String(coding).trim().toLowerCase() !== 'identity') {
        throw new StageError('invalid_encoding', 'The request body is compressed; send it without a content-encoding.');
      }
      const body = await ctx.readBody();
      const facts = readBodyFacts(ctx.get('request.surface'), body);
      // A model nobody has is refused by the stage that routes.
      const model = models.find(facts.model)?.id ?? facts.model;
      ctx.set('request.body_bytes', body.bytes.length);
      ctx.set('request.model', model);
      if (model !== facts.model) ctx.set('request.alias', facts.model);
      if (facts.max_tokens !== undefined) ctx.set('request.max_tokens', facts.max_tokens);
      ctx.set('request.stream', facts.stream);
      ctx.set('request.choices', facts.choices);
      ctx.set('request.tool_count', facts.tool_count);
      ctx.set('request.server_tool_uses', facts.server_tool_uses);
      ctx.set('request.message_count', facts.message_count);
      ctx.set('request.image_count', facts.image_count);
      ctx.set('request.input_tokens_estimate', facts.input_tokens_estimate);
      ctx.set('request.input_tokens_max', facts.input_tokens_max);
      ctx.set('request.cache.ttl', facts.cache_ttl);
      const { service_tier, speed, inference_geo } = facts.served;
      if (service_tier !== undefined) ctx.set('request.service_tier', service_tier);
      if (speed !== undefined) ctx.set('request.speed', speed);
      if (inference_geo !== undefined) ctx.set('request.inference_geo', inference_geo);
      if (facts.decisive !== undefined) ctx.set('request.decisive_fields', facts.decisive);
      return undefined;
    },
  }),
});
