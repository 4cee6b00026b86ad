import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Settlement } from '../../../engine/api.ts';
import { openStage } from '../../../engine/simulate/stage-harness.ts';
import meterUsage from '../../../stages/meter-usage.ts';
import { times } from '../../support/times.ts';

type Json = Record<string, unknown>;

const RUNS = { numRuns: times(40) };
const MAX_TOKENS = 100_000_000;
const ESTIMATE = 500;

/** Mostly plausible counts, sometimes what no upstream should send. */
const count = fc.oneof(
  { weight: 6, arbitrary: fc.nat(100_000) },
  { weight: 2, arbitrary: fc.constantFrom(null, undefined) },
  { weight: 1, arbitrary: fc.constantFrom(-1, 0.5, 1e300, MAX_TOKENS, MAX_TOKENS + 1, '5', true, [], {}) },
);

const split = fc.oneof(
  fc.constantFrom(null, undefined, 'none'),
  fc.record({ ephemeral_5m_input_tokens: count, ephemeral_1h_input_tokens: count }, { requiredKeys: [] }),
);

const tools = fc.oneof(
  fc.constantFrom(null, undefined, 'none', []),
  fc.dictionary(fc.constantFrom('web_search_requests', 'web_fetch_requests', '__proto___requests', 'other'), count),
);

const usage = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record(
      {
        input_tokens: count,
        output_tokens: count,
        cache_read_input_tokens: count,
        cache_creation_input_tokens: count,
        cache_creation: split,
        server_tool_use: tools,
      },
      { requiredKeys: [] },
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom(null, undefined, 3, 'usage') },
);

const event = fc.oneof(
  usage.map((value): Json => ({ type: 'message_start', message: { usage: value } })),
  fc
    .tuple(usage, fc.constantFrom(null, 'end_turn', 'tool_use'))
    .map(([value, stop_reason]): Json => ({ type: 'message_delta', delta: { stop_reason }, usage: value })),
  fc.string().map((text): Json => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })),
  fc.constantFrom<Json>({ type: 'ping' }, { type: 'content_block_start' }, { type: 'message_stop' }),
);

const request = fc.record({
  events: fc.array(event, { maxLength: 12 }),
  aborted: fc.boolean(),
  ttl: fc.constantFrom('none', '5m', '1h'),
  relayed_bytes: fc.nat(100_000),
});

type Request = typeof request extends fc.Arbitrary<infer T> ? T : never;

async function settle({ events, aborted, ttl, relayed_bytes }: Request): Promise<Settlement> {
  const stage = openStage(meterUsage, { options: { charge: 'full' } });
  const ctx = stage.request({
    facts: {
      'request.id': 'req-1',
      'request.protocol': 'messages',
      'request.received_at': 0,
      'request.model': 'coder-1',
      'request.input_tokens_estimate': ESTIMATE,
      'request.cache.ttl': ttl,
      'principal.id': 'user:alice@example.com',
      'principal.email': 'alice@example.com',
      'principal.token.id': 'tok-1',
      'route.upstream': 'main',
      'route.upstream_model': 'coder-1',
      'upstream.attempts': 1,
      'upstream.status': 200,
      'outcome.aborted': aborted,
    },
  });
  ctx.relayed_bytes = relayed_bytes;
  for (const value of events) {
    stage.hooks.event!(ctx, { name: String(value.type), data: JSON.stringify(value) });
  }
  await stage.hooks.finish!(ctx);
  return stage.settlements[0]!;
}

/** What the events say about one count: the last usable value until the answer is complete, and the highest from then on. */
function last(events: readonly Json[], pick: (usage: Json) => unknown, most = MAX_TOKENS): number | undefined {
  let count: number | undefined;
  let is_complete = false;
  for (const value of JSON.parse(JSON.stringify(events)) as Json[]) {
    const usage = value.type === 'message_start' ? (value.message as Json).usage : value.usage;
    const found = typeof usage === 'object' && usage !== null ? pick(usage as Json) : undefined;
    if (Number.isInteger(found) && Number(found) >= 0 && Number(found) <= most) {
      count = is_complete ? Math.max(count ?? 0, Number(found)) : Number(found);
    }
    is_complete ||= value.type === 'message_stop' || (value.delta as Json | undefined)?.stop_reason != null;
  }
  return count;
}

