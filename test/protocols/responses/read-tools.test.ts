import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readRequest as read, refusalOf as refusal } from './scene.ts';

describe('tools', () => {
  const grammar = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' };

  test('a custom tool is a tool with one text, its grammar in the description', () => {
    const { tools, names } = read({
      tools: [{ type: 'custom', name: 'patch', description: 'Edits.', format: grammar }],
    });
    assert.equal(tools[0]!.free_text, true);
    assert.match(tools[0]!.description!, /^Edits\.\n\n.*lark.*\nstart: "x"$/s);
    assert.deepEqual(names, ['tool_grammar']);
  });

  test('its calls have the text as their one argument', () => {
    const { turns } = read({
      tools: [{ type: 'custom', name: 'patch' }],
      input: [
        { type: 'custom_tool_call', call_id: 'a', name: 'patch', input: 'say "hi"\n' },
        { type: 'custom_tool_call_output', call_id: 'a', output: 'ok' },
      ],
    });
    assert.deepEqual(turns[0]!.parts, [
      { kind: 'tool_call', id: 'a', name: 'patch', arguments: '{"input":"say \\"hi\\"\\n"}' },
    ]);
  });

  const agents = {
    type: 'namespace',
    name: 'agents',
    description: 'Agents.',
    tools: [{ type: 'function', name: 'close', parameters: { type: 'object' }, strict: false }],
  };

  test('tools in a namespace get names of their own, and keep how the client calls them', () => {
    const taken = { type: 'function', name: 'agents__close', parameters: { type: 'object' } };
    const { tools, turns, names } = read({
      tools: [agents, taken],
      input: [
        { type: 'function_call', call_id: 'a', name: 'close', namespace: 'agents', arguments: '{}' },
        { type: 'function_call', call_id: 'b', name: 'agents__close', arguments: '{}' },
      ],
    });
    assert.deepEqual(
      tools.map(({ name, address }) => [name, address]),
      [
        ['agents__close_2', { name: 'close', namespace: 'agents' }],
        ['agents__close', undefined],
      ],
    );
    assert.deepEqual(
      turns[0]!.parts.map((part) => part.kind === 'tool_call' && part.name),
      ['agents__close_2', 'agents__close'],
    );
    assert.deepEqual(names, ['tool_namespace']);
  });

  test('a search run by the client is a tool, and what it found can be called', () => {
    const { tools, turns, names } = read({
      tools: [
        { type: 'tool_search', execution: 'client', description: 'Finds tools.', parameters: { type: 'object' } },
      ],
      input: [
        { type: 'tool_search_call', call_id: 's', execution: 'client', arguments: { query: 'agents' } },
        { type: 'tool_search_output', call_id: 's', execution: 'client', tools: [agents] },
        { type: 'function_call', call_id: 'a', name: 'close', namespace: 'agents', arguments: '{}' },
      ],
    });
    assert.deepEqual(
      tools.map(({ name, address }) => [name, address]),
      [
        ['tool_search', { name: 'tool_search', search: true }],
        ['agents__close', { name: 'close', namespace: 'agents' }],
      ],
    );
    assert.deepEqual(turns[0]!.parts, [
      { kind: 'tool_call', id: 's', name: 'tool_search', arguments: '{"query":"agents"}' },
    ]);
    assert.match(JSON.stringify(turns[1]), /agents__close/);
    assert.deepEqual(names, ['tool_search', 'tool_namespace']);
  });

  test('tools of the provider are left out while others remain, and refused alone', () => {
    const search = { type: 'web_search', external_web_access: false };
    const own = { type: 'function', name: 'look', parameters: null, strict: true };
    const { tools, names } = read({ tools: [search, own] });
    assert.deepEqual(tools, [{ name: 'look', parameters: { type: 'object', properties: {} }, strict: true }]);
    assert.deepEqual(names, ['provider_tool']);
    assert.deepEqual(refusal({ tools: [search] }).details, { param: 'tools', rule: 'only_provider_tools' });
  });

  test('each form of tool_choice is read', () => {
    const tools = ['a', 'b'].map((name) => ({ type: 'function', name, parameters: { type: 'object' } }));
    const choose = (tool_choice: unknown) => read({ tools, tool_choice }).tool_choice;
    assert.equal(choose(null), undefined);
    assert.deepEqual(choose('auto'), { kind: 'auto' });
    assert.deepEqual(choose('none'), { kind: 'none' });
    assert.deepEqual(choose('required'), { kind: 'any' });
    assert.deepEqual(choose({ type: 'function', name: 'a' }), { kind: 'tool', name: 'a' });
    assert.deepEqual(choose({ type: 'custom', name: 'b' }), { kind: 'tool', name: 'b' });
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'b' }] };
    const left = read({ tools, tool_choice: allowed });
    assert.deepEqual(left.tool_choice, { kind: 'any' });
    assert.deepEqual(
      left.tools.map(({ name }) => name),
      ['b'],
    );
    assert.deepEqual(left.names, ['allowed_tools']);
    assert.equal(refusal({ tools, tool_choice: { type: 'web_search' } }).details.rule, 'provider_tool_choice');
  });
});
