import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openStage } from '../../engine/simulate/stage-harness.ts';
import readBody from '../../stages/read-body.ts';

async function factsOf(body: string | object): Promise<Record<string, unknown>> {
  const stage = openStage(readBody);
  const ctx = stage.request({ body: typeof body === 'string' ? body : JSON.stringify(body) });
  await stage.hooks.request!(ctx);
  return ctx.written;
}

const refusal = (body: string | object, param: string) =>
  assert.rejects(factsOf(body), (error: { code: string; details: { param?: string } }) => {
    assert.equal(error.code, 'invalid_request');
    assert.equal(error.details.param, param);
    return true;
  });

describe('read-body', () => {
  it('notes what rules may know and nothing of the text', async () => {
    const body = {
      model: 'm',
      max_tokens: 7,
      stream: true,
      tools: [{ name: 't' }],
      messages: [{ role: 'user', content: 'secret' }],
    };
    const facts = await factsOf(body);
    assert.equal(facts['request.model'], 'm');
    assert.equal(facts['request.max_tokens'], 7);
    assert.equal(facts['request.stream'], true);
    assert.equal(facts['request.tool_count'], 1);
    assert.equal(facts['request.message_count'], 1);
    assert.ok(!JSON.stringify(facts).includes('secret'));
  });

  it('refuses fields of the wrong type by name', async () => {
    await refusal({ max_tokens: 1 }, 'model');
    await refusal({ model: 5 }, 'model');
    await refusal({ model: '' }, 'model');
    await refusal({ model: 'm', max_tokens: -1 }, 'max_tokens');
    await refusal({ model: 'm', max_tokens: 1.5 }, 'max_tokens');
    await refusal({ model: 'm', max_tokens: '9' }, 'max_tokens');
    await refusal({ model: 'm', stream: 'yes' }, 'stream');
    await refusal({ model: 'm', messages: {} }, 'messages');
    await refusal({ model: 'm', tools: 'all' }, 'tools');
    for (const body of ['[]', '"m"', 'null', '1']) {
      await assert.rejects(factsOf(body), { code: 'invalid_request' });
    }
  });

  it('refuses a decisive key that occurs twice, also when one of them is spelt with escapes', async () => {
    await refusal('{"model":"cheap","model":"expensive"}', 'model');
    await refusal('{"model":"cheap","mod\\u0065l":"expensive"}', 'model');
    await refusal('{"model":"m","max_tokens":1,"max_tokens":9}', 'max_tokens');
    const twice = await factsOf('{"model":"m","x":1,"x":2,"messages":[{"model":"deep"}]}');
    assert.equal(twice['request.model'], 'm');
  });

  it('finds the longest cache lifetime asked for, and takes hidden spelling for the most expensive', async () => {
    const cached = (control: object) => ({ model: 'm', system: [{ type: 'text', text: 'x', cache_control: control }] });
    assert.equal((await factsOf({ model: 'm' }))['request.cache.ttl'], 'none');
    assert.equal((await factsOf(cached({ type: 'ephemeral' })))['request.cache.ttl'], '5m');
    assert.equal((await factsOf(cached({ type: 'ephemeral', ttl: '1h' })))['request.cache.ttl'], '1h');
    const hidden = '{"model":"m","system":[{"cache_c\\u006fntrol":{"ttl":"\\u0031h"}}]}';
    assert.equal((await factsOf(hidden))['request.cache.ttl'], '1h');
    assert.equal((await factsOf('{"model":"m","x":"caf\\u00e9 \\u001b"}'))['request.cache.ttl'], 'none');
    // Many writers of JSON spell <, > and & so.
    assert.equal((await factsOf('{"model":"m","x":"\\u003ca\\u003E \\u0026 \\u0060"}'))['request.cache.ttl'], 'none');
    for (const code of ['0031', '0043', '005f', '005F', '0068', '0074', '007a'])
      assert.equal((await factsOf(`{"model":"m","x":"\\u${code}"}`))['request.cache.ttl'], '1h', code);
  });

  it('tells a lifetime that the API reads from what only looks like one', async () => {
    const requested = async (body: object | string) => (await factsOf(body))['cache.requested_ttl'];
    const cached = (control: object) => ({ model: 'm', system: [{ type: 'text', text: 'x', cache_control: control }] });
    assert.equal(await requested({ model: 'm' }), 'none');
    assert.equal(await requested(cached({ type: 'ephemeral' })), '5m');
    assert.equal(await requested(cached({ type: 'ephemeral', ttl: '1h' })), '1h');
    const hidden = '{"model":"m","system":[{"cache_c\\u006fntrol":{"ttl":"\\u0031h"}}]}';
    assert.equal(await requested(hidden), '1h');
    assert.equal(await requested('{"model":"m","messages":[{"role":"user","content":"\\u0061"}]}'), 'none');
    const call = { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'n', input: { range: '1h' } }] };
    assert.equal(await requested({ ...cached({ type: 'ephemeral' }), messages: [call] }), '5m');
  });

  it('finds a lifetime wherever it stands in a large body, behind what only looks like one', async () => {
    const lifetimeBehind = async (head: string, size: number, tail: string) => {
      const begin = `{"model":"m","x":[${head}"`;
      return (await factsOf(`${begin}${'a'.repeat(size - begin.length - 2)}",${tail}]}`))['request.cache.ttl'];
    };
    const marked = '{"cache_control":{}},"11h",';
    const of_provider = '{"prompt_cache_breakpoint":{}},"112h",';
    for (const end of [65_536, 131_072, 1_048_576, 1_114_112]) {
      for (let size = end - 8; size <= end + 2; size++) {
        assert.equal(await lifetimeBehind(marked, size, '"1h"'), '1h', `${size}`);
        if (end > 131_072) continue;
        assert.equal(await lifetimeBehind(marked, size, '"12h"'), '5m', `${size}`);
        assert.equal(await lifetimeBehind(of_provider, size, '"12h"'), '1h', `${size}`);
        assert.equal(await lifetimeBehind('"\\u001b",', size, '"\\u0063"'), '1h', `${size}`);
        assert.equal(await lifetimeBehind('"\\u001b",', size, '"_control"'), 'none', `${size}`);
      }
    }
  });

  it('bounds the input by its bytes and by what the body only refers to', async () => {
    const plain = { model: 'm', messages: [{ role: 'user', content: 'hello' }] };
    const bytes = Buffer.byteLength(JSON.stringify(plain));
    assert.equal((await factsOf(plain))['request.input_tokens_max'], bytes);
    const referring = [
      [{ type: 'image', source: { type: 'url', url: 'https://x' } }],
      [{ type: 'document', source: { type: 'base64', data: 'eA==' } }],
      [{ type: 'tool_result', content: [{ type: 'document' }] }],
      [{ type: 'tool_result', content: [{ type: 'tool_result', content: [{ type: 'document' }] }, { type: 'text' }] }],
    ];
    for (const content of referring) {
      const facts = await factsOf({ model: 'm', messages: [{ role: 'user', content }] });
      assert.ok((facts['request.input_tokens_max'] as number) > 500_000, JSON.stringify(content));
    }
    const nowhere = JSON.stringify({ ...plain, mcp_servers: [] });
    assert.equal((await factsOf(nowhere))['request.input_tokens_max'], nowhere.length);
    const elsewhere = { ...plain, mcp_servers: [{ type: 'url', url: 'https://x', name: 'x' }] };
    assert.ok(((await factsOf(elsewhere))['request.input_tokens_max'] as number) > 500_000);
    const image = [{ type: 'image', source: { type: 'base64', data: 'eA==' } }];
    const facts = await factsOf({ model: 'm', messages: [{ role: 'user', content: image }] });
    assert.ok((facts['request.input_tokens_max'] as number) < 10_000);
    assert.equal(facts['request.image_count'], 1);
    const shown = [{ type: 'tool_result', content: [...image, { type: 'text', text: 'x' }, ...image] }, ...image];
    const all = await factsOf({ model: 'm', messages: [{ role: 'user', content: shown }] });
    assert.equal(all['request.image_count'], 3);
  });

  it('tells reasoning that a translation made, or that nothing proves, from what a provider has proven', async () => {
    const thought = (block: object) => ({ model: 'm', messages: [{ role: 'assistant', content: [block] }] });
    const found = async (body: object) => (await factsOf(body))['request.unproven_reasoning'];
    assert.equal(await found(thought({ type: 'thinking', thinking: 'a', signature: 'gw:chat@spare:none::' })), 'made');
    assert.equal(await found(thought({ type: 'thinking', thinking: 'a', signature: '' })), 'unsigned');
    assert.equal(await found(thought({ type: 'thinking', thinking: 'a', signature: 'EqQB' })), undefined);
    assert.equal(await found(thought({ type: 'redacted_thinking', data: 'EmwK' })), undefined);
  });

  it('takes what an answer of the provider holds when it is sent back for no more than its bytes', async () => {
    const content = [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
      { type: 'redacted_thinking', data: 'eA==' },
    ];
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'assistant', content }] });
    assert.equal((await factsOf(body))['request.input_tokens_max'], Buffer.byteLength(body));
  });

  it('reads content that is nested as deep as a body may be', async () => {
    const deep = `${'[{"type":"tool_result","content":'.repeat(60)}[{"type":"document"}]${'}]'.repeat(60)}`;
    const facts = await factsOf(`{"model":"m","messages":[{"role":"user","content":${deep}}]}`);
    assert.ok((facts['request.input_tokens_max'] as number) > deep.length + 500_000);
  });

  it('notes how often tools of the provider may be used at most, where the request bounds it', async () => {
    const uses = async (...tools: unknown[]) => ({
      ...((await factsOf({ model: 'm', tools }))['request.server_tool_uses'] as object),
    });
    const search = { type: 'web_search_20250305', name: 'web_search' };
    assert.deepEqual(await uses(), {});
    assert.deepEqual(await uses({ ...search, max_uses: 5 }), { web_search: 5 });
    assert.deepEqual(await uses({ ...search, max_uses: 5 }, { ...search, name: 'again', max_uses: 2 }), {
      web_search: 7,
    });
    assert.deepEqual(await uses({ ...search, max_uses: 2 }, { type: 'web_fetch_20250910', max_uses: 3 }), {
      web_search: 2,
      web_fetch: 3,
    });
    assert.deepEqual(await uses(search, { name: 'web_search', max_uses: 5 }, { type: 'custom', max_uses: 5 }), {});
    assert.deepEqual(await uses({ ...search, max_uses: Number.MAX_SAFE_INTEGER }), { web_search: 10_000 });
    for (const max_uses of [0, -1, 1.5, '5', null, [], {}, true])
      assert.deepEqual(await uses({ ...search, max_uses }), {});
    assert.deepEqual(await uses(null, 7, 'web_search_20250305', [], { type: {}, max_uses: 1 }), {});
  });
});
