/** The cache lifetime of a request, and how exactly it is shortened. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { asksForHour, shortenCache } from '../../../engine/domain/protocols/body/body-facts.ts';
import { BufferedBody } from '../../../engine/pipeline/run/body.ts';
import { times } from '../../support/times.ts';

async function shortened(text: string, protocol: Protocol = 'messages') {
  const rewrites: string[] = [];
  const body = new BufferedBody(Buffer.from(text), (key) => rewrites.push(key));
  await shortenCache(body, protocol);
  return { text: String(body.bytes), rewrites };
}

const HOUR = { type: 'ephemeral', ttl: '1h' };
const MINUTES = { type: 'ephemeral', ttl: '5m' };

/** A body with the same control wherever the Messages API reads one. */
const everywhere = (cache_control: object) => ({
  cache_control,
  system: [
    { type: 'text', text: 'x-billing-header: v=1;' },
    { type: 'text', text: 'Be kind.', cache_control },
  ],
  tools: [
    { name: 'a', input_schema: { type: 'object' }, cache_control },
    { type: 'web_search_20250305', name: 'web_search', cache_control },
    { type: 'advisor_20260301', name: 'advisor', model: 'm', caching: cache_control },
    { type: 'mcp_toolset', mcp_server_name: 's', cache_control },
  ],
  messages: [
    { role: 'system', content: [{ type: 'text', text: 'x', cache_control }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'x', cache_control },
        { type: 'image', source: { type: 'url', url: 'https://x' }, cache_control },
        {
          type: 'document',
          source: { type: 'content', content: [{ type: 'text', text: 'x', cache_control }] },
          cache_control,
        },
        { type: 'search_result', source: 's', title: 't', content: [{ type: 'text', text: 'x', cache_control }] },
        { type: 'container_upload', file_id: 'f', cache_control },
        { type: 'tool_addition', tool: { name: 'b', input_schema: {}, cache_control }, cache_control },
      ],
    },
    { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'a', input: {}, cache_control }] },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'x', cache_control }], cache_control },
        {
          type: 'web_fetch_tool_result',
          content: { type: 'web_fetch_result', content: { type: 'document', source: {}, cache_control } },
        },
      ],
    },
  ],
});

/** What looks like a control, and is user data. */
const look_alike = { cache_control: HOUR, caching: HOUR, ttl: '1h' };
const LOOK_ALIKES = {
  metadata: { user_id: '{"cache_control":{"ttl":"1h"}}', ...look_alike },
  unknown: look_alike,
  caching: HOUR,
  prompt_cache_retention: '24h',
  // Of other APIs.
  input: [{ role: 'user', content: [{ type: 'input_text', text: 'x', cache_control: HOUR }] }],
  tools: [
    { type: 'function', function: { name: 'f', cache_control: HOUR } },
    { name: 'a', input_schema: { properties: look_alike, ...look_alike }, input_examples: [look_alike], ttl: '1h' },
    { name: 'b', cache_control: { type: 'ephemeral', TTL: '1h', max_ttl: '1h', inner: HOUR } },
    { name: 'd', cache_control: '1h' },
  ],
  messages: [
    { role: 'user', content: '"cache_control":{"type":"ephemeral","ttl":"1h"}' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'a', input: { content: [look_alike] } }] },
    { role: 'user', content: [{ type: 'tool_result', content: '{"cache_control":{"ttl":"1h"}}' }] },
    { role: 'user', content: [{ type: 'x', output: [{ text: 'x', cache_control: HOUR }] }] },
    { role: 'user', content: [{ type: 'text', text: 'x', caching: HOUR, ttl: '1h', cache_control: { ttl: '2h' } }] },
  ],
};

