import { defineStage } from '../engine/api.ts';
import {
  Attempts,
  createTarget,
  FORWARD_READS,
  FORWARD_READS_IF_SET,
  FORWARD_WRITES,
} from '../engine/domain/upstreams/index.ts';

export default defineStage({
  name: 'forward',
  version: 1,
  summary: "Sends the request to the route's upstream, fails over to the next one, and streams the response back.",
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: forward' }],
  reads: FORWARD_READS,
  readsIfSet: FORWARD_READS_IF_SET,
  writes: FORWARD_WRITES,
  raises: [
    'not_supported',
    'upstream_unreachable',
    'upstream_failed',
    'upstream_invalid',
    'upstream_timeout',
    'upstream_unavailable',
  ],
  needs: ['raw-body', 'rewrite-body', 'respond', 'network'],
  terminal: true,
  create(_options, services) {
    const targets = new Map(
      services.config.upstreams.map((upstream) => [upstream.name, createTarget(upstream, services)]),
    );
    // Tests and simulations have a frozen clock and need the same waits in every run.
    const random = services.clock.frozen ? () => 0.5 : Math.random;
    const surroundings = { services, targets, random };
    return {
      request(ctx) {
        const attempts = new Attempts(ctx, surroundings);
        ctx.state = attempts;
        return attempts.serve();
      },
      response(ctx, head) {
        (ctx.state as Attempts).onHead(head);
        if (ctx.get('cache.downgraded')) head.set('x-gateway-cache-ttl', ctx.get('cache.effective_ttl')!);
      },
      event(ctx, event) {
        (ctx.state as Attempts | undefined)?.onEvent(event);
      },
      finish(ctx) {
        (ctx.state as Attempts | undefined)?.end(ctx.get('error.code'));
      },
      close() {
        for (const { transport } of targets.values()) transport.close();
      },
    };
  },
});
