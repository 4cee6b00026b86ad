/** Every field of a Messages request that the gateway's documents name, at an upstream of the same protocol. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { askBody, modelVia, post, sameAt, useNine } from '../support/nine.ts';
import { recordOf } from '../support/odd.ts';

const { gateway, provider } = useNine();

const READ = { name: 'read', description: 'Reads a file', input_schema: { type: 'object', properties: {} } };
const SCHEMA = { type: 'object', properties: {}, additionalProperties: false };
const CACHED = { type: 'ephemeral', ttl: '1h' };

/** Each is there alone, beside the fields of every request. The cases of translation have what becomes of them elsewhere. */
const FIELDS: readonly object[] = [
  { max_tokens: 321 },
  { system: 'Be terse.' },
  { stream: true },
  { tools: [READ], tool_choice: { type: 'any', disable_parallel_tool_use: true } },
  { tools: [{ ...READ, defer_loading: true }] },
  { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
  { metadata: { user_id: 'u-1' } },
  { stop_sequences: ['END'] },
  { temperature: 0.5, top_p: 0.9 },
  { top_k: 3 },
  { context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } },
  { output_config: { format: { type: 'json_schema', schema: SCHEMA } } },
  {
    system: [{ type: 'text', text: 'Be terse.', cache_control: CACHED }],
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: CACHED }] }],
    tools: [{ ...READ, cache_control: { type: 'ephemeral' } }],
  },
  { zz_beta_2031: { nested: [1, null] } },
];

describe('a Messages request', () => {
  const SEARCH = { type: 'web_search_20260318', name: 'web_search', max_uses: 2 };
  const OF_PROVIDER = {
    mcp_servers: { mcp_servers: [{ type: 'url', url: 'https://mcp.example.com', name: 'm' }] },
    'tools.0': { tools: [SEARCH] },
  };

  test('with any of them, and with tools that only its own provider can run, reaches a Messages upstream as it was sent', async () => {
    for (const said of [...FIELDS, ...Object.values(OF_PROVIDER)]) {
      provider.reset();
      const body = JSON.stringify(askBody('messages', sameAt('messages'), 'Hi', said), null, 1);
      await post(gateway, 'messages', body);
      assert.equal(provider.upstream.only().body.toString(), body);
    }
  });

  test("with such tools beside a client tool keeps the client's at another upstream, and the audit record shows it", async () => {
    const said = { ...OF_PROVIDER.mcp_servers, tools: [READ, SEARCH] };
    const response = await post(gateway, 'messages', askBody('messages', modelVia('chat'), 'Hi', said));
    assert.equal(response.status, 200, response.text);
    assert.equal(provider.only().body.tools.length, 1);
    assert.deepEqual((await recordOf(gateway, response)).losses, ['provider_tool']);
  });
});