describe('a request for a lifetime of an hour', () => {
  it('is found and shortened wherever the Messages API reads it, and nothing else changes', async () => {
    const long = JSON.stringify(everywhere(HOUR), null, 1);
    const made = await shortened(long);
    assert.equal(made.text, JSON.stringify(everywhere(MINUTES), null, 1));
    assert.deepEqual(made.rewrites.sort(), ['cache_control', 'messages', 'system', 'tools']);
    assert.equal(asksForHour(everywhere(HOUR), 'messages'), true);
    assert.equal(asksForHour(everywhere(MINUTES), 'messages'), false);
    assert.equal(asksForHour({ messages: [{ role: 'user', content: 'hi' }] }, 'messages'), false);
  });

  it('is not found in third-party arguments, schemas, texts and keys', async () => {
    const text = JSON.stringify(LOOK_ALIKES);
    assert.deepEqual(await shortened(text), { text, rewrites: [] });
    assert.equal(asksForHour(LOOK_ALIKES, 'messages'), false);
  });

  it('is found however it is spelt and spaced', async () => {
    const odd =
      '{"sy\\u0073tem" : [ {"cache\\u005fcontrol"\n:\t{ "ttl" : "\\u0031h" , "type":"ephemeral"}, "1h":"\\u0031h"} ] }';
    const made = await shortened(odd);
    assert.equal(made.text, odd.replace('"ttl" : "\\u0031h"', '"ttl" : "5m"'));
    assert.deepEqual(made.rewrites, ['system']);
  });

  it('is translated to chat completions and Responses too', async () => {
    const lifetime = (long: boolean) => (long ? HOUR : MINUTES);
    const block = (prompt_cache_breakpoint: object, cache_control: object) => [
      { role: 'user', content: [{ type: 'text', text: 'x', prompt_cache_breakpoint, cache_control }] },
    ];
    const body = (key: string, long: boolean) => ({
      prompt_cache_key: 'k',
      prompt_cache_retention: long ? '24h' : 'in_memory',
      prompt_cache_options: { mode: 'explicit', ttl: long ? '12h' : '30m' },
      [key]: block({ ttl: long ? '12h' : '30m' }, lifetime(long)),
      tools: [{ type: 'function', function: { name: 'a', parameters: look_alike, cache_control: lifetime(long) } }],
    });
    for (const [protocol, key] of [
      ['chat', 'messages'],
      ['responses', 'input'],
    ] as const) {
      const made = await shortened(JSON.stringify(body(key, true)), protocol);
      assert.equal(made.text, JSON.stringify(body(key, false)));
      assert.equal(asksForHour(body(key, true), protocol), true);
      assert.equal(asksForHour(body(key, false), protocol), false);
    }
  });

  it('is all that changes, whatever else the body has', async () => {
    const keys = fc.constantFrom(
      ...['cache_control', 'ttl', 'caching', 'input', 'schema', 'text', 'é', '__proto__', 'toString'],
    );
    const leaf = fc.oneof(fc.constantFrom('1h', '5m', '"ttl":"1h"', '\\"1h\\"'), fc.jsonValue({ maxDepth: 1 }));
    const { anything } = fc.letrec((tie) => ({
      anything: fc.oneof(
        { maxDepth: 5 },
        leaf,
        fc.dictionary(keys, tie('anything'), { maxKeys: 4 }),
        fc.array(tie('anything'), { maxLength: 3 }),
      ),
    }));
    const control = fc.constantFrom('MARK' as const, { type: 'ephemeral' }, MINUTES, null, '1h');
    const block = fc.record(
      { type: fc.constant('text'), input: anything, input_schema: anything, cache_control: control, x: anything },
      { requiredKeys: ['type'] },
    );
    const blocks = fc.array(block, { maxLength: 3 });
    const body = fc.record(
      {
        metadata: anything,
        system: blocks,
        messages: fc.array(fc.record({ content: blocks })),
        tools: blocks,
        x: anything,
      },
      { requiredKeys: [] },
    );
    const spaces = fc.constantFrom(undefined, 1, '\t');
    await fc.assert(
      fc.asyncProperty(body, spaces, async (made, indent) => {
        // A control that is read is distinguished from every other by a mark that nothing else can be.
        const text = JSON.stringify(made, null, indent).replaceAll('"cache_control":"MARK"', '"cache_control": "MARK"');
        const said = (ttl: string) => text.replaceAll('"cache_control": "MARK"', `"cache_control" :{ "ttl":"${ttl}"}`);
        assert.equal((await shortened(said('1h'))).text, said('5m'));
      }),
      { numRuns: times(80) },
    );
  });
});
