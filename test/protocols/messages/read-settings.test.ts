import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { readAsked, refusesAsked as refused } from './scene.ts';

describe('tools', () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } } };

  test('the tools of the client keep name, description, schema, strictness and cache mark', () => {
    const tools = [
      { name: 'a', input_schema: schema },
      {
        type: 'custom',
        name: 'b',
        description: 'B',
        input_schema: schema,
        strict: true,
        cache_control: { type: 'ephemeral' },
      },
    ];
    assert.deepEqual(readAsked({ tools }).tools, [
      { name: 'a', parameters: schema },
      { name: 'b', description: 'B', parameters: schema, strict: true, cache: '5m' },
    ]);
  });

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

  test('sampling, stop sequences, user, output schema, tier and stream are read', () => {
    const schema = { type: 'object' };
    const asked = readAsked({
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      stop_sequences: ['END'],
      metadata: { user_id: 'u' },
      output_config: { format: { type: 'json_schema', schema } },
      service_tier: 'standard_only',
      cache_control: { type: 'ephemeral', ttl: '1h' },
      stream: true,
    });
    const { model: _model, instructions: _instructions, turns: _turns, tools: _tools, ...settings } = asked;
    assert.deepEqual(settings, {
      max_output_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      stop: ['END'],
      service_tier: 'default',
      output_format: { kind: 'json_schema', schema, strict: true },
      user: 'u',
      cache: { ttl: '1h' },
      stream: true,
    });
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
