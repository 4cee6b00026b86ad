import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import type { Conversation, Part, ReasoningPart, Turn } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';
import { writeAsked } from './scene.ts';

type Body = Record<string, unknown>;

/** The request for these turns, and what was noted. */
function written(
  conversation: Partial<Conversation>,
  thinking: 'none' | 'budget' | 'adaptive' = 'adaptive',
): { body: Body; noted: readonly string[] } {
  const notes = new Notes();
  const body = writeAsked(conversation, { notes, thinking });
  return { body, noted: notes.names };
}

/** Messages for these turns. */
function messagesOf(turns: readonly Turn[]): { messages: unknown; noted: readonly string[] } {
  const { body, noted } = written({ turns });
  return { messages: body.messages, noted };
}

const text = (said: string): Part => ({ kind: 'text', text: said });
const user = (...parts: readonly Part[]): Turn => ({ role: 'user', parts });
const assistant = (...parts: readonly Part[]): Turn => ({ role: 'assistant', parts });
const call = (id: string, args = '{}'): Part => ({ kind: 'tool_call', id, name: 'read', arguments: args });
const result = (call_id: string, said = 'ok'): Part => ({
  kind: 'tool_result',
  call_id,
  parts: [{ kind: 'text', text: said }],
  is_error: false,
});

describe('messages', () => {
  test('instructions in the middle become tagged text of the user, behind the results they stand before', () => {
    const { messages, noted } = messagesOf([
      user(text('a')),
      assistant(call('c1')),
      { role: 'instructions', parts: [text('Be brief.')] },
      user(result('c1')),
    ]);
    assert.deepEqual((messages as Body[])[2], {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'c1', content: 'ok' },
        { type: 'text', text: '<system_message>\nBe brief.\n</system_message>' },
      ],
    });
    assert.deepEqual(noted, ['instructions_turn', 'tools_of_history']);
  });

  test('identifiers of calls get characters that upstreams take, no two the same, and results follow them', () => {
    const { messages, noted } = messagesOf([
      user(text('a')),
      assistant(call('call:1'), call('call_1')),
      user(result('call:1', 'x'), result('call_1', 'y')),
      assistant(call('call_1')),
      user(result('call_1', 'z')),
    ]);
    const blocks = (messages as { content: Body[] }[]).flatMap(({ content }) => content);
    assert.deepEqual(
      blocks.slice(1).map(({ id, tool_use_id, content }) => id ?? [tool_use_id, content]),
      ['call_1', 'call_1_2', ['call_1', 'x'], ['call_1_2', 'y'], 'call_1_3', ['call_1_3', 'z']],
    );
    assert.deepEqual(noted, ['tool_call_id', 'tools_of_history']);
  });

  test('arguments are an object, whatever the model wrote', () => {
    const { messages, noted } = messagesOf([
      user(text('a')),
      assistant(call('a', ''), call('b', '{"x":'), call('c', '[1]')),
    ]);
    assert.deepEqual(
      (messages as { content: Body[] }[])[1]!.content.map(({ input }) => input),
      [{}, { arguments: '{"x":' }, { arguments: '[1]' }],
    );
    assert.deepEqual(noted, ['broken_arguments', 'tools_of_history']);
  });

  test('numbers of arguments keep all their digits', () => {
    const args = '{"id":12345678901234567890,"list":[0.10000000000000000001,1e400],"n":1}';
    const { messages } = messagesOf([user(text('a')), assistant(call('a', args))]);
    assert.ok(JSON.stringify(messages).includes(`"input":${args}`));
  });

  test('blank texts are left out, but a blank result stays a result', () => {
    const { messages, noted } = messagesOf([
      user(text(' \n'), text('a')),
      assistant(call('c')),
      user(result('c', '\n'), text('')),
    ]);
    assert.deepEqual((messages as { content: Body[] }[])[0]!.content, [{ type: 'text', text: 'a' }]);
    assert.deepEqual((messages as { content: Body[] }[])[2]!.content, [
      { type: 'tool_result', tool_use_id: 'c', content: '\n' },
    ]);
    assert.deepEqual(noted, ['blank_text', 'tools_of_history']);
  });

  test('a text file is given as text, and a file that is neither PDF nor text is refused', () => {
    const document = (media_type: string): Part => ({
      kind: 'document',
      source: { kind: 'base64', media_type, data: Buffer.from('a,é').toString('base64') },
      name: 'a.csv',
    });
    const { messages } = messagesOf([user(document('text/csv'))]);
    assert.deepEqual((messages as { content: Body[] }[])[0]!.content, [
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a,é' }, title: 'a.csv' },
    ]);
    assert.throws(
      () => writeAsked({ turns: [user(document('application/zip'))] }),
      (error) =>
        error instanceof StageError && error.code === 'not_translatable' && error.details.rule === 'document_type',
    );
  });

  test('a refusal in the history is text of the model', () => {
    const { messages, noted } = messagesOf([user(text('a')), assistant({ kind: 'refusal', text: 'No.' })]);
    assert.deepEqual((messages as Body[])[1], { role: 'assistant', content: [{ type: 'text', text: 'No.' }] });
    assert.deepEqual(noted, ['refusal_history']);
  });

  test('there is always a message, the first is of the user, and none ends where the model could not go on', () => {
    const only = written({
      instructions: [
        { kind: 'text', text: 'a' },
        { kind: 'text', text: 'b' },
      ],
      turns: [],
    });
    assert.deepEqual(only.body.system, [{ type: 'text', text: 'a' }]);
    assert.deepEqual(only.body.messages, [{ role: 'user', content: [{ type: 'text', text: 'b' }] }]);
    assert.deepEqual(only.noted, ['instructions_only']);
    const { messages, noted } = messagesOf([assistant(text('Once \n'))]);
    assert.deepEqual(
      (messages as { role: string; content: Body[] }[]).map(({ role, content }) => [role, content[0]!.text]),
      [
        ['user', '(The conversation begins.)'],
        ['assistant', 'Once'],
      ],
    );
    assert.deepEqual(noted, ['assistant_first', 'trailing_space']);
  });
});

