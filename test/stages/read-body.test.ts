import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { openStage, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import readBody from '../../stages/read-body.ts';
import { times } from '../support/times.ts';

type PipelineProtocol = 'messages' | 'count_tokens' | 'chat' | 'responses';
const PIPELINE_PROTOCOLS: readonly PipelineProtocol[] = ['messages', 'count_tokens', 'chat', 'responses'];

const [coder] = stageConfig().models;
const CONFIG = stageConfig({ models: [{ ...coder!, aliases: ['coder-latest', 'team/coder'] }] });

async function factsOf(protocol: PipelineProtocol, body: string | object): Promise<Record<string, unknown>> {
  const stage = openStage(readBody, { config: CONFIG });
  const ctx = stage.request({
    facts: { 'request.protocol': protocol },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  await stage.hooks.request!(ctx);
  return ctx.written;
}

const refusal = (protocol: PipelineProtocol, body: string | object, param: string) =>
  assert.rejects(factsOf(protocol, body), (error: { code: string; message: string; details: { param?: string } }) => {
    assert.equal(error.code, 'invalid_request');
    assert.equal(error.details.param, param);
    assert.ok(error.message.startsWith(`${param}: `));
    return true;
  });

const messagesFacts = (body: string | object) => factsOf('messages', body);
const messagesRefusal = (body: string | object, param: string) => refusal('messages', body, param);

describe('read-body', () => {
  it('rejects fields of the wrong type by name', async () => {
    await messagesRefusal({ max_tokens: 1 }, 'model');
    for (const model of [5, '']) await messagesRefusal({ model }, 'model');
    for (const max_tokens of [-1, 1.5, '9']) await messagesRefusal({ model: 'm', max_tokens }, 'max_tokens');
    await messagesRefusal({ model: 'm', stream: 'yes' }, 'stream');
    await messagesRefusal({ model: 'm', messages: {} }, 'messages');
    await messagesRefusal({ model: 'm', tools: 'all' }, 'tools');
    for (const body of ['[]', '"m"', 'null', '1'])
      await assert.rejects(messagesFacts(body), { code: 'invalid_request' });
  });

  const lifetimes = async (body: object | string) => {
    const facts = await messagesFacts(body);
    return [facts['request.cache.ttl'], facts['cache.requested_ttl']];
  };

  it('finds the longest requested cache lifetime, distinguished from lookalikes', async () => {
    const cached = (control: object) => ({ model: 'm', system: [{ type: 'text', text: 'x', cache_control: control }] });
    assert.deepEqual(await lifetimes({ model: 'm' }), ['none', 'none']);
    const short = cached({ type: 'ephemeral' });
    assert.deepEqual(await lifetimes(short), ['5m', '5m']);
    assert.deepEqual(await lifetimes(cached({ type: 'ephemeral', ttl: '1h' })), ['1h', '1h']);
    const hidden = '{"model":"m","system":[{"cache_c\\u006fntrol":{"ttl":"\\u0031h"}}]}';
    assert.deepEqual(await lifetimes(hidden), ['1h', '1h']);
    const call = { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'n', input: { range: '1h' } }] };
    assert.equal((await lifetimes({ ...short, messages: [call] }))[1], '5m');
  });

  it('assumes the most expensive lifetime for escaped spellings that could be one', async () => {
    // Many writers of JSON spell <, > and & so.
    for (const text of ['caf\\u00e9 \\u001b', '\\u003ca\\u003E \\u0026 \\u0060'])
      assert.equal((await lifetimes(`{"model":"m","x":"${text}"}`))[0], 'none', text);
    for (const code of ['0031', '0043', '005f', '005F', '0068', '0074', '007a'])
      assert.equal((await lifetimes(`{"model":"m","x":"\\u${code}"}`))[0], '1h', code);
    assert.equal((await lifetimes('{"model":"m","messages":[{"role":"user","content":"\\u0061"}]}'))[1], 'none');
  });

  it('finds a lifetime anywhere in a large body, after lookalikes', async () => {
    const lifetimeBehind = async (head: string, size: number, tail: string) => {
      const begin = `{"model":"m","x":[${head}"`;
      return (await lifetimes(`${begin}${'a'.repeat(size - begin.length - 2)}",${tail}]}`))[0];
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

  it('bounds the input by its bytes and its references', async () => {
    const plain = { model: 'm', messages: [{ role: 'user', content: 'hello' }] };
    assert.equal(await beyond('messages', plain), 0);
    const referring = [
      [{ type: 'image', source: { type: 'url', url: 'https://x' } }],
      [{ type: 'document', source: { type: 'base64', data: 'eA==' } }],
      [{ type: 'tool_result', content: [{ type: 'document' }] }],
      [{ type: 'tool_result', content: [{ type: 'tool_result', content: [{ type: 'document' }] }, { type: 'text' }] }],
    ];
    for (const content of referring)
      assert.ok((await beyond('messages', user(...content))) > 500_000, JSON.stringify(content));
    assert.equal(await beyond('messages', { ...plain, mcp_servers: [] }), 0);
    const elsewhere = { ...plain, mcp_servers: [{ type: 'url', url: 'https://x', name: 'x' }] };
    assert.ok((await beyond('messages', elsewhere)) > 500_000);
    const image = { type: 'image', source: { type: 'base64', data: 'eA==' } };
    assert.ok((await beyond('messages', user(image))) < 10_000);
    assert.equal((await messagesFacts(user(image)))['request.image_count'], 1);
    const shown = { type: 'tool_result', content: [image, { type: 'text', text: 'x' }, image] };
    assert.equal((await messagesFacts(user(shown, image)))['request.image_count'], 3);
  });

  it('distinguishes translated or unsigned reasoning from signed reasoning', async () => {
    const thought = (block: object) => ({ model: 'm', messages: [{ role: 'assistant', content: [block] }] });
    const found = async (body: object) => (await messagesFacts(body))['request.unproven_reasoning'];
    assert.equal(await found(thought({ type: 'thinking', thinking: 'a', signature: 'gw:chat@spare:none::' })), 'made');
    assert.equal(await found(thought({ type: 'thinking', thinking: 'a', signature: '' })), 'unsigned');
    assert.equal(await found(thought({ type: 'thinking', thinking: 'a', signature: 'EqQB' })), undefined);
    assert.equal(await found(thought({ type: 'redacted_thinking', data: 'EmwK' })), undefined);
  });

  it('counts encrypted parts of an earlier response by their bytes', async () => {
    const content = [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
      { type: 'redacted_thinking', data: 'eA==' },
    ];
    assert.equal(await beyond('messages', { model: 'm', messages: [{ role: 'assistant', content }] }), 0);
  });

  it('reads content that is nested as deep as a body may be', async () => {
    const deep = `${'[{"type":"tool_result","content":'.repeat(60)}[{"type":"document"}]${'}]'.repeat(60)}`;
    const facts = await messagesFacts(`{"model":"m","messages":[{"role":"user","content":${deep}}]}`);
    assert.ok((facts['request.input_tokens_max'] as number) > deep.length + 500_000);
  });

  it('sets the most uses of server tools, where the request limits them', async () => {
    const uses = (...tools: unknown[]) => usesIn('messages', { tools });
    const search = { type: 'web_search_20250305', name: 'web_search' };
    const most = (max_uses: unknown) => ({ ...search, max_uses });
    assert.deepEqual(await uses(), {});
    assert.deepEqual(await uses(most(5)), { web_search: 5 });
    assert.deepEqual(await uses(most(5), { ...most(2), name: 'again' }), { web_search: 7 });
    const fetching = { type: 'web_fetch_20250910', max_uses: 3 };
    assert.deepEqual(await uses(most(2), fetching), { web_search: 2, web_fetch: 3 });
    assert.deepEqual(await uses(search, { name: 'web_search', max_uses: 5 }, { type: 'custom', max_uses: 5 }), {});
    assert.deepEqual(await uses(most(Number.MAX_SAFE_INTEGER)), { web_search: 10_000 });
    for (const max_uses of [0, -1, 1.5, '5', null, [], {}, true]) assert.deepEqual(await uses(most(max_uses)), {});
    assert.deepEqual(await uses(null, 7, 'web_search_20250305', [], { type: {}, max_uses: 1 }), {});
  });
});

/** Tokens beyond the bytes of the body. */
async function beyond(protocol: PipelineProtocol, body: object): Promise<number> {
  const facts = await factsOf(protocol, body);
  return (facts['request.input_tokens_max'] as number) - (facts['request.body_bytes'] as number);
}

/** The most uses of server tools in a request with these fields. */
async function usesIn(protocol: PipelineProtocol, fields: object): Promise<object> {
  return { ...((await factsOf(protocol, { model: 'm', ...fields }))['request.server_tool_uses'] as object) };
}

const user = (...content: unknown[]) => ({ model: 'm', messages: [{ role: 'user', content }] });
const input = (...items: unknown[]) => ({ model: 'm', input: items });
const DATA = 'data:image/png;base64,eA==';
const HTTPS = 'https://example.com/x.png';

describe('read-body on every protocol', () => {
  it('resolves an alias and keeps the requested name', async () => {
    for (const protocol of PIPELINE_PROTOCOLS) {
      const called = await factsOf(protocol, { model: 'team/coder' });
      assert.equal(called['request.model'], 'coder-1');
      assert.equal(called['request.alias'], 'team/coder');
      for (const model of ['coder-1', 'unknown', '__proto__']) {
        const facts = await factsOf(protocol, { model });
        assert.equal(facts['request.model'], model);
        assert.ok(!('request.alias' in facts));
      }
    }
  });

  it('sets the same facts for the same request', async () => {
    const said = [{ role: 'user', content: 'hello' }];
    const tools = [
      { type: 'function', name: 'a', function: { name: 'a' } },
      { type: 'custom', name: 'b' },
    ];
    const common = { model: 'm', stream: true, tools };
    const bodies: [PipelineProtocol, object][] = [
      ['messages', { ...common, tools: [{ name: 'a' }, { type: 'custom', name: 'b' }], max_tokens: 9, messages: said }],
      ['chat', { ...common, max_completion_tokens: 9, messages: said }],
      ['chat', { ...common, max_tokens: 9, messages: said }],
      ['responses', { ...common, max_output_tokens: 9, input: said }],
      ['responses', { ...common, max_output_tokens: 9, input: 'hello' }],
    ];
    for (const [protocol, body] of bodies) {
      const {
        'request.server_tool_uses': uses,
        'request.output_bounds': bounds,
        ...facts
      } = await factsOf(protocol, body);
      assert.deepEqual(Object.values(bounds as object), [9]);
      const bytes = JSON.stringify(body).length;
      assert.deepEqual({ ...(uses as object) }, {});
      assert.deepEqual(facts, {
        'request.body_bytes': bytes,
        'request.model': 'm',
        'request.max_tokens': 9,
        'request.stream': true,
        'request.choices': 1,
        'request.iterations': 1,
        'request.compacts': false,
        'request.tool_count': 2,
        'request.message_count': 1,
        'request.image_count': 0,
        'request.holds_state': false,
        'request.input_tokens_estimate': Math.ceil(bytes / 4),
        'request.input_tokens_max': bytes + 1000,
        'request.cache.ttl': 'none',
        'cache.requested_ttl': 'none',
      });
    }
  });

  it('rejects repeated privileged keys, on the protocols where they are privileged', async () => {
    const keys: Record<PipelineProtocol, readonly string[]> = {
      messages: ['model', 'max_tokens', 'stream'],
      count_tokens: ['model', 'max_tokens', 'stream'],
      chat: ['model', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options', 'n'],
      responses: ['model', 'max_output_tokens', 'stream', 'background'],
    };
    for (const protocol of PIPELINE_PROTOCOLS) {
      for (const key of keys[protocol]) {
        const value = key === 'model' ? '"m"' : key === 'stream' || key === 'background' ? 'false' : '1';
        await refusal(protocol, `{"model":"m","${key}":${value},"${key}":${value}}`, key);
      }
    }
    assert.equal((await factsOf('messages', '{"model":"m","n":1,"n":2}'))['request.choices'], 1);
  });

  it('maps the cache retention of chat and Responses clients to the lifetimes of Messages upstreams', async () => {
    const ttl = async (protocol: PipelineProtocol, fields: object) =>
      (await factsOf(protocol, { model: 'm', ...fields }))['request.cache.ttl'];
    for (const protocol of ['chat', 'responses'] as const) {
      assert.equal(await ttl(protocol, { prompt_cache_key: 'session' }), '5m');
      assert.equal(await ttl(protocol, { prompt_cache_key: null, prompt_cache_retention: null }), 'none');
      assert.equal(await ttl(protocol, { prompt_cache_retention: 'in_memory' }), '5m');
      assert.equal(await ttl(protocol, { prompt_cache_retention: '24h' }), '1h');
      assert.equal(await ttl(protocol, { prompt_cache_options: { ttl: '12h' } }), '1h');
      assert.equal(await ttl(protocol, { prompt_cache_key: 'k', x: { cache_control: { ttl: '1h' } } }), '1h');
    }
    assert.equal(await ttl('messages', { prompt_cache_key: 'session' }), 'none');
  });

  it('accepts or rejects any JSON, on every protocol', async () => {
    const key = fc.constantFrom(
      ...['messages', 'input', 'tools', 'n', 'max_tokens', 'max_output_tokens', 'content', 'type', 'functions'],
      ...['prompt', 'mcp_servers', 'output', 'image_url', 'max_tool_calls'],
    );
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { depthSize: 'small' },
        fc.jsonValue({ maxDepth: 1 }),
        fc.array(tie('any'), { maxLength: 3 }),
        fc.dictionary(key, tie('any'), { maxKeys: 4 }),
      ),
    })).any;
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...PIPELINE_PROTOCOLS), fc.dictionary(key, value), async (protocol, fields) => {
        try {
          const facts = await factsOf(protocol, { model: 'm', ...fields });
          assert.ok((facts['request.input_tokens_max'] as number) >= (facts['request.body_bytes'] as number));
          assert.ok(Number.isSafeInteger(facts['request.choices']) && (facts['request.choices'] as number) >= 1);
        } catch (error) {
          assert.equal((error as { code?: string }).code, 'invalid_request', String(error));
        }
      }),
      { numRuns: times(100) },
    );
  });
});

