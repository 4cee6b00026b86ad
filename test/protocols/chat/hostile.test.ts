import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/contract/errors.ts';
import { chatProtocol } from '../../../engine/protocols/chat/index.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { times } from '../../support/times.ts';
import { ASK, context, readData, TARGET, writeStream } from './scene.ts';

/** JSON whose objects have the keys of the protocol, with anything at all below them. */
const hostile = fc.letrec<{ value: unknown; object: object }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, 0, -1, 1e300, '', 'text', 'tool', 'function', 'custom', 'data:,', '[DONE]'),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc.dictionary(
    fc.constantFrom(
      ...['role', 'content', 'type', 'text', 'tool_calls', 'function', 'custom', 'name', 'arguments', 'id', 'index'],
      ...['input', 'image_url', 'url', 'file', 'file_data', 'refusal', 'reasoning', 'delta', 'message', 'choices'],
      ...['finish_reason', 'usage', 'prompt_tokens', 'error', 'tool_call_id', 'function_call', 'allowed_tools', 'mode'],
      ...['cache_control', 'ttl', '__proto__', 'constructor', 'json_schema', 'schema', 'thinking', 'format', 'grammar'],
    ),
    tie('value'),
    { maxKeys: 5 },
  ),
})).value;

const roles = fc.constantFrom('system', 'user', 'assistant', 'tool', 'function', 'developer');

/** Runs a step that may only fail with an error of the catalogue. */
function survives(step: () => unknown): void {
  try {
    step();
  } catch (error) {
    assert.ok(error instanceof StageError, `not a StageError: ${error instanceof Error ? error.stack : error}`);
  }
}

const keys = [
  ...['messages', 'tools', 'tool_choice', 'stop', 'response_format', 'metadata', 'stream_options', 'n', 'modalities'],
  ...['temperature', 'reasoning_effort', 'prompt_cache_key', 'functions', 'parallel_tool_calls', 'stream', 'user'],
];

describe('hostile JSON', () => {
  test('in a field of a request is an error of the catalogue, or is read and can be written', () => {
    fc.assert(
      fc.property(fc.constantFrom(...keys), hostile, (key, value) => {
        survives(() => {
          const conversation = chatProtocol.adapter.readRequest({ ...ASK, [key]: value }, new Notes());
          JSON.stringify(chatProtocol.adapter.writeRequest(conversation, TARGET, new Notes()));
        });
      }),
      { numRuns: times(150) },
    );
  });

  test('in a message is an error of the catalogue, or is read and can be written', () => {
    const lists = fc.array(fc.tuple(roles, hostile), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(lists, (list) => {
        const messages = list.map(([role, value]) => ({ content: value, ...Object(value), role }));
        survives(() => {
          const conversation = chatProtocol.adapter.readRequest({ ...ASK, messages }, new Notes());
          JSON.stringify(chatProtocol.adapter.writeRequest(conversation, TARGET, new Notes()));
        });
      }),
      { numRuns: times(150) },
    );
  });

  test('in a stream is an error of the catalogue, or events that can be written', () => {
    const chunks = fc.array(fc.tuple(hostile, fc.boolean()), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(chunks, (list) => {
        const data = list.map(([value, whole]) =>
          JSON.stringify(whole ? value : { choices: [{ index: 0, delta: value, ...Object(value) }] }),
        );
        survives(() => writeStream(readData([...data, '{"choices":[{"delta":{},"finish_reason":"stop"}]}']).events));
      }),
      { numRuns: times(150) },
    );
  });

  test('in a document is an error of the catalogue, or events that can be written', () => {
    fc.assert(
      fc.property(hostile, fc.boolean(), (value, whole) => {
        const document = { ...Object(whole ? value : { choices: [{ message: value }] }) };
        survives(() => {
          const events = chatProtocol.adapter.readDocument(document, new Notes());
          if (events.at(-1)?.type === 'end') chatProtocol.adapter.writeDocument(events, context(), new Notes());
        });
      }),
      { numRuns: times(150) },
    );
  });

  test('that is nested 100,000 deep does not overflow the stack', () => {
    const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
    for (const key of keys) survives(() => chatProtocol.adapter.readRequest({ ...ASK, [key]: deep }, new Notes()));
    const parameters = { type: 'object', properties: { a: deep } };
    const strict = { ...ASK, tools: [{ type: 'function', function: { name: 'f', strict: true, parameters } }] };
    survives(() =>
      chatProtocol.adapter.writeRequest(chatProtocol.adapter.readRequest(strict, new Notes()), TARGET, new Notes()),
    );
    const call = { id: 'a', function: { name: 'f', arguments: { a: deep } } };
    survives(() => chatProtocol.adapter.readDocument({ choices: [{ message: { tool_calls: [call] } }] }, new Notes()));
    survives(() =>
      chatProtocol.adapter.readRequest({ ...ASK, messages: [{ role: 'assistant', tool_calls: [call] }] }, new Notes()),
    );
  });

  test('that is no JSON, or no object, is an invalid answer', () => {
    for (const data of ['', '{', 'null', '[]', '"x"', '7', '<html>']) {
      assert.throws(
        () => readData([data]),
        (error: unknown) => error instanceof StageError && error.code === 'upstream_invalid',
      );
    }
  });
});
