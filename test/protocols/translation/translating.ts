/** A small request in each protocol, and its translation. */
import type { ResponseHead } from '../../../engine/api.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { UpstreamTarget } from '../../../engine/domain/protocols/translation/conversation.ts';
import { translateRequest } from '../../../engine/domain/protocols/translation/translate.ts';

/** The name of the tool in each request: above the limit of chat completions and Responses. */
export const LONG_NAME = `mcp__${'tool_'.repeat(14)}`;
const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, additionalProperties: false };

/** A request with one tool in each protocol. */
const BODIES: Readonly<Record<Protocol, Record<string, unknown>>> = {
  messages: {
    model: 'coder-1',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'Hi' }],
    tools: [{ name: LONG_NAME, input_schema: PARAMETERS }],
  },
  chat: {
    model: 'coder-1',
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: 'Hi' }],
    tools: [{ type: 'function', function: { name: LONG_NAME, parameters: PARAMETERS } }],
  },
  responses: {
    model: 'coder-1',
    input: 'Hi',
    tools: [{ type: 'function', name: LONG_NAME, parameters: PARAMETERS }],
  },
};

/** Client and upstream that do not speak the same protocol. */
export const PAIRS = PROTOCOLS.flatMap((from) => PROTOCOLS.filter((to) => to !== from).map((to) => ({ from, to })));

/** Translates the small request; `more` is laid over it. */
export function translate(
  from: Protocol,
  to: Protocol,
  stream: boolean,
  more: object = {},
  target: UpstreamTarget = { max_output_tokens: 1000, thinking: 'adaptive', sampling: true },
) {
  return translateRequest({
    from,
    to,
    body: { ...BODIES[from], stream, ...more },
    upstream: to,
    upstream_model: 'upstream-1',
    target,
    request_id: '0a0b0c0d-0000-4000-8000-000000000001',
    created_at: 1_700_000_000,
  });
}

const many = (count: number, piece: (index: number) => unknown) =>
  Array.from({ length: count }, (_, index) => piece(index));
const by = (index: number) => (index % 2 === 0 ? 'user' : 'assistant');

const textsOf = (count: number, type = 'text') => many(count, () => ({ type, text: 'a' }));
const GO = { role: 'user', content: 'Go' };

const messagesCalls = (count: number, id: (index: number) => string) => [
  GO,
  { role: 'assistant', content: many(count, (i) => ({ type: 'tool_use', id: id(i), name: 'x', input: {} })) },
  { role: 'user', content: many(count, (i) => ({ type: 'tool_result', tool_use_id: id(i), content: 'done' })) },
];
const chatCalls = (count: number, id: (index: number) => string) => [
  GO,
  { role: 'assistant', tool_calls: many(count, (i) => ({ id: id(i), type: 'function', function: { name: 'x' } })) },
  ...many(count, (i) => ({ role: 'tool', tool_call_id: id(i), content: 'done' })),
];
const responsesCalls = (count: number, id: (index: number) => string) => [
  ...many(count, (i) => ({ type: 'function_call', call_id: id(i), name: 'x', arguments: '{}' })),
  ...many(count, (i) => ({ type: 'function_call_output', call_id: id(i), output: 'done' })),
];

/** The content of a request with so many pieces, by their kind. Each piece is the text `a`, or a call with the result `done`. */
export const MANY: Readonly<Record<Protocol, Readonly<Record<string, (count: number) => object>>>> = {
  messages: {
    'turns that alternate': (count) => ({ messages: many(count, (i) => ({ role: by(i), content: 'a' })) }),
    'turns of one side': (count) => ({ messages: many(count, () => ({ role: 'user', content: 'a' })) }),
    'parts of one message': (count) => ({ messages: [{ role: 'user', content: textsOf(count) }] }),
    'calls with one identifier': (count) => ({ messages: messagesCalls(count, () => 'call') }),
  },
  chat: {
    'turns that alternate': (count) => ({ messages: many(count, (i) => ({ role: by(i), content: 'a' })) }),
    'instructions in one message': (count) => ({ messages: [{ role: 'system', content: textsOf(count) }, GO] }),
    'calls with one identifier': (count) => ({ messages: chatCalls(count, () => 'call') }),
    'calls with identifiers that look alike': (count) => ({
      messages: chatCalls(count, (i) => ['a.b', 'a:b'][i % 2]!),
    }),
  },
  responses: {
    'turns that alternate': (count) => ({ input: many(count, (i) => ({ role: by(i), content: 'a' })) }),
    'parts of one answer': (count) => ({ input: [{ role: 'assistant', content: textsOf(count, 'output_text') }] }),
    'calls and their results': (count) => ({ input: responsesCalls(count, (i) => `call_${i}`) }),
    'calls with one identifier': (count) => ({ input: responsesCalls(count, () => 'call') }),
  },
};

/** Whether an error is one of ours with this code. */
export const raised = (code: string) => (error: unknown) => error instanceof StageError && error.code === code;

/** The head of an upstream's response, with its current headers. */
export function headOf(
  type: string,
  status = 200,
  more: Readonly<Record<string, string>> = {},
): ResponseHead & { readonly headers: Readonly<Record<string, string>> } {
  const headers: Record<string, string> = { 'content-type': type, ...more };
  return {
    status,
    headers,
    get: (name) => headers[name],
    set(name, value) {
      headers[name] = value;
    },
    remove(name) {
      delete headers[name];
    },
    replaceAll() {},
  };
}
