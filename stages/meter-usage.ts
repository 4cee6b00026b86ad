import { defineStage, type Outcome, type ResponseEvent, type StageContext } from '../engine/api.ts';
import {
  createMetering,
  IDENTITY_FACTS,
  METERING_FACTS,
  type Metering,
  requestIdentity,
  settleLater,
} from '../engine/domain/budget/index.ts';
import { mayBeBilled } from '../engine/domain/upstreams/index.ts';

const READS = [...new Set([...IDENTITY_FACTS.reads, ...METERING_FACTS.reads])] as const;
const READS_IF_SET = [...IDENTITY_FACTS.reads_if_set, ...METERING_FACTS.reads_if_set] as const;
const WRITES = [
  'usage.input_tokens',
  'usage.output_tokens',
  'usage.cache_read_input_tokens',
  'usage.cache_write_5m_input_tokens',
  'usage.cache_write_1h_input_tokens',
  'usage.server_tools',
  'usage.answered_model',
  'usage.billed',
  'usage.cost_nano_usd',
  'usage.provenance',
  'usage.possibly_billed_nano_usd',
] as const;

type MeterContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

const NO_TOOLS = Object.freeze({});

function writeFacts(ctx: MeterContext, outcome: Outcome): void {
  const { tokens, billed, server_tools = NO_TOOLS, provenance, cost_nano_usd: cost } = outcome;
  const { possibly_billed_nano_usd = 0 } = outcome;
  if (billed?.model !== undefined) ctx.set('usage.answered_model', billed.model);
  if (billed !== undefined) ctx.set('usage.billed', { ...billed });
  if (provenance.input !== 'unknown') {
    ctx.set('usage.input_tokens', tokens.input);
    ctx.set('usage.output_tokens', tokens.output);
    ctx.set('usage.cache_read_input_tokens', tokens.cache_read);
    ctx.set('usage.cache_write_5m_input_tokens', tokens.cache_write_5m);
    ctx.set('usage.cache_write_1h_input_tokens', tokens.cache_write_1h);
  }
  ctx.set('usage.server_tools', server_tools);
  ctx.set('usage.cost_nano_usd', cost);
  ctx.set('usage.provenance', provenance);
  if (possibly_billed_nano_usd > 0) ctx.set('usage.possibly_billed_nano_usd', possibly_billed_nano_usd);
}

export default defineStage({
  name: 'meter-usage',
  version: 1,
  summary: 'Reads the usage of a response, computes its cost, and settles the reservation with a ledger row.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      charge: {
        enum: ['full', 'nothing'],
        default: 'full',
        description: 'Charge of the request. `full`: the price of its model. `nothing`: its ledger row has zeros.',
      },
    },
  },
  examples: [
    { title: 'Meter and charge', yaml: '- stage: meter-usage' },
    {
      title: 'Record a request that the upstream does not charge',
      yaml: '- stage: meter-usage\n  options: { charge: nothing }',
    },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: WRITES,
  needs: ['database'],
  below: ['check-budget'],
  create({ charge }, services) {
    const metering = createMetering(services, charge, mayBeBilled);
    return {
      ...(charge === 'full' && {
        // Drops usage that a failed attempt reported; `settle` records what the upstream may bill for that attempt.
        attempt(ctx: MeterContext) {
          if (ctx.state !== undefined) ctx.state = undefined;
        },
        event(ctx: MeterContext, event: ResponseEvent) {
          ctx.state ??= metering.start(ctx);
          const more = metering.read(ctx.state as Metering, event);
          if (more !== undefined) ctx.reservation?.topUp(more);
        },
      }),
      finish(ctx) {
        if (!ctx.get('upstream.attempts')) return;
        const outcome = metering.settle(ctx, ctx.state as Metering | undefined);
        writeFacts(ctx, outcome);
        const reservation = ctx.reservation ?? services.ledger.unreserved(requestIdentity(ctx));
        settleLater(ctx, reservation, outcome, services.log);
      },
    };
  },
});
