import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { readBodyFacts } from '../../../engine/domain/protocols/body/body-facts.ts';
import { readSession } from '../../../engine/domain/protocols/body/session.ts';
import { BufferedBody } from '../../../engine/pipeline/run/body.ts';
import { times } from '../../support/times.ts';

type Body = Readonly<Record<string, unknown>>;

const keyOf = (body: Body, headers: Readonly<Record<string, string>> = {}) => readSession(body, headers).key;

const user_id = (session: string) => `user_0a_account_1b_session_${session}`;

describe('the session of a request', () => {
  it('is the first one given, in headers or body', () => {
    const headers = { 'x-claude-code-session-id': 'one', 'session-id': 'four', 'x-grok-conv-id': 'five' };
    const body = { metadata: { user_id: user_id('two') }, prompt_cache_key: 'three', system: 'Be brief.' };
    const session = (name: string) => keyOf({}, { 'x-claude-code-session-id': name });
    assert.equal(keyOf(body, headers), session('one'));
    const { 'x-claude-code-session-id': _, ...others } = headers;
    assert.equal(keyOf(body, others), session('two'));
    assert.equal(keyOf({ ...body, metadata: { user_id: 'somebody' } }, others), session('three'));
    assert.equal(keyOf({ system: 'Be brief.' }, others), session('four'));
    assert.equal(keyOf({}, { 'thread-id': 'four', 'x-grok-conv-id': 'five' }), session('four'));
    assert.equal(keyOf({}, { 'x-grok-conv-id': 'five' }), session('five'));
    assert.notEqual(session('one'), session('two'));
  });

  it('is found behind the user in both forms that clients write', () => {
    const json = JSON.stringify({ device_id: 'd', account_uuid: 'a', session_id: 'two' });
    assert.equal(keyOf({ metadata: { user_id: json } }), keyOf({ metadata: { user_id: user_id('two') } }));
    for (const other of ['{', '{}', '{"session_id":7}', '', 7, null, ['x'], `{"session_id":"${'x'.repeat(9000)}"}`])
      assert.equal(keyOf({ metadata: { user_id: other } }), undefined, String(other).slice(0, 40));
  });

  it('is otherwise the beginning of the prompt, shared by all turns, and by subagents of one kind', () => {
    const tools = [{ name: 'read', input_schema: { type: 'object' } }];
    const turn = (system: unknown, ...said: string[]) => {
      return { system, tools, messages: said.map((content) => ({ role: 'user', content })) };
    };
    const first = keyOf(turn('Be brief.', 'Hi'));
    assert.ok(first);
    assert.equal(keyOf(turn('Be brief.', 'Hi', 'And now?')), first);
    assert.notEqual(keyOf(turn('Be long.', 'Hi')), first);
    assert.notEqual(keyOf({ ...turn('Be brief.'), tools: [] }), first);
    // The head of the client's own prompts says how it was started, and is no part of what is kept.
    const attributed = (how: string) =>
      keyOf(turn([`x-client-billing-header: ${how};`, 'Be brief.'].map((text) => ({ type: 'text', text }))));
    assert.equal(attributed('a'), attributed('b'));
    const long = 'x'.repeat(5000);
    assert.equal(keyOf(turn(`${long}a`)), keyOf(turn(`${long}b`)), 'as far as it is looked at');
  });

  it('is read from the instructions of every protocol', () => {
    const system = { role: 'system', content: 'Be brief.' };
    const chat = (...messages: object[]) => keyOf({ messages });
    assert.ok(chat(system));
    assert.equal(chat(system, { role: 'user', content: 'Hi' }), chat(system));
    assert.equal(keyOf({ instructions: 'Be brief.', input: 'Hi' }), chat(system));
    const developer = { role: 'developer', content: [{ type: 'input_text', text: 'Be brief.' }] };
    assert.equal(keyOf({ input: [developer, { role: 'user', content: 'Hi' }] }), chat(system));
    assert.equal(keyOf({ messages: [{ role: 'user', content: 'Hi' }] }), undefined);
    assert.equal(keyOf({ input: 'Hi' }), undefined);
  });

  it('reveals nothing of its input, however long or strange that is', () => {
    const headers = fc.record({ 'session-id': fc.string() }, { requiredKeys: [] });
    const body = fc.record(
      { system: fc.jsonValue(), metadata: fc.jsonValue(), prompt_cache_key: fc.jsonValue(), tools: fc.jsonValue() },
      { requiredKeys: [] },
    );
    const check = fc.property(body, headers, (any, input) => {
      assert.match(keyOf(any, input as Record<string, string>) ?? '-', /^(?:[\w-]{22}|-)$/);
    });
    fc.assert(check, { numRuns: times(60) });
  });

  it('is derived from the beginning of a prompt, however long its texts are', async () => {
    const text = fc.oneof(fc.constantFrom('a'.repeat(600), 'b'.repeat(5000), 'é'.repeat(2500)), fc.string());
    const parts = fc.oneof(text, fc.array(fc.record({ type: fc.constant('text'), text }), { maxLength: 3 }));
    const message = fc.record({ role: fc.constantFrom('system', 'developer', 'user'), content: parts });
    const tool = fc.record({ name: fc.string(), description: text });
    const check = fc.asyncProperty(
      fc.record({ system: parts, messages: fc.array(message), tools: fc.array(tool) }, { requiredKeys: ['messages'] }),
      async (any) => {
        const whole = { model: 'coder-1', max_tokens: 1, ...any };
        const body = new BufferedBody(Buffer.from(JSON.stringify(whole)), () => {});
        const { session } = await readBodyFacts('messages', body, { session_headers: {} });
        assert.equal(session!.key, keyOf(whole));
      },
    );
    await fc.assert(check, { numRuns: times(60) });
  });

  it('continues a stored response or conversation', () => {
    const stored = (body: Body) => readSession(body, {}).continues;
    assert.equal(stored({ conversation: { id: 'conv_1' } }), stored({ conversation: 'conv_1' }));
    assert.notEqual(stored({ previous_response_id: 'resp_1' }), stored({ previous_response_id: 'resp_2' }));
    assert.equal(stored({ previous_response_id: null }), undefined);
  });
});

