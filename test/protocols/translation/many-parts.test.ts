/** Requests of very many small pieces: translating them takes time in proportion, so that one cannot stop the gateway. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StageError } from '../../../engine/contract/errors.ts';
import type { Protocol } from '../../../engine/contract/protocol.ts';
import { assertProportional } from '../../support/work.ts';
import { PAIRS, translate } from './translating.ts';

/** How many pieces a request has. */
let count = 0;

const many = (piece: (index: number) => unknown) => Array.from({ length: count }, (_, index) => piece(index));
const by = (index: number) => (index % 2 === 0 ? 'user' : 'assistant');

const messagesCalls = (id: (index: number) => string) => [
  { role: 'user', content: 'Go' },
  { role: 'assistant', content: many((i) => ({ type: 'tool_use', id: id(i), name: 'x', input: {} })) },
  { role: 'user', content: many((i) => ({ type: 'tool_result', tool_use_id: id(i), content: 'done' })) },
];
const chatCalls = (id: (index: number) => string) => [
  { role: 'user', content: 'Go' },
  { role: 'assistant', tool_calls: many((i) => ({ id: id(i), type: 'function', function: { name: 'x' } })) },
  ...many((i) => ({ role: 'tool', tool_call_id: id(i), content: 'done' })),
];
const responsesCalls = (id: (index: number) => string) => [
  ...many((i) => ({ type: 'function_call', call_id: id(i), name: 'x', arguments: '{}' })),
  ...many((i) => ({ type: 'function_call_output', call_id: id(i), output: 'done' })),
];

const REQUESTS: Readonly<Record<Protocol, Readonly<Record<string, () => object>>>> = {
  messages: {
    'turns that alternate': () => ({ messages: many((i) => ({ role: by(i), content: 'a' })) }),
    'turns of one side': () => ({ messages: many(() => ({ role: 'user', content: 'a' })) }),
    'parts of one message': () => ({
      messages: [{ role: 'user', content: many(() => ({ type: 'text', text: 'a' })) }],
    }),
    'calls with one identifier': () => ({ messages: messagesCalls(() => 'call') }),
  },
  chat: {
    'turns that alternate': () => ({ messages: many((i) => ({ role: by(i), content: 'a' })) }),
    'instructions in one message': () => ({
      messages: [
        { role: 'system', content: many(() => ({ type: 'text', text: 'a' })) },
        { role: 'user', content: 'a' },
      ],
    }),
    'calls with one identifier': () => ({ messages: chatCalls(() => 'call') }),
    'calls with identifiers that look alike': () => ({ messages: chatCalls((i) => (i % 2 === 0 ? 'a.b' : 'a:b')) }),
  },
  responses: {
    'turns that alternate': () => ({ input: many((i) => ({ role: by(i), content: 'a' })) }),
    'parts of one answer': () => ({
      input: [{ role: 'assistant', content: many(() => ({ type: 'output_text', text: 'a' })) }],
    }),
    'calls and their results': () => ({ input: responsesCalls((i) => `call_${i}`) }),
    'calls with one identifier': () => ({ input: responsesCalls(() => 'call') }),
  },
};

for (const [from, requests] of Object.entries(REQUESTS) as [Protocol, Readonly<Record<string, () => object>>][]) {
  describe(`a ${from} request of very many`, () => {
    for (const [what, make] of Object.entries(requests)) {
      it(`${what} is translated with work in proportion`, () =>
        assertProportional(200, (size) => {
          count = size;
          for (const { to } of PAIRS.filter((pair) => pair.from === from)) {
            assert.ok(translate(from, to, true, make()).json.length > size, `all of it goes to ${to}`);
          }
        }));
    }
  });
}

describe('a request of more pieces than can be translated in a moment', () => {
  const text = (type: string) => Array.from({ length: 100_001 }, () => ({ type, text: 'a' }));
  const tools = Array.from({ length: 100_001 }, () => ({}));
  const user = (content: unknown) => [{ role: 'user', content }];
  const result = { type: 'tool_result', tool_use_id: 'c', content: text('text') };
  const BODIES: Readonly<Record<Protocol, readonly object[]>> = {
    messages: [{ messages: user(text('text')) }, { system: text('text') }, { messages: user([result]) }, { tools }],
    chat: [{ messages: user(text('text')) }, { messages: tools }, { tools }],
    responses: [{ input: user(text('input_text')) }, { tools: [{ type: 'namespace', name: 'n', tools }] }],
  };
  for (const { from, to } of PAIRS) {
    it(`is refused from ${from} to ${to}, and where it has them is told`, () => {
      for (const body of BODIES[from]) {
        assert.throws(
          () => translate(from, to, true, body),
          (error: StageError) =>
            error.code === 'not_translatable' && error.message.startsWith(`${Object.keys(body)[0]}: `),
        );
      }
    });
  }

  it('may have as large schemas and arguments as it likes', () => {
    const properties = Object.fromEntries(Array.from({ length: 100_001 }, (_, i) => [`p${i}`, {}]));
    const schema = { type: 'object', properties, required: Object.keys(properties).slice(0, 9), enum: text('x') };
    const call = { type: 'tool_use', id: 'c', name: 't', input: { list: text('x') } };
    const messages = [
      { role: 'user', content: 'Go' },
      { role: 'assistant', content: [call] },
    ];
    translate('messages', 'chat', true, { messages, tools: [{ name: 't', input_schema: schema }] });
  });
});