/** Whether an event is of an answer: words, usage, the end. */
function tells(value: Json): boolean {
  if (value.type === 'message_stop' || value.type === 'content_block_delta') return true;
  if ((value.delta as Json | undefined)?.stop_reason != null) return true;
  const found = value.type === 'message_start' ? (value.message as Json).usage : value.usage;
  return typeof found === 'object' && found !== null;
}

describe('meter-usage, for any order and omission of usage fields', () => {
  it('takes the last usable value of every field, and lets none fall once the answer is complete', async () => {
    await fc.assert(
      fc.asyncProperty(request, async (wish) => {
        const { tokens, provenance } = await settle(wish);
        const { events } = wish;
        const short =
          last(events, (found) => (found.cache_creation as Json | undefined)?.ephemeral_5m_input_tokens) ?? 0;
        const long =
          last(events, (found) => (found.cache_creation as Json | undefined)?.ephemeral_1h_input_tokens) ?? 0;
        const total = last(events, (found) => found.cache_creation_input_tokens) ?? 0;
        const input = last(events, (found) => found.input_tokens);

        assert.equal(tokens.cache_read, last(events, (found) => found.cache_read_input_tokens) ?? 0);
        assert.equal(tokens.cache_write_5m + tokens.cache_write_1h, Math.max(total, short + long));
        assert.ok(tokens.cache_write_5m >= short && tokens.cache_write_1h >= long);
        assert.equal(
          wish.ttl === '1h' ? tokens.cache_write_5m : tokens.cache_write_1h,
          wish.ttl === '1h' ? short : long,
        );
        const cached = tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h;
        // A stream that broke off before a model said anything costs nothing.
        const is_charged = wish.aborted || events.some(tells);
        assert.equal(tokens.input, input ?? (is_charged ? Math.max(0, ESTIMATE - cached) : 0));
        assert.equal(provenance.input === 'upstream', input !== undefined);
      }),
      RUNS,
    );
  });

  it('never counts less output than the upstream reported last', async () => {
    await fc.assert(
      fc.asyncProperty(request, async (wish) => {
        const { tokens, provenance } = await settle(wish);
        const output = last(wish.events, (found) => found.output_tokens);
        assert.ok(tokens.output >= (output ?? 0));
        if (provenance.output === 'upstream') assert.equal(tokens.output, output);
        else assert.equal(provenance.output, wish.aborted ? 'abort' : 'estimate');
      }),
      RUNS,
    );
  });

  it('never makes a negative, fractional or inexact number, and prices what it counted', async () => {
    await fc.assert(
      fc.asyncProperty(request, async (wish) => {
        const { tokens, cost_nano_usd, provenance } = await settle(wish);
        for (const number of [...Object.values(tokens), cost_nano_usd]) {
          assert.ok(Number.isSafeInteger(number) && number >= 0, String(number));
        }
        const { input, output, cache_read, cache_write_5m, cache_write_1h } = tokens;
        const cost = input * 3000 + output * 15_000 + cache_read * 300 + cache_write_5m * 3750 + cache_write_1h * 6000;
        if (provenance.cost === 'most') assert.ok(cost_nano_usd > cost);
        else assert.equal(cost_nano_usd, cost);
      }),
      RUNS,
    );
  });

  it('counts the uses of a tool that were told last, or none', async () => {
    await fc.assert(
      fc.asyncProperty(request, async (wish) => {
        const { server_tools, provenance } = await settle(wish);
        const told = (field: string) => {
          const uses = last(
            wish.events,
            (found) => (found.server_tool_use as Json | null | undefined)?.[field],
            10_000,
          );
          return uses === 0 ? undefined : uses;
        };
        for (const tool of ['web_search', 'web_fetch']) assert.equal(server_tools?.[tool], told(`${tool}_requests`));
        const names = Object.keys(server_tools ?? {});
        assert.ok(names.every((name) => /^web_/.test(name)));
        assert.equal(provenance.server_tools, names.length === 0 ? undefined : 'unpriced');
      }),
      RUNS,
    );
  });
});
