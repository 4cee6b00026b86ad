/** Usage of chat completions and Responses, whose input includes cached tokens. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { times } from '../../support/times.ts';
import { type Event, NOTHING, settled } from './metered.ts';

const count = fc.nat(1_000_000);
const right = fc.record({ input: count, read: count, written: count, output: count, reasoning: count });
const wrong = fc.constantFrom(null, undefined, -1, 0.5, 1e300, '5', true, [], {});
const odd = fc.record(
  {
    prompt_tokens: fc.oneof(count, wrong),
    completion_tokens: fc.oneof(count, wrong),
    input_tokens: fc.oneof(count, wrong),
    output_tokens: fc.oneof(count, wrong),
    total_tokens: fc.oneof(count, wrong),
    prompt_tokens_details: fc.oneof(fc.record({ cached_tokens: fc.oneof(count, wrong) }), wrong),
    input_tokens_details: fc.oneof(fc.record({ cached_tokens: fc.oneof(count, wrong) }), wrong),
    completion_tokens_details: fc.oneof(fc.record({ reasoning_tokens: fc.oneof(count, wrong) }), wrong),
  },
  { requiredKeys: [] },
);
const protocol = fc.constantFrom('chat', 'responses');

type Usage = typeof right extends fc.Arbitrary<infer T> ? T : never;

function told(api: string, { input, read, written, output, reasoning }: Usage): object {
  const prompt = input + read + written;
  const details = [
    { cached_tokens: read, cache_write_tokens: written },
    { reasoning_tokens: Math.min(reasoning, output) },
  ];
  const total_tokens = prompt + output;
  if (api === 'responses') {
    const [input_tokens_details, output_tokens_details] = details;
    return { input_tokens: prompt, input_tokens_details, output_tokens: output, output_tokens_details, total_tokens };
  }
  const [prompt_tokens_details, completion_tokens_details] = details;
  return {
    prompt_tokens: prompt,
    prompt_tokens_details,
    completion_tokens: output,
    completion_tokens_details,
    total_tokens,
  };
}

function lastEvent(api: string, usage: unknown): Event {
  if (api === 'chat') return ['message', { choices: [], usage }];
  return ['response.completed', { type: 'response.completed', response: { status: 'completed', output: [], usage } }];
}

const settle = (api: string, events: Event[], ttl: string) =>
  settled({ events, facts: { 'request.protocol': api, 'route.protocol': api, 'request.cache.ttl': ttl } });

const RUNS = { numRuns: times(40) };

it('the parts of what is told are billed and add up to it', async () => {
  await fc.assert(
    fc.asyncProperty(protocol, right, fc.constantFrom('5m', '1h'), async (api, usage, ttl) => {
      const stop: Event = ['message', { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }];
      const events = [...(api === 'chat' ? [stop] : []), lastEvent(api, told(api, usage))];
      const { tokens, provenance } = await settle(api, events, ttl);
      const { input, read: cache_read, written, output } = usage;
      assert.deepEqual(tokens, { ...NOTHING, input, cache_read, [`cache_write_${ttl}`]: written, output });
      assert.equal(provenance.cost, 'upstream');
    }),
    RUNS,
  );
});

it('whatever is told, the bill is of whole tokens that can be paid for', async () => {
  await fc.assert(
    fc.asyncProperty(protocol, fc.array(fc.oneof(odd, fc.jsonValue())), async (api, usages) => {
      const { tokens, cost_nano_usd } = await settle(
        api,
        usages.map((usage) => lastEvent(api, usage)),
        'none',
      );
      for (const number of [...Object.values(tokens), cost_nano_usd]) {
        assert.ok(Number.isSafeInteger(number) && number >= 0, JSON.stringify(tokens));
      }
    }),
    RUNS,
  );
});
