import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Part } from '../../../engine/protocols/translation/conversation.ts';
import { proofToText } from '../../../engine/protocols/translation/made-reasoning.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';
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
    const brief = readAsked({ system: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } });
    assert.deepEqual([brief.instructions, brief.cache], [[{ kind: 'text', text: 'Be brief.' }], { ttl: '1h' }]);
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

  test('a file at the provider is refused by its place', () => {
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

  test('who called a tool is no loss, and a result may have no content', () => {
    const call = { type: 'tool_use', id: 'toolu_1', name: 'read', input: { n: [1, null] }, caller: { type: 'direct' } };
    assert.deepEqual(exactly([call], 'assistant'), [
      { kind: 'tool_call', id: 'toolu_1', name: 'read', arguments: '{"n":[1,null]}' },
    ]);
    assert.deepEqual(exactly([{ type: 'tool_result', tool_use_id: 'toolu_1' }]), [
      { kind: 'tool_result', call_id: 'toolu_1', parts: [], is_error: false },
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

describe('tools', () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } } };

  test('settings that only the provider can act on are noted', () => {
    const notes = new Notes();
    const more = {
      input_examples: [{ a: 'x' }],
      defer_loading: true,
      eager_input_streaming: true,
      allowed_callers: ['code'],
    };
    readAsked({ tools: [{ name: 'a', input_schema: schema, ...more }] }, notes);
    assert.deepEqual(notes.names, ['tool_examples', 'tool_loading', 'tool_streaming', 'tool_callers']);
  });

  test('tools that the provider runs are left out beside others, and refused alone', () => {
    const search = { type: 'web_search_20250305', name: 'web_search' };
    const notes = new Notes();
    const asked = readAsked(
      { tools: [search, { name: 'a', input_schema: schema }], tool_choice: { type: 'tool', name: 'web_search' } },
      notes,
    );
    assert.deepEqual(asked.tools, [{ name: 'a', parameters: schema }]);
    assert.equal(asked.tool_choice, undefined);
    assert.deepEqual(notes.names, ['provider_tool']);
    refused({ tools: [search] }, 'not_translatable', 'tools.0');
    refused({ mcp_servers: [{ type: 'url', url: 'https://a.test', name: 'x' }] }, 'not_translatable', 'mcp_servers');
  });

  test('tools that are defined in the middle of the conversation are tools like the others', () => {
    const notes = new Notes();
    const input_schema = { type: 'object' };
    const add = (definition: object) => ({ type: 'tool_addition', tool: { type: 'tool_definition', definition } });
    const messages = [
      { role: 'user', content: 'Hello' },
      {
        role: 'system',
        content: [
          add({ name: 'later', input_schema }),
          add({ name: 'first', input_schema, description: 'again' }),
          add({ type: 'web_search_20250305', name: 'web_search' }),
          { type: 'tool_addition', tool: { type: 'tool_reference', name: 'first' } },
          { type: 'tool_removal', tool: { type: 'tool_reference', name: 'first' } },
        ],
      },
    ];
    const { tools, turns } = readAsked({ tools: [{ name: 'first', input_schema }], messages }, notes);
    assert.deepEqual(tools, [
      { name: 'first', parameters: input_schema },
      { name: 'later', parameters: input_schema },
    ]);
    assert.equal(turns.length, 1);
    assert.deepEqual(notes.names, ['tool_changes']);
    const broken = [{ role: 'system', content: [add({ name: 'x', input_schema: 7 })] }];
    refused({ messages: broken }, 'invalid_request', 'messages.0.content.0.tool.definition.input_schema');
  });

  test('the choice of tools and whether calls may be parallel are told apart', () => {
    const choice = (tool_choice: unknown) => {
      const { tool_choice: kind, parallel_tool_calls } = readAsked({ tool_choice });
      return [kind, parallel_tool_calls];
    };
    assert.deepEqual(choice({ type: 'any' }), [{ kind: 'any' }, undefined]);
    assert.deepEqual(choice({ type: 'auto', disable_parallel_tool_use: true }), [{ kind: 'auto' }, false]);
    assert.deepEqual(choice({ type: 'tool', name: 'a', disable_parallel_tool_use: false }), [
      { kind: 'tool', name: 'a' },
      true,
    ]);
    assert.deepEqual(choice(null), [undefined, undefined]);
  });
});

describe('settings', () => {
  test('thinking and effort are one wish', () => {
    const wish = (body: Record<string, unknown>) => readAsked(body).reasoning;
    assert.equal(wish({}), undefined);
    assert.deepEqual(wish({ thinking: { type: 'enabled', budget_tokens: 2048 } }), { budget_tokens: 2048 });
    assert.deepEqual(wish({ thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'high' } }), {
      effort: 'high',
      show: false,
    });
    assert.deepEqual(wish({ thinking: { type: 'adaptive', display: 'summarized' } }), { show: true });
    assert.deepEqual(wish({ output_config: { effort: 'max' } }), { effort: 'max' });
    assert.deepEqual(wish({ thinking: { type: 'disabled' } }), { effort: 'none' });
  });

  test('words for display and effort that are newer than this version are no reason to refuse', () => {
    const notes = new Notes();
    const body = { thinking: { type: 'adaptive', display: 'updates' }, output_config: { effort: 'ultra' } };
    assert.deepEqual(readAsked(body, notes).reasoning, { show: true });
    assert.deepEqual(notes.names, ['unknown_effort', 'thinking_display']);
  });

  test('fields of the provider alone are left out by their names, and null says nothing', () => {
    const notes = new Notes();
    const nothing = {
      container: null,
      thinking: null,
      tools: null,
      system: null,
      metadata: null,
      stop_sequences: null,
      new_field: null,
    };
    assert.equal(readAsked({ ...nothing, service_tier: 'auto' }, notes).stream, false);
    assert.deepEqual(notes.names, []);
    readAsked(
      {
        context_management: { edits: [] },
        safeguards: {},
        tags: ['x'],
        speed: 'fast',
        hologram: 1,
        metadata: { device: 2 },
      },
      notes,
    );
    assert.deepEqual(notes.names, [
      'context_management',
      'safeguards',
      'tags',
      'speed',
      'unknown_field:hologram',
      'unknown_field:device',
    ]);
  });

  test('a conversation that the provider keeps cannot be continued elsewhere', () => {
    refused({ thread: { id: 'x' } }, 'not_translatable', 'thread');
  });
});

test('a request that breaks the protocol is refused by the place where it does', () => {
  const message = (content: unknown, role = 'user') => ({ messages: [{ role, content }] });
  const cases: [Record<string, unknown>, string][] = [
    [{ model: null }, 'model'],
    [{ max_tokens: '100' }, 'max_tokens'],
    [{ max_tokens: null }, 'max_tokens'],
    [{ messages: { 0: 'x' } }, 'messages'],
    [{ messages: ['x'] }, 'messages.0'],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages.0.role'],
    [message(null), 'messages.0.content'],
    [message(['x']), 'messages.0.content.0'],
    [message([{ type: null }]), 'messages.0.content.0.type'],
    [message([{ type: 'text', text: 5 }]), 'messages.0.content.0.text'],
    [message([{ type: 'tool_use', id: 'a', name: 'b', input: {} }]), 'messages.0.content.0.type'],
    [message([{ type: 'tool_use', id: 'a', name: 'b', input: '{}' }], 'assistant'), 'messages.0.content.0.input'],
    [message([{ type: 'tool_use', id: '', name: 'b', input: {} }], 'assistant'), 'messages.0.content.0.id'],
    [message([{ type: 'image', source: { type: 'telepathy' } }]), 'messages.0.content.0.source.type'],
    [message([{ type: 'tool_result', tool_use_id: 't', content: [7] }]), 'messages.0.content.0.content.0'],
    [
      message([{ type: 'text', text: 'x', cache_control: { type: 'ephemeral', ttl: '2d' } }]),
      'messages.0.content.0.cache_control.ttl',
    ],
    [{ system: [{ type: 'image', source: {} }] }, 'system.0.type'],
    [{ tools: [{ name: 'a', input_schema: 'none' }] }, 'tools.0.input_schema'],
    [{ tools: [null] }, 'tools.0'],
    [{ tool_choice: { type: 'all' } }, 'tool_choice.type'],
    [{ tool_choice: { type: 'tool' } }, 'tool_choice.name'],
    [{ thinking: { type: 'deep' } }, 'thinking.type'],
    [{ thinking: { type: 'enabled' } }, 'thinking.budget_tokens'],
    [{ output_config: { effort: 7 } }, 'output_config.effort'],
    [{ output_config: { format: { type: 'xml' } } }, 'output_config.format.type'],
    [{ stop_sequences: 'END' }, 'stop_sequences'],
    [{ temperature: 'hot' }, 'temperature'],
    [{ metadata: { user_id: 7 } }, 'metadata.user_id'],
    [{ stream: 'yes' }, 'stream'],
  ];
  for (const [body, param] of cases) refused(body, 'invalid_request', param);
});
