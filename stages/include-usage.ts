import { defineStage, isEventStream, type JsonValue } from '../engine/api.ts';
import { definitionNamed, withoutUsageChunk } from '../engine/domain/protocols/index.ts';

function optionsOf(value: unknown): Readonly<Record<string, JsonValue>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

export default defineStage({
  name: 'include-usage',
  version: 1,
  summary:
    'Requests usage from a chat completions upstream in streams if the client did not, and removes the report from the response.',
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: include-usage' }],
  reads: ['request.protocol', 'request.stream', 'route.protocol', 'route.upstream'],
  needs: ['raw-body', 'rewrite-body', 'convert-response'],
  create(_options, { config }) {
    const can = new Set(config.upstreams.filter(({ supports }) => supports.stream_usage).map(({ name }) => name));
    return {
      attempt(ctx): void {
        const protocol = ctx.get('request.protocol');
        if (!ctx.get('request.stream') || !definitionNamed(protocol)?.stream.has_usage_option) return;
        if (ctx.get('route.protocol') !== protocol || !can.has(ctx.get('route.upstream'))) return;
        const options = optionsOf(ctx.body!.value('stream_options'));
        if (options.include_usage === true) return;
        ctx.body!.rewrite('stream_options', { ...options, include_usage: true });
        ctx.convertResponse((head) => (isEventStream(head.get('content-type')) ? withoutUsageChunk() : undefined));
      },
    };
  },
});
