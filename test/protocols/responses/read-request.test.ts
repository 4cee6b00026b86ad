import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { proofToText } from '../../../engine/protocols/translation/made-reasoning.ts';
import { readRequest as read, refusalOf as refusal } from './scene.ts';

describe('what is said', () => {
  test('a text is what the user says', () => {
    assert.deepEqual(read({ input: 'hi' }).turns, [{ role: 'user', parts: [{ kind: 'text', text: 'hi' }] }]);
  });

  test('instructions come first, then leading system and developer messages, block by block', () => {
    const { instructions, turns } = read({
      instructions: 'one',
      input: [
        {
          role: 'developer',
          content: [
            { type: 'input_text', text: 'two' },
            { type: 'input_text', text: 'three' },
          ],
        },
        { type: 'message', role: 'system', content: 'four' },
        { role: 'user', content: 'hi' },
        { role: 'developer', content: 'five' },
      ],
    });
    assert.deepEqual(
      instructions.map(({ text }) => text),
      ['one', 'two', 'three', 'four'],
    );
    assert.deepEqual(turns[1], { role: 'instructions', parts: [{ kind: 'text', text: 'five' }] });
  });

  test('reasoning, text and calls of the model in a row are one turn, results in a row the next', () => {
    const { turns } = read({
      input: [
        { role: 'user', content: 'hi' },
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'abc' },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'let me see', annotations: [] }] },
        { type: 'function_call', call_id: 'a', name: 'look', arguments: '{"x":1}' },
        { type: 'function_call', call_id: 'b', name: 'look', arguments: '' },
        { type: 'function_call_output', call_id: 'a', output: 'found' },
        { type: 'function_call_output', call_id: 'b', output: [{ type: 'input_text', text: 'none' }] },
        { role: 'user', content: 'go on' },
      ],
    });
    assert.deepEqual(
      turns.map(({ role, parts }) => [role, ...parts.map(({ kind }) => kind)]),
      [
        ['user', 'text'],
        ['assistant', 'reasoning', 'text', 'tool_call', 'tool_call'],
        ['user', 'tool_result', 'tool_result'],
        ['user', 'text'],
      ],
    );
    assert.deepEqual(turns[1]!.parts[0], {
      kind: 'reasoning',
      text: 'hm',
      proof: { protocol: 'responses', kind: 'encrypted', value: 'abc', id: 'rs_1' },
    });
  });

  test('images and files are read from URLs and data URLs', () => {
    const { turns, names } = read({
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'high' },
            { type: 'input_image', image_url: 'https://example.test/a.png', detail: 'auto' },
            { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' },
            { type: 'input_file', file_url: 'https://example.test/a.pdf', detail: 'low' },
            { type: 'input_file', filename: 'a.txt', file_data: 'data:text/plain;charset=utf-8;base64,aGk=' },
            { type: 'input_file', file_data: 'CCCC' },
          ],
        },
      ],
    });
    assert.deepEqual(turns[0]!.parts, [
      { kind: 'image', source: { kind: 'base64', media_type: 'image/png', data: 'AAAA' }, detail: 'high' },
      { kind: 'image', source: { kind: 'url', url: 'https://example.test/a.png' } },
      { kind: 'document', source: { kind: 'base64', media_type: 'application/pdf', data: 'BBBB' }, name: 'a.pdf' },
      { kind: 'document', source: { kind: 'url', url: 'https://example.test/a.pdf' } },
      { kind: 'document', source: { kind: 'text', text: 'hi' }, name: 'a.txt' },
      { kind: 'document', source: { kind: 'base64', media_type: 'application/pdf', data: 'CCCC' } },
    ]);
    assert.deepEqual(names, ['file_detail']);
  });

  test('a proof of another provider is given back as it was, and does not become our own', () => {
    const proof = { protocol: 'messages', kind: 'signature', value: 'sig:with:colons' } as const;
    const { turns } = read({
      input: [
        {
          type: 'reasoning',
          id: 'rs_9',
          summary: [],
          encrypted_content: proofToText(proof, { protocol: 'messages', upstream: 'u' }),
        },
      ],
    });
    assert.deepEqual(turns[0]!.parts, [{ kind: 'reasoning', text: '', proof: { ...proof, upstream: 'u' } }]);
  });

  test('marks of the prompt cache are read, and so is the key of the whole', () => {
    const { turns, cache, names } = read({
      prompt_cache_key: 'k',
      prompt_cache_retention: '24h',
      input: [
        {
          role: 'user',
          content: [{ type: 'input_text', text: 'x', prompt_cache_breakpoint: { mode: 'explicit', ttl: '12h' } }],
        },
      ],
    });
    assert.deepEqual(turns[0]!.parts, [{ kind: 'text', text: 'x', cache: '1h' }]);
    assert.deepEqual(cache, { key: 'k', ttl: '1h' });
    assert.deepEqual(names, ['prompt_cache_options']);
  });

  test('what tools of the provider did is left out of the history, noted', () => {
    const { turns, names } = read({
      input: [
        { role: 'user', content: 'hi' },
        { type: 'web_search_call', id: 'ws_1', status: 'completed', action: {} },
        { type: 'local_shell_call', call_id: 'x', action: {} },
        { role: 'assistant', content: [{ type: 'output_text', text: 'so', annotations: [{ type: 'url_citation' }] }] },
      ],
    });
    assert.equal(turns.length, 2);
    assert.deepEqual(names, ['provider_tool_history', 'annotations']);
  });
});

