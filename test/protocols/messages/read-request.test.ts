import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Part } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { proofToText } from '../../../engine/protocols/translation/proof.ts';
import { readAsked, refusesAsked as refused } from './scene.ts';

/** Parts of a message with these blocks, and what was noted. */
function partsOf(content: unknown, role = 'user'): { parts: readonly Part[]; noted: readonly string[] } {
  const notes = new Notes();
  const next = role === 'assistant' ? [{ role: 'user', content: 'Go on' }] : [];
  const { turns } = readAsked({ messages: [{ role, content }, ...next] }, notes);
  return { parts: turns[0]?.parts ?? [], noted: notes.names };
}

/** The parts, when nothing is noted. */
function exactly(content: unknown, role = 'user'): readonly Part[] {
  const { parts, noted } = partsOf(content, role);
  assert.deepEqual(noted, []);
  return parts;
}

describe('system and messages', () => {
  test('system is a text or blocks, and its blocks stay apart with their cache marks', () => {
    assert.deepEqual(readAsked({ system: 'Be brief.' }).instructions, [{ kind: 'text', text: 'Be brief.' }]);
    const system = [
      { type: 'text', text: 'One' },
      { type: 'text', text: 'Two', cache_control: { type: 'ephemeral', ttl: '1h' } },
      { type: 'text', text: 'Three', cache_control: { type: 'ephemeral' } },
    ];
    assert.deepEqual(readAsked({ system }).instructions, [
      { kind: 'text', text: 'One' },
      { kind: 'text', text: 'Two', cache: '1h' },
      { kind: 'text', text: 'Three', cache: '5m' },
    ]);
  });

  test('a message of the role system is instructions in the middle of the conversation', () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'system', content: [{ type: 'text', text: 'Only English from now on.' }] },
    ];
    assert.deepEqual(readAsked({ messages }).turns[1], {
      role: 'instructions',
      parts: [{ kind: 'text', text: 'Only English from now on.' }],
    });
  });

  test('a system message that only changes settings says nothing, and they are noted', () => {
    const { parts, noted } = partsOf(undefined, 'system');
    assert.deepEqual(parts, []);
    assert.deepEqual(noted, []);
    const notes = new Notes();
    readAsked({ messages: [{ role: 'system', output_config: { effort: 'low' } }] }, notes);
    assert.deepEqual(notes.names, ['unknown_field:output_config']);
  });

  test('an answer that the model shall go on with is noted, as others may not', () => {
    const notes = new Notes();
    const messages = [
      { role: 'user', content: 'As JSON' },
      { role: 'assistant', content: '{' },
    ];
    assert.equal(readAsked({ messages }, notes).turns.length, 2);
    assert.deepEqual(notes.names, ['begun_answer']);
  });

  test('a message of the model without content is no turn, one of the user is', () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [] },
      { role: 'user', content: '' },
    ];
    assert.deepEqual(
      readAsked({ messages }).turns.map(({ role }) => role),
      ['user', 'user'],
    );
  });

  test('images are bytes or addresses; a file at the provider is refused by its place', () => {
    const source = { type: 'base64', media_type: 'image/png', data: 'aGk=' };
    assert.deepEqual(
      exactly([
        { type: 'image', source },
        { type: 'image', source: { type: 'url', url: 'https://a.test/x' } },
      ]),
      [
        { kind: 'image', source: { kind: 'base64', media_type: 'image/png', data: 'aGk=' } },
        { kind: 'image', source: { kind: 'url', url: 'https://a.test/x' } },
      ],
    );
    const file = [
      { type: 'text', text: 'x' },
      { type: 'image', source: { type: 'file', file_id: 'file_1' } },
    ];
    refused({ messages: [{ role: 'user', content: file }] }, 'not_translatable', 'messages.0.content.1.source.file_id');
    const upload = [{ type: 'container_upload', file_id: 'file_1' }];
    refused({ messages: [{ role: 'user', content: upload }] }, 'not_translatable', 'messages.0.content.0.file_id');
  });

  test('documents are bytes, texts and addresses, with a title; their context is a text before them', () => {
    const pdf = { type: 'base64', media_type: 'application/pdf', data: 'aGk=' };
    assert.deepEqual(exactly([{ type: 'document', source: pdf, title: 'a.pdf', citations: { enabled: false } }]), [
      { kind: 'document', source: { kind: 'base64', media_type: 'application/pdf', data: 'aGk=' }, name: 'a.pdf' },
    ]);
    const text = { type: 'text', media_type: 'text/plain', data: 'words' };
    const { parts, noted } = partsOf([
      { type: 'document', source: text, context: 'From 1999', citations: { enabled: true } },
    ]);
    assert.deepEqual(parts, [
      { kind: 'text', text: 'From 1999' },
      { kind: 'document', source: { kind: 'text', text: 'words' } },
    ]);
    assert.deepEqual(noted, ['request_citations', 'document_context']);
  });

  test('a document made of blocks is one text, or its blocks when there are images', () => {
    const words = { type: 'text', text: 'a' };
    const image = { type: 'image', source: { type: 'url', url: 'https://a.test/x' } };
    const made = (content: unknown) =>
      partsOf([{ type: 'document', source: { type: 'content', content }, title: 't' }]);
    assert.deepEqual(made([words, { ...words, text: 'b' }]).parts, [
      { kind: 'document', source: { kind: 'text', text: 'a\n\nb' }, name: 't' },
    ]);
    assert.deepEqual(
      made([words, image]).parts.map(({ kind }) => kind),
      ['text', 'image'],
    );
    assert.deepEqual(made('a').noted, ['document_content']);
  });

  test('thinking keeps its signature, or gets back the proof that another provider made', () => {
    const foreign = { protocol: 'responses', kind: 'encrypted', value: 'e:e', id: 'rs_1' } as const;
    const content = [
      { type: 'thinking', thinking: 'Hm', signature: 'sig' },
      { type: 'redacted_thinking', data: 'secret' },
      { type: 'thinking', thinking: 'Ah', signature: proofToText(foreign, { protocol: 'responses', upstream: 'u' }) },
      { type: 'thinking', thinking: 'Oh', signature: '' },
    ];
    assert.deepEqual(exactly(content, 'assistant'), [
      { kind: 'reasoning', text: 'Hm', proof: { protocol: 'messages', kind: 'signature', value: 'sig' } },
      { kind: 'reasoning', text: '', proof: { protocol: 'messages', kind: 'encrypted', value: 'secret' } },
      { kind: 'reasoning', text: 'Ah', proof: { ...foreign, upstream: 'u' } },
      { kind: 'reasoning', text: 'Oh' },
    ]);
  });

  test('calls have their arguments as JSON text, results their texts, images and whether they failed', () => {
    const call = { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: 'a', n: [1, null] } };
    assert.deepEqual(exactly([{ ...call, caller: { type: 'direct' } }], 'assistant'), [
      { kind: 'tool_call', id: 'toolu_1', name: 'read', arguments: '{"path":"a","n":[1,null]}' },
    ]);
    const image = { type: 'image', source: { type: 'url', url: 'https://a.test/x' } };
    const content = [
      { type: 'tool_result', tool_use_id: 'toolu_1', content: 'ok' },
      { type: 'tool_result', tool_use_id: 'toolu_2', is_error: true, content: [{ type: 'text', text: 'no' }, image] },
      { type: 'tool_result', tool_use_id: 'toolu_3', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'Now?' },
    ];
    assert.deepEqual(exactly(content), [
      { kind: 'tool_result', call_id: 'toolu_1', parts: [{ kind: 'text', text: 'ok' }], is_error: false },
      {
        kind: 'tool_result',
        call_id: 'toolu_2',
        parts: [
          { kind: 'text', text: 'no' },
          { kind: 'image', source: { kind: 'url', url: 'https://a.test/x' } },
        ],
        is_error: true,
      },
      { kind: 'tool_result', call_id: 'toolu_3', parts: [], is_error: false, cache: '5m' },
      { kind: 'text', text: 'Now?' },
    ]);
  });

  test('results behind other content move to the beginning, noted', () => {
    const { parts, noted } = partsOf([
      { type: 'text', text: 'See:' },
      { type: 'tool_result', tool_use_id: 'toolu_1', content: 'ok' },
    ]);
    assert.deepEqual(
      parts.map(({ kind }) => kind),
      ['tool_result', 'text'],
    );
    assert.deepEqual(noted, ['tool_result_order']);
  });

  test('what the provider ran is left out, and what the model said about it stays', () => {
    const content = [
      { type: 'text', text: 'Let me search.', citations: null },
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
      { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
      { type: 'text', text: 'Found.', citations: [{ type: 'web_search_result_location' }] },
      { type: 'hologram', data: 1 },
    ];
    const { parts, noted } = partsOf(content, 'assistant');
    assert.deepEqual(parts, [
      { kind: 'text', text: 'Let me search.' },
      { kind: 'text', text: 'Found.' },
    ]);
    assert.deepEqual(noted, ['provider_tool_history', 'request_citations', 'unknown_block']);
  });

  test('search results, references to tools and summaries are given as text', () => {
    const search = {
      type: 'search_result',
      title: 'T',
      source: 'https://a.test',
      content: [{ type: 'text', text: 'S' }],
    };
    const { parts, noted } = partsOf([
      { type: 'tool_result', tool_use_id: 't', content: [{ type: 'tool_reference', tool_name: 'read' }, search] },
      { type: 'compaction', content: 'Before: hello.' },
      search,
    ]);
    assert.deepEqual(parts, [
      {
        kind: 'tool_result',
        call_id: 't',
        parts: [
          { kind: 'text', text: 'Tool: read' },
          { kind: 'text', text: 'T\nhttps://a.test\n\nS' },
        ],
        is_error: false,
      },
      { kind: 'text', text: 'Before: hello.' },
      { kind: 'text', text: 'T\nhttps://a.test\n\nS' },
    ]);
    assert.deepEqual(noted, ['tool_reference', 'search_result', 'compaction_block']);
  });
});
