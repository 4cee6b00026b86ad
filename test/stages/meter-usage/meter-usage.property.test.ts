import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { times } from '../../support/times.ts';
import { type Event, NOTHING, settled } from './metered.ts';

type Json = Record<string, unknown>;

const MAX_TOKENS = 100_000_000;
const ESTIMATE = 500;

/** Mostly plausible counts, sometimes invalid ones. */
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

const settle = ({ events, aborted, ttl, relayed_bytes }: Request) =>
  settled({
    events: events.map((value) => [String(value.type), value]),
    facts: { 'request.cache.ttl': ttl, 'outcome.aborted': aborted, 'spend.reserved_nano_usd': undefined },
    relayed_bytes,
  });

/** One count by the events: the last usable value until the response is complete, and the highest from then on. */
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

/** Whether an event belongs to a response: text, usage, the end. */
function reportsUsage(value: Json): boolean {
  if (value.type === 'message_stop' || value.type === 'content_block_delta') return true;
  if ((value.delta as Json | undefined)?.stop_reason != null) return true;
  const found = value.type === 'message_start' ? (value.message as Json).usage : value.usage;
  return typeof found === 'object' && found !== null;
}

it('for any order and omission of usage fields the last usable value of each is billed, in exact numbers', async () => {
  await fc.assert(
    fc.asyncProperty(request, async (spec) => {
      const { tokens, provenance, cost_nano_usd, server_tools } = await settle(spec);
      const { events } = spec;
      const lastOf = (field: string) => last(events, (found) => found[field]);
      const split = (field: string) =>
        last(events, (found) => (found.cache_creation as Json | undefined)?.[field]) ?? 0;
      const [short, long] = [split('ephemeral_5m_input_tokens'), split('ephemeral_1h_input_tokens')];
      const total = lastOf('cache_creation_input_tokens') ?? 0;
      const { input, output, cache_read, cache_write_5m, cache_write_1h } = tokens;

      assert.equal(cache_read, lastOf('cache_read_input_tokens') ?? 0);
      assert.equal(cache_write_5m + cache_write_1h, Math.max(total, short + long));
      assert.ok(cache_write_5m >= short && cache_write_1h >= long);
      if (spec.ttl === '1h') assert.equal(cache_write_5m, short);
      else assert.equal(cache_write_1h, long);
      // A stream that broke off before any output of the model costs nothing.
      const is_charged = spec.aborted || events.some(reportsUsage);
      const estimate = is_charged ? Math.max(0, ESTIMATE - cache_read - cache_write_5m - cache_write_1h) : 0;
      assert.equal(input, lastOf('input_tokens') ?? estimate);
      assert.equal(provenance.input === 'upstream', lastOf('input_tokens') !== undefined);
      assert.ok(output >= (lastOf('output_tokens') ?? 0));
      if (provenance.output === 'upstream') assert.equal(output, lastOf('output_tokens'));
      else assert.equal(provenance.output, spec.aborted ? 'abort' : 'estimate');

      for (const number of [...Object.values(tokens), cost_nano_usd])
        assert.ok(Number.isSafeInteger(number) && number >= 0);
      const cost = input * 3000 + output * 15_000 + cache_read * 300 + cache_write_5m * 3750 + cache_write_1h * 6000;
      if (provenance.cost === 'most') assert.ok(cost_nano_usd > cost);
      else assert.equal(cost_nano_usd, cost);

      const uses = (tool: string) =>
        last(events, (found) => (found.server_tool_use as Json | null | undefined)?.[`${tool}_requests`], 10_000);
      for (const tool of ['web_search', 'web_fetch']) assert.equal(server_tools?.[tool], uses(tool) || undefined);
      const names = Object.keys(server_tools ?? {});
      assert.ok(names.every((name) => /^web_/.test(name)));
      assert.equal(provenance.server_tools, names.length === 0 ? undefined : 'unpriced');
    }),
    { numRuns: times(120) },
  );
});

const natural = fc.nat(1_000_000);
const wrong = fc.constantFrom(null, undefined, -1, 0.5, 1e300, '5', true, [], {});
const oddUsage = fc.record(
  {
    prompt_tokens: fc.oneof(natural, wrong),
    completion_tokens: fc.oneof(natural, wrong),
    input_tokens: fc.oneof(natural, wrong),
    output_tokens: fc.oneof(natural, wrong),
    total_tokens: fc.oneof(natural, wrong),
    prompt_tokens_details: fc.oneof(fc.record({ cached_tokens: fc.oneof(natural, wrong) }), wrong),
    input_tokens_details: fc.oneof(fc.record({ cached_tokens: fc.oneof(natural, wrong) }), wrong),
    completion_tokens_details: fc.oneof(fc.record({ reasoning_tokens: fc.oneof(natural, wrong) }), wrong),
  },
  { requiredKeys: [] },
);
const protocol = fc.constantFrom('chat', 'responses');

function lastEvent(api: string, usage: unknown): Event {
  if (api === 'chat') return ['message', { choices: [], usage }];
  return ['response.completed', { type: 'response.completed', response: { status: 'completed', output: [], usage } }];
}

const settleAs = (api: string, events: Event[], ttl: string) =>
  settled({ events, facts: { 'request.protocol': api, 'route.protocol': api, 'request.cache.ttl': ttl } });

it('any reported usage is billed in whole tokens at a payable amount', async () => {
  await fc.assert(
    fc.asyncProperty(protocol, fc.array(fc.oneof(oddUsage, fc.jsonValue())), async (api, usages) => {
      const { tokens, cost_nano_usd } = await settleAs(
        api,
        usages.map((usage) => lastEvent(api, usage)),
        'none',
      );
      for (const number of [...Object.values(tokens), cost_nano_usd]) {
        assert.ok(Number.isSafeInteger(number) && number >= 0, JSON.stringify(tokens));
      }
    }),
    { numRuns: times(40) },
  );
});

/** Values in place of an event or a document. */
const NO_EVENTS = [
  ...['', 'null', '[]', '7', '{', '"x"', '<html>', '{"choices":{}}', '{"choices":[null,7],"usage":7}', '{"usage":[]}'],
  ...['{"error":null}', '{"type":7}', '{"type":"response.', '{"type":"response.output_text.delta"}', '{"response":7}'],
  ...['{"type":"message","usage":[]}', '{"type":"message","usage":7}'],
];
const STOPS: Event = ['message', { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }];
const USAGE = { input_tokens: 100, output_tokens: 40 };
/** The names of events, and the last events of a response. */
const APIS: Readonly<Record<string, readonly [event_names: readonly string[], ends: readonly Event[]]>> = {
  messages: [
    ['message', 'message_start', 'message_delta', '__proto__'],
    [['message_delta', { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: USAGE }]],
  ],
  chat: [['message'], [STOPS, lastEvent('chat', { prompt_tokens: 100, completion_tokens: 40 })]],
  responses: [
    ['message', 'response.completed', 'response.output_text.delta', 'response.output_item.done', '__proto__'],
    [lastEvent('responses', USAGE)],
  ],
};

for (const [api, [event_names, ends]] of Object.entries(APIS)) {
  it(`anything in place of an event of ${api} neither changes the bill nor throws`, async () => {
    const events = event_names.flatMap((name) => NO_EVENTS.map((data): Event => [name, data]));
    const { tokens } = await settleAs(api, [...events, ...ends], 'none');
    assert.deepEqual(tokens, { ...NOTHING, input: 100, output: 40 });
    for (const data of NO_EVENTS) assert.ok((await settleAs(api, [[undefined, data]], 'none')).cost_nano_usd >= 0);
  });
}