describe('settings', () => {
  test('everything that the vocabulary has is read', () => {
    const schema = { name: 'n', schema: { type: 'object' }, strict: true };
    const same = {
      ...{ max_output_tokens: 100, temperature: 0.5, top_p: 0.9, parallel_tool_calls: false },
      ...{ metadata: { a: 'b' }, service_tier: 'flex', store: false, stream: true },
    };
    const { names, turns, instructions, tools, ...rest } = read({
      ...same,
      reasoning: { effort: 'xhigh', summary: 'auto' },
      text: { verbosity: 'low', format: { type: 'json_schema', ...schema } },
      ...{ safety_identifier: 'u', include: ['reasoning.encrypted_content'], truncation: 'disabled' },
      ...{ top_logprobs: 0, background: false, previous_response_id: null },
    });
    assert.deepEqual(rest, {
      ...same,
      ...{ model: 'm', reasoning: { effort: 'xhigh', show: true }, verbosity: 'low', user: 'u' },
      output_format: { kind: 'json_schema', ...schema },
    });
    assert.deepEqual([names, instructions, tools], [[], [], []]);
    assert.equal(turns.length, 1);
  });

  test('what other protocols cannot say is left out, noted', () => {
    const { names } = read({
      max_tool_calls: 3,
      truncation: 'auto',
      client_metadata: { a: 'b' },
      moderation: { model: 'x' },
      prompt_cache_options: { ttl: '30m' },
      top_logprobs: 3,
      include: ['web_search_call.action.sources'],
      stream_options: { include_obfuscation: true },
      reasoning: { effort: 'ultra', summary: 'detailed' },
      user: 'a',
      safety_identifier: 'b',
      brand_new_field: 1,
    });
    const expected = [
      ...[
        'unknown_field:brand_new_field',
        'client_metadata',
        'provider_tool_calls',
        'provider_options',
        'prompt_cache_options',
      ],
      ...['token_probabilities', 'truncation', 'include', 'stream_obfuscation', 'reasoning_options', 'unknown_effort'],
      'second_user',
    ];
    assert.deepEqual([...names].sort(), expected.sort());
  });
});

describe('refusals', () => {
  const rules: readonly [Record<string, unknown>, string, string][] = [
    [{ previous_response_id: 'resp_1' }, 'kept_conversation', 'previous_response_id'],
    [{ conversation: { id: 'c' } }, 'kept_conversation', 'conversation'],
    [{ prompt: { id: 'p' } }, 'prompt_template', 'prompt'],
    [{ background: true }, 'background', 'background'],
    [{ input: [{ type: 'item_reference', id: 'x' }] }, 'kept_conversation', 'input.0'],
    [{ input: [{ id: 'x' }] }, 'kept_conversation', 'input.0'],
    [{ input: [{ type: 'compaction', encrypted_content: 'x' }] }, 'compaction_item', 'input.0'],
    [{ input: [{ type: 'compaction_trigger' }] }, 'compaction_item', 'input.0'],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] },
      'file_reference',
      'input.0.content.0.file_id',
    ],
  ];
  for (const [body, rule, param] of rules) {
    test(`${JSON.stringify(body)} is refused by the rule ${rule}`, () => {
      const error = refusal(body);
      assert.equal(error.code, 'not_translatable');
      assert.deepEqual(error.details, { param, rule });
      assert.ok(error.message.startsWith(`${param}: `));
    });
  }

  const broken: readonly [Record<string, unknown>, string][] = [
    [{ model: 7 }, 'model'],
    [{ input: 7 }, 'input'],
    // With `messages`, which belong to another protocol, this would ask the model nothing.
    [{ input: null, messages: [{ role: 'user', content: 'hi' }] }, 'input'],
    [{ input: [] }, 'input'],
    [{ input: [{ type: 'something_new' }] }, 'input'],
    [{ input: [null] }, 'input.0'],
    [{ input: [{ role: 'robot', content: 'x' }] }, 'input.0.role'],
    [{ input: [{ role: 'constructor', content: 'x' }] }, 'input.0.role'],
    [{ input: [{ role: 'user', content: 7 }] }, 'input.0.content'],
    [{ input: [{ role: 'user', content: [{ type: 'input_sound' }] }] }, 'input.0.content.0.type'],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'ftp://x' }] }] },
      'input.0.content.0.image_url',
    ],
    [{ input: [{ role: 'user', content: [{ type: 'input_file' }] }] }, 'input.0.content.0'],
    [{ input: [{ type: 'function_call', call_id: 'a', name: 'n', arguments: {} }] }, 'input.0.arguments'],
    [{ input: [{ type: 'function_call', name: 'n', arguments: '' }] }, 'input.0.call_id'],
    [{ input: [{ type: 'reasoning', summary: [7] }] }, 'input.0.summary.0'],
    [{ tools: [{ type: 'function' }] }, 'tools.0.name'],
    [{ tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'web_search', name: 'x' }] }] }, 'tools.0.tools.0.type'],
    [{ tool_choice: 'sometimes' }, 'tool_choice'],
    [{ text: { format: { type: 'xml' } } }, 'text.format.type'],
    [{ stream: 'yes' }, 'stream'],
    [{ metadata: { a: 1 } }, 'metadata'],
  ];
  for (const [body, param] of broken) {
    test(`${JSON.stringify(body)} is told to be invalid at ${param}`, () => {
      const error = refusal(body);
      assert.equal(error.code, 'invalid_request');
      assert.equal(error.details.param, param);
    });
  }
});

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