describe('prompt caching', () => {
  const marked: Partial<Conversation> = {
    instructions: [
      { kind: 'text', text: 'a' },
      { kind: 'text', text: 'b' },
    ],
    tools: [{ name: 't', parameters: { type: 'object' } }],
    turns: [user(text('one')), assistant(text('two')), user(text('three'))],
    cache: { key: 'session', ttl: '1h' },
  };

  test('a client that wants the whole prompt cached gets marks on instructions, tools and the last turn', () => {
    const { body, noted } = written(marked);
    const cache_control = { type: 'ephemeral', ttl: '1h' };
    assert.deepEqual(body.system, [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b', cache_control },
    ]);
    assert.deepEqual(body.tools, [{ name: 't', input_schema: { type: 'object' }, cache_control }]);
    const messages = body.messages as { content: Body[] }[];
    assert.deepEqual(messages.at(-1)!.content, [{ type: 'text', text: 'three', cache_control }]);
    assert.equal(messages[0]!.content[0]!.cache_control, undefined);
    assert.deepEqual(noted, ['prompt_cache']);
  });

  test('marks that the client made itself stay the only ones', () => {
    const { body, noted } = written({ ...marked, instructions: [{ kind: 'text', text: 'a', cache: '5m' }] });
    assert.deepEqual(body.system, [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }]);
    assert.equal(JSON.stringify(body).split('cache_control').length, 2);
    assert.deepEqual(noted, []);
  });
});

describe('settings', () => {
  const tools = [{ name: 't', parameters: {} }];

  test('a bound on the output is always said', () => {
    assert.equal(written({}).body.max_tokens, 8000);
    assert.equal(written({ max_output_tokens: 5 }).body.max_tokens, 5);
  });

  test('tools have a schema of an object, and their choice says whether calls may be parallel', () => {
    const choice = (more: Partial<Conversation>) => written({ tools, ...more }).body.tool_choice;
    assert.deepEqual(written({ tools }).body.tools, [{ name: 't', input_schema: { type: 'object' } }]);
    assert.equal(choice({ parallel_tool_calls: true }), undefined);
    assert.deepEqual(choice({ parallel_tool_calls: false }), { type: 'auto', disable_parallel_tool_use: true });
    assert.deepEqual(choice({ tool_choice: { kind: 'tool', name: 't' }, parallel_tool_calls: false }), {
      type: 'tool',
      name: 't',
      disable_parallel_tool_use: true,
    });
    assert.deepEqual(choice({ tool_choice: { kind: 'none' }, parallel_tool_calls: false }), { type: 'none' });
    assert.equal(written({ tool_choice: { kind: 'auto' }, parallel_tool_calls: false }).body.tool_choice, undefined);
  });

  test('tools that were called before are named in a request without tools, and may not be called', () => {
    const { body, noted } = written({
      turns: [user(text('a')), assistant(call('c')), user(result('c'), text('Sum up.'))],
    });
    assert.deepEqual(body.tools, [{ name: 'read', input_schema: { type: 'object' } }]);
    assert.deepEqual(body.tool_choice, { type: 'none' });
    assert.deepEqual(noted, ['tools_of_history']);
  });

  test('what this protocol has no word for is noted', () => {
    const { body, noted } = written({
      seed: 1,
      frequency_penalty: 0.5,
      verbosity: 'low',
      store: true,
      metadata: { a: 'b' },
      service_tier: 'flex',
      stop: ['\n', 'END'],
      temperature: 1.5,
      top_p: 0.5,
      output_format: { kind: 'json_schema', schema: { type: 'string' }, name: 'x' },
    });
    assert.deepEqual(noted, [
      ...['seed', 'penalties', 'verbosity', 'store', 'metadata', 'output_format_name', 'blank_stop'],
      ...['temperature_range', 'temperature_and_top_p', 'service_tier'],
    ]);
    assert.deepEqual([body.stop_sequences, body.temperature, body.top_p], [['END'], 1, undefined]);
  });

  test('values that mean nothing special are not noted', () => {
    const { body, noted } = written({
      frequency_penalty: 0,
      presence_penalty: 0,
      verbosity: 'medium',
      store: false,
      service_tier: 'auto',
      temperature: 1,
      top_p: 1,
    });
    assert.deepEqual(noted, []);
    assert.equal(body.service_tier, undefined);
  });

  test('JSON mode becomes a last instruction', () => {
    const { body, noted } = written({
      instructions: [{ kind: 'text', text: 'a' }],
      output_format: { kind: 'json_object' },
    });
    assert.match(String((body.system as Body[]).at(-1)!.text), /one JSON object and nothing else/);
    assert.deepEqual(noted, ['json_object_mode']);
  });

  test('a free-text tool is one with a text argument, noted', () => {
    const { noted } = written({ tools: [{ ...tools[0]!, free_text: true }] });
    assert.deepEqual(noted, ['free_text_tool']);
  });
});

