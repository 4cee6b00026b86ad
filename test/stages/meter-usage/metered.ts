/** Runs the stage meter-usage over responses that a test makes up. */
import assert from 'node:assert/strict';
import type { GatewayConfig, Settlement, TokenCounts } from '../../../engine/api.ts';
import { type Facts, openStage, type StageHarness, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import meterUsage from '../../../stages/meter-usage.ts';

/** The price of the harness's model, in nano-USD per token. */
export const PRICE = { input: 3000, output: 15_000, cache_read: 300, cache_write_5m: 3750, cache_write_1h: 6000 };

export const NOTHING: TokenCounts = { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

/** Facts of a request that was forwarded, with a response. */
export const FORWARDED: Facts = {
  'request.id': 'req-1',
  'request.protocol': 'messages',
  'request.received_at': 0,
  'request.model': 'coder-1',
  'request.input_tokens_estimate': 500,
  'request.cache.ttl': '5m',
  'principal.id': 'user:alice@example.com',
  'principal.email': 'alice@example.com',
  'principal.token.id': 'tok-1',
  'route.upstream': 'main',
  'route.upstream_model': 'coder-1',
  'spend.reserved_nano_usd': 1_000_000_000,
  'upstream.attempts': 1,
  'upstream.status': 200,
  'outcome.aborted': false,
};

/** An event of a response; values are sent as JSON, strings literally. */
export type Event = readonly [name: string | undefined, value: unknown];

/** A response to meter, and the facts of its request. */
export interface Metered {
  readonly events?: readonly Event[];
  readonly facts?: Facts;
  readonly relayed_bytes?: number;
  readonly charge?: 'full' | 'nothing';
  readonly config?: Partial<GatewayConfig>;
  /** The cost of 95 of 100 such requests at most. */
  readonly typical_cost?: number;
}

export async function meter(spec: Metered) {
  const { events = [], facts = {}, relayed_bytes = 0, charge = 'full', config, typical_cost } = spec;
  const stage: StageHarness = openStage(meterUsage, {
    options: { charge },
    ...(config && { config: stageConfig(config) }),
    ...(typical_cost !== undefined && { typicalCost: () => typical_cost }),
  });
  const ctx = stage.request({ facts: { ...FORWARDED, ...facts } });
  ctx.relayed_bytes = relayed_bytes;
  for (const [name, value] of events) {
    stage.hooks.event?.(ctx, { name, data: typeof value === 'string' ? value : JSON.stringify(value) });
  }
  await stage.hooks.finish!(ctx);
  return { stage, written: ctx.written, settlements: stage.settlements };
}

/** The one ledger row of a response. */
export async function settled(response: Metered): Promise<Settlement> {
  const { settlements } = await meter(response);
  assert.equal(settlements.length, 1);
  return settlements[0]!;
}

/** A ledger row in words: tokens, cost, and what it may cost beyond that. Figures of the upstream have no mark. */
export function inWords({ tokens, provenance, cost_nano_usd, possibly_billed_nano_usd: more }: Settlement): string {
  const mark = (by: string | undefined) => (by === 'upstream' ? '' : ` (${by})`);
  const counts = Object.entries(tokens).filter(([, count]) => count > 0);
  const words = counts.map(([kind, count]) => `${count} ${kind}${mark(provenance[kind as keyof typeof provenance])}`);
  const cost = `cost ${cost_nano_usd}${mark(provenance.cost)}`;
  return [...words, cost, ...(more === undefined ? [] : [`possibly ${more} more`])].join(', ');
}

export const billed = async (response: Metered) => inWords(await settled(response));

export function document(usage: unknown): Event[] {
  return [[undefined, { type: 'message', content: [], usage }]];
}

/** The first event of a stream. */
export function start(usage: unknown): Event {
  return ['message_start', { type: 'message_start', message: { type: 'message', usage } }];
}

export function delta(text: string): Event {
  const value = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } };
  return ['content_block_delta', value];
}

/** The event that ends a message, unless there is no stop reason. */
export function end(usage: unknown, stop_reason: string | null = 'end_turn'): Event {
  return ['message_delta', { type: 'message_delta', delta: { stop_reason }, usage }];
}

/** The last event of a stream. */
export const STOP: Event = ['message_stop', { type: 'message_stop' }];
/** The response broke off. */
export const CUT: Facts = { 'error.code': 'upstream_failed' };
/** The client went away. */
export const ABORTED: Facts = { 'outcome.aborted': true };
