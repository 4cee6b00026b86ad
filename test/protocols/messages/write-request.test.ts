import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import type { Conversation, Part, Turn } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
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
  test('neighbours of one role become one message, with results first', () => {
    const { messages, noted } = messagesOf([
      user(text('a')),
      assistant(call('c1')),
      assistant(call('c2')),
      user(result('c1')),
      user(text('b'), text('c')),
      user(result('c2')),
    ]);
    assert.deepEqual(messages, [
      { role: 'user', content: [{ type: 'text', text: 'a' }] },
      {
        role: 'assistant',
        content: [
          { type: 'tool_use', id: 'c1', name: 'read', input: {} },
          { type: 'tool_use', id: 'c2', name: 'read', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c1', content: 'ok' },
          { type: 'tool_result', tool_use_id: 'c2', content: 'ok' },
          { type: 'text', text: 'b' },
          { type: 'text', text: 'c' },
        ],
      },
    ]);
    assert.deepEqual(noted, ['tools_of_history']);
  });

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

  test('a failed result is marked, and files of a result stay in it', () => {
    const source = { kind: 'base64', media_type: 'image/png', data: 'aGk=' } as const;
    const { messages } = messagesOf([
      user(text('a')),
      assistant(call('c')),
      user({
        kind: 'tool_result',
        call_id: 'c',
        is_error: true,
        parts: [
          { kind: 'text', text: 'no' },
          { kind: 'image', source },
        ],
      }),
    ]);
    assert.deepEqual((messages as { content: Body[] }[])[2]!.content, [
      {
        type: 'tool_result',
        tool_use_id: 'c',
        content: [
          { type: 'text', text: 'no' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } },
        ],
        is_error: true,
      },
    ]);
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