/** How the model is told to think, and what was noted. */
function told(
  conversation: Partial<Conversation>,
  thinking: 'none' | 'budget' | 'adaptive',
): [unknown, unknown, readonly string[]] {
  const notes = new Notes();
  const tools = [{ name: 't', parameters: {} }];
  const { thinking: said, output_config } = writeAsked({ tools, ...conversation }, { notes, thinking });
  return [said, (output_config as { effort?: string } | undefined)?.effort, notes.names];
}

/** A conversation that ends with the result of a call, made after this was thought. */
function loop(...thoughts: readonly ReasoningPart[]): Turn[] {
  return [
    { role: 'user', parts: [{ kind: 'text', text: 'a' }] },
    { role: 'assistant', parts: [...thoughts, { kind: 'tool_call', id: 'c', name: 't', arguments: '{}' }] },
    { role: 'user', parts: [{ kind: 'tool_result', call_id: 'c', parts: [], is_error: false }] },
  ];
}

const OWN: ReasoningPart = {
  kind: 'reasoning',
  text: 'Hm',
  proof: { protocol: 'messages', kind: 'signature', value: 's' },
};
const FOREIGN: ReasoningPart = {
  kind: 'reasoning',
  text: 'Hm',
  proof: { protocol: 'responses', kind: 'encrypted', value: 's' },
};

test('a model that adapts is told the effort', () => {
  assert.deepEqual(told({ reasoning: { effort: 'high' } }, 'adaptive'), [{ type: 'adaptive' }, 'high', []]);
  assert.deepEqual(told({ reasoning: { effort: 'minimal', show: true } }, 'adaptive'), [
    { type: 'adaptive', display: 'summarized' },
    'low',
    ['thinking_effort'],
  ]);
  assert.deepEqual(told({ reasoning: { show: false } }, 'adaptive'), [
    { type: 'adaptive', display: 'omitted' },
    undefined,
    [],
  ]);
  assert.deepEqual(told({ reasoning: { budget_tokens: 10_000 } }, 'adaptive'), [
    { type: 'adaptive' },
    'medium',
    ['thinking_budget'],
  ]);
});

test('a model with a budget gets one below the bound on output', () => {
  const budget = (reasoning: Conversation['reasoning'], max_output_tokens = 60_000) =>
    told({ ...(reasoning && { reasoning }), max_output_tokens }, 'budget')[0];
  assert.deepEqual(budget({ effort: 'low' }), { type: 'enabled', budget_tokens: 1024 });
  assert.deepEqual(budget({ effort: 'max' }), { type: 'enabled', budget_tokens: 30_000 });
  assert.deepEqual(budget({ effort: 'high' }, 1500), { type: 'enabled', budget_tokens: 1024 });
  assert.deepEqual(budget({ budget_tokens: 5000 }, 6000), { type: 'enabled', budget_tokens: 5000 });
  assert.deepEqual(budget({ budget_tokens: 9000 }, 6000), { type: 'enabled', budget_tokens: 5999 });
  assert.deepEqual(budget({ budget_tokens: 10 }), { type: 'enabled', budget_tokens: 1024 });
  assert.deepEqual(told({ reasoning: { budget_tokens: 5000 } }, 'budget')[2], []);
  assert.deepEqual(told({ reasoning: { effort: 'low' }, max_output_tokens: 1024 }, 'budget'), [
    undefined,
    undefined,
    ['thinking_without_room'],
  ]);
});