describe('a request that only its upstream can read', () => {
  const holds = async (protocol: string, body: Body) => {
    const bytes = Buffer.from(JSON.stringify({ model: 'coder-1', ...body }));
    return (await readBodyFacts(protocol, new BufferedBody(bytes, () => {}))).holds_state;
  };

  it('is one with encrypted content, stored responses or files, in each protocol', async () => {
    const message = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
    const input = (...items: object[]) => ({ input: items });
    const cases: [string, Body][] = [
      ['responses', { input: 'Hi', previous_response_id: 'resp_1' }],
      ['responses', { input: 'Hi', conversation: { id: 'conv_1' } }],
      ['responses', input({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAA' })],
      ['responses', input({ type: 'reasoning', id: 'rs_1', summary: [] })],
      ['responses', input({ type: 'compaction', encrypted_content: 'gAAA' })],
      ['responses', input({ type: 'item_reference', id: 'msg_1' })],
      ['responses', input({ role: 'user', content: [{ type: 'input_file', file_id: 'file_1' }] })],
      ['messages', message({ type: 'document', source: { type: 'file', file_id: 'file_1' } })],
      ['messages', message({ type: 'web_search_tool_result', content: [{ encrypted_content: 'gAAA' }] })],
      ['messages', { messages: [], container: 'container_1' }],
      ['chat', message({ type: 'file', file: { file_id: 'file_1' } })],
      ['chat', { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] }],
    ];
    for (const [protocol, body] of cases) assert.equal(await holds(protocol, body), true, JSON.stringify(body));
  });

  it('is not one whose state every upstream can read, or that a translation made', async () => {
    const signed = { type: 'thinking', thinking: '', signature: 'Eq' };
    const cases: [string, Body][] = [
      ['responses', { input: 'Hi', previous_response_id: null }],
      ['responses', { input: [{ type: 'message', role: 'user', content: 'encrypted_content' }] }],
      ['responses', { input: [{ type: 'reasoning', summary: [], encrypted_content: 'gw:messages@main:none::' }] }],
      ['messages', { messages: [{ role: 'assistant', content: [signed] }] }],
      ['messages', { messages: [{ role: 'user', content: '"encrypted_content"' }], container: { skills: [] } }],
      ['chat', { messages: [{ role: 'user', content: 'previous_response_id' }] }],
    ];
    for (const [protocol, body] of cases) assert.equal(await holds(protocol, body), false, JSON.stringify(body));
  });
});