describe('read-body of chat completions', () => {
  it('bounds the output by the larger of both fields, because upstreams use either', async () => {
    const bound = async (fields: object) => (await factsOf('chat', { model: 'm', ...fields }))['request.max_tokens'];
    assert.equal(await bound({ max_tokens: 900, max_completion_tokens: 5 }), 900);
    assert.equal(await bound({ max_tokens: 5, max_completion_tokens: 900 }), 900);
    assert.equal(await bound({ max_tokens: null, max_completion_tokens: 5 }), 5);
    assert.equal(await bound({ max_tokens: null }), undefined);
    await refusal('chat', { model: 'm', max_tokens: '5' }, 'max_tokens');
    await refusal('chat', { model: 'm', max_completion_tokens: -1 }, 'max_completion_tokens');
  });

  it('sets the number of choices', async () => {
    const choices = async (n: unknown) => (await factsOf('chat', { model: 'm', n }))['request.choices'];
    for (const n of [undefined, null, 1]) assert.equal(await choices(n), 1);
    assert.equal(await choices(128), 128);
    for (const n of [0, 129, 1.5, -1, '2', [2], {}, true]) await refusal('chat', { model: 'm', n }, 'n');
  });

  it('counts images and references', async () => {
    const image = (url: string) => ({ type: 'image_url', image_url: { url } });
    assert.equal(await beyond('chat', user({ type: 'text', text: 'x' }, { type: 'refusal', refusal: 'x' })), 0);
    assert.equal(await beyond('chat', user(image(DATA), image(DATA.toUpperCase()))), 10_000);
    assert.equal((await factsOf('chat', user(image(DATA), image(HTTPS))))['request.image_count'], 2);
    const referring = [
      image(HTTPS),
      { type: 'image_url' },
      { type: 'file', file: { file_id: 'file-1' } },
      { type: 'input_audio', input_audio: { data: 'eA==', format: 'mp3' } },
      { type: 'novelty' },
    ];
    for (const part of referring) assert.equal(await beyond('chat', user(part)), 1_000_000, JSON.stringify(part));
    const spoken = { model: 'm', messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] };
    assert.equal(await beyond('chat', spoken), 1_000_000);
  });

  it('counts old functions as tools, and searches of the provider as input', async () => {
    const facts = await factsOf('chat', { model: 'm', functions: [{ name: 'a' }], tools: [{ type: 'function' }] });
    assert.equal(facts['request.tool_count'], 2);
    const called = { role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'a', arguments: '{}' } }] };
    assert.equal(await beyond('chat', { model: 'm', messages: [called] }), 1000);
    assert.equal(await beyond('chat', { model: 'm', web_search_options: {} }), 1_001_000);
    assert.equal(await beyond('chat', { model: 'm', tools: [{ type: 'web_search' }] }), 1_001_000);
  });
});