test('a model that does not think is not told to, and one whose client wants no thoughts thinks as little as it can', () => {
  assert.deepEqual(told({ reasoning: { effort: 'high' } }, 'none'), [undefined, undefined, ['no_thinking']]);
  assert.deepEqual(told({ reasoning: { effort: 'none' } }, 'none'), [undefined, undefined, []]);
  assert.deepEqual(told({ reasoning: { effort: 'none' } }, 'budget'), [{ type: 'disabled' }, undefined, []]);
  assert.deepEqual(told({ reasoning: { effort: 'none' } }, 'adaptive'), [undefined, undefined, ['thinking_effort']]);
  assert.deepEqual(told({}, 'adaptive'), [undefined, undefined, []]);
});

test('nobody thinks where a call is forced', () => {
  for (const tool_choice of [{ kind: 'any' }, { kind: 'tool', name: 't' }] as const) {
    const conversation: Partial<Conversation> = { reasoning: { effort: 'high' }, tool_choice };
    assert.deepEqual(told(conversation, 'adaptive'), [undefined, undefined, ['thinking_with_forced_tool']]);
  }
});

test('in the middle of calls a model with a budget thinks on only where it can see its own thoughts', () => {
  const reasoning = { effort: 'high' } as const;
  assert.deepEqual(told({ reasoning, turns: loop(OWN) }, 'budget')[0], { type: 'enabled', budget_tokens: 4000 });
  assert.deepEqual(told({ reasoning, turns: loop() }, 'budget'), [undefined, undefined, ['thinking_in_tool_loop']]);
  assert.deepEqual(told({ reasoning, turns: loop(FOREIGN) }, 'budget'), [
    undefined,
    undefined,
    ['foreign_reasoning', 'thinking_in_tool_loop'],
  ]);
  assert.deepEqual(told({ reasoning, turns: loop(FOREIGN) }, 'adaptive'), [
    { type: 'adaptive' },
    'high',
    ['foreign_reasoning'],
  ]);
  const answered: Turn[] = [
    ...loop(),
    { role: 'assistant', parts: [{ kind: 'text', text: 'ok' }] },
    { role: 'user', parts: [{ kind: 'text', text: 'b' }] },
  ];
  assert.deepEqual(told({ reasoning, turns: answered }, 'adaptive')[0], { type: 'adaptive' });
});

test('sampling that upstreams refuse while the model thinks is left out, and kept when it does not', () => {
  const notes = new Notes();
  const sampling = { temperature: 0.5, top_k: 5 };
  const thinks = writeAsked({ reasoning: { effort: 'low' }, ...sampling }, { notes });
  assert.deepEqual([thinks.temperature, thinks.top_k], [undefined, undefined]);
  assert.deepEqual(notes.names, ['sampling_while_thinking']);
  const silent = writeAsked({ reasoning: { effort: 'low' }, ...sampling }, { thinking: 'none' });
  assert.deepEqual([silent.temperature, silent.top_k], [0.5, 5]);
  assert.equal(writeAsked({ reasoning: { effort: 'low' }, top_p: 0.96 }).top_p, 0.96);
});

function writtenTool(parameters: Record<string, unknown>, strict = false) {
  const notes = new Notes();
  const tools = [{ name: 'find', parameters, ...(strict && { strict }) }];
  const [tool] = writeAsked({ tools }, { notes }).tools as Record<string, unknown>[];
  return { schema: tool!.input_schema, strict: tool!.strict, notes: notes.names };
}

const id = { type: 'object', properties: { id: { type: 'string' } }, required: ['id', 'kind'] };
const name = { type: 'object', properties: { name: { type: 'string' }, id: { type: 'integer' } }, required: ['kind'] };

describe('the schema of a tool', () => {
  for (const key of ['anyOf', 'oneOf']) {
    test(`becomes one object where ${key} says that one of several holds`, () => {
      const parameters = { type: 'object', properties: { kind: { type: 'string' } }, [key]: [id, name] };
      const { schema, strict, notes } = writtenTool(parameters, true);
      assert.deepEqual(schema, {
        type: 'object',
        properties: {
          kind: { type: 'string' },
          id: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
          name: { type: 'string' },
        },
        required: ['kind'],
      });
      assert.equal(strict, undefined);
      assert.deepEqual(notes, ['schema_alternatives']);
    });
  }

  test('becomes one object that wants everything where all of several hold', () => {
    const { schema } = writtenTool({ allOf: [id, name, { $ref: '#/$defs/x' }, 7], $defs: {} });
    assert.deepEqual(schema, {
      type: 'object',
      $defs: {},
      properties: { id: { anyOf: [{ type: 'string' }, { type: 'integer' }] }, name: { type: 'string' } },
      required: ['id', 'kind'],
    });
  });
});