describe('read-body of Messages', () => {
  it('counts the prompt of a thread that the provider keeps', async () => {
    const ask = (thread: unknown) => beyond('messages', { ...user({ type: 'text', text: 'x' }), thread });
    for (const thread of [{ type: 'continue', id: 'thread_1' }, { type: 'novelty' }, {}, 'thread_1'])
      assert.equal(await ask(thread), 1_000_000, JSON.stringify(thread));
    for (const thread of [undefined, null, { type: 'create' }]) assert.equal(await ask(thread), 0);
  });
});

describe('read-body of Responses', () => {
  it('rejects background responses', async () => {
    await refusal('responses', { model: 'm', background: true }, 'background');
    await refusal('responses', { model: 'm', background: 'true' }, 'background');
    for (const background of [false, null]) await factsOf('responses', { model: 'm', background });
    await factsOf('chat', { model: 'm', background: true });
  });

  it('rejects input that is neither a string nor a list', async () => {
    for (const value of [{}, 7, true]) await refusal('responses', { model: 'm', input: value }, 'input');
    assert.equal((await factsOf('responses', { model: 'm', input: null }))['request.message_count'], 0);
  });

  it('counts images and references', async () => {
    const image = (image_url: string) => ({ type: 'input_image', image_url });
    const message = (...content: unknown[]) => input({ role: 'user', content });
    assert.equal(await beyond('responses', message({ type: 'input_text', text: 'x' }, image(DATA))), 5000);
    const result = { type: 'function_call_output', call_id: 'c', output: [image(DATA), { type: 'input_text' }] };
    assert.equal(await beyond('responses', input(result, { type: 'reasoning', encrypted_content: 'x' })), 5000);
    const shot = { type: 'computer_call_output', output: { type: 'computer_screenshot', image_url: DATA } };
    assert.equal(await beyond('responses', input(shot, { type: 'mcp_call', arguments: '{}' })), 5000);
    assert.equal((await factsOf('responses', input(result, shot)))['request.image_count'], 2);
    const referring = [
      message(image(HTTPS)),
      message({ type: 'input_image', file_id: 'file-1' }),
      message({ type: 'input_file', file_data: 'eA==' }),
      input({ type: 'item_reference', id: 'msg_1' }),
      input({ id: 'msg_1' }),
      input({ type: null, id: 'msg_1' }),
      input({ type: 'reasoning', id: 'rs_1', summary: [] }),
      input({ type: 'novelty' }),
      { model: 'm', input: 'x', previous_response_id: 'resp_1' },
      { model: 'm', input: 'x', conversation: 'conv_1' },
      { model: 'm', prompt: { id: 'pmpt_1' } },
    ];
    for (const body of referring) assert.equal(await beyond('responses', body), 1_000_000, JSON.stringify(body));
  });

  it('counts tools one by one, also in namespaces, and distinguishes server tools', async () => {
    const two = [
      { type: 'function', name: 'a' },
      { type: 'custom', name: 'b' },
    ] as const;
    const own = [...two, { type: 'namespace', name: 'n', tools: two }, { type: 'local_shell' }];
    assert.equal((await factsOf('responses', { model: 'm', tools: own }))['request.tool_count'], 5);
    assert.equal(await beyond('responses', { model: 'm', tools: own }), 1000);
    const late = input({ type: 'additional_tools', role: 'developer', tools: own });
    assert.equal((await factsOf('responses', late))['request.tool_count'], 5);
    assert.equal(await beyond('responses', late), 1000);
    assert.equal(await beyond('responses', input({ type: 'tool_search_output', tools: [{ type: 'mcp' }] })), 1_001_000);
    assert.equal(await beyond('responses', input({ type: 'function_call', name: 'a', arguments: '{}' })), 1000);
    const within = { type: 'namespace', tools: [{ type: 'mcp' }] };
    for (const tool of [{ type: 'web_search' }, { type: 'mcp' }, {}, null, within])
      assert.equal(await beyond('responses', { model: 'm', tools: [tool] }), 1_001_000, JSON.stringify(tool));
  });

  it('sets the most uses of server tools, whatever their version', async () => {
    const uses = (max_tool_calls: unknown, ...types: unknown[]) =>
      usesIn('responses', { max_tool_calls, tools: types.map((type) => ({ type })) });
    const search = 'web_search_preview_2025_03_11';
    assert.deepEqual(await uses(3, search, 'function', 'file_search'), { web_search: 3, file_search: 3 });
    assert.deepEqual(await uses(Number.MAX_SAFE_INTEGER, 'web_search'), { web_search: 10_000 });
    for (const most of [undefined, null, 0]) assert.deepEqual(await uses(most, search), {});
    for (const most of [-1, 1.5, '3', {}])
      await refusal('responses', { model: 'm', max_tool_calls: most }, 'max_tool_calls');
    assert.deepEqual(await uses(3, '__proto__', 7, null, 'x'.repeat(1000)), {});
  });
});
