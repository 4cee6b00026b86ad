import type { Protocol } from '../../../base/contract/protocol.ts';
import type { EchoAnswer } from './open-echo.ts';

/** Input of a response. */
export interface Wanted {
  /** The requested model. */
  readonly model: string;
  readonly answer: EchoAnswer;
}

/** Default text of the response. */
const TEXT = 'This is the echo upstream of a self-check.';
const PIECES = 4;
const PIECES_MAX = 200;
const CREATED = 1_790_000_000;

type Json = Readonly<Record<string, unknown>>;

interface Voice {
  document(wanted: Wanted): Json;
  /** The events of a stream, serialised, with one event per piece of text. */
  events(wanted: Wanted): string[];
}

function piecesOf({ text = TEXT, pieces = PIECES }: EchoAnswer): string[] {
  const count = Math.min(Math.max(1, pieces), PIECES_MAX);
  const length = Math.max(1, Math.ceil(text.length / count));
  return Array.from({ length: count }, (_, index) => text.slice(index * length, (index + 1) * length)).filter(
    (piece, index) => piece !== '' || index === 0,
  );
}

const textOf = (answer: EchoAnswer) => piecesOf(answer).join('');
const sse = (value: Json & { readonly type: string }) => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;

function messagesUsage({ usage = {} }: EchoAnswer): Json {
  return {
    input_tokens: 11,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
    output_tokens: 5,
    service_tier: 'standard',
    ...usage,
  };
}

const messages: Voice = {
  document: ({ model, answer }) => ({
    id: 'msg_selfcheck',
    type: 'message',
    role: 'assistant',
    model,
    content: [{ type: 'text', text: textOf(answer) }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: messagesUsage(answer),
  }),
  events({ model, answer }) {
    const used = messagesUsage(answer);
    const head = { id: 'msg_selfcheck', type: 'message', role: 'assistant', model, content: [], stop_sequence: null };
    const message = { ...head, stop_reason: null, usage: { ...used, output_tokens: 1 } };
    return [
      sse({ type: 'message_start', message }),
      sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
      sse({ type: 'ping' }),
      ...piecesOf(answer).map((text) =>
        sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
      ),
      sse({ type: 'content_block_stop', index: 0 }),
      ...(answer.extra_events === undefined ? [] : [answer.extra_events]),
      sse({ type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: used }),
      sse({ type: 'message_stop' }),
    ];
  },
};

function chatUsage({ usage = {} }: EchoAnswer): Json {
  return {
    prompt_tokens: 11,
    completion_tokens: 5,
    total_tokens: 16,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
    ...usage,
  };
}

const chat: Voice = {
  document: ({ model, answer }) => ({
    id: 'chatcmpl-selfcheck',
    object: 'chat.completion',
    created: CREATED,
    model,
    choices: [{ index: 0, message: { role: 'assistant', content: textOf(answer) }, finish_reason: 'stop' }],
    usage: chatUsage(answer),
  }),
  events({ model, answer }) {
    const chunk = (choices: readonly Json[], more: Json = {}) =>
      `data: ${JSON.stringify({
        id: 'chatcmpl-selfcheck',
        object: 'chat.completion.chunk',
        created: CREATED,
        model,
        choices,
        ...more,
      })}\n\n`;
    const delta = (fields: Json, finish_reason: string | null = null) =>
      chunk([{ index: 0, delta: fields, finish_reason }]);
    return [
      delta({ role: 'assistant', content: '' }),
      ...piecesOf(answer).map((content) => delta({ content })),
      delta({}, 'stop'),
      chunk([], { usage: chatUsage(answer) }),
      'data: [DONE]\n\n',
    ];
  },
};

function response({ model }: Wanted, status: string, more: Json): Json {
  return {
    id: 'resp_selfcheck',
    object: 'response',
    created_at: CREATED,
    status,
    error: null,
    incomplete_details: null,
    model,
    output: [],
    parallel_tool_calls: true,
    tool_choice: 'auto',
    tools: [],
    usage: null,
    ...more,
  };
}

function finished(wanted: Wanted): Json {
  const usage = {
    input_tokens: 11,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 16,
    ...wanted.answer.usage,
  };
  return response(wanted, 'completed', { output: [outputItem([part(textOf(wanted.answer))])], usage });
}

const ITEM = 'msg_selfcheck';
const part = (text: string): Json => ({ type: 'output_text', text, annotations: [] });
const outputItem = (content: readonly Json[]): Json => ({
  id: ITEM,
  type: 'message',
  status: content.length === 0 ? 'in_progress' : 'completed',
  role: 'assistant',
  content,
});

const responses: Voice = {
  document: finished,
  events(wanted) {
    const text = textOf(wanted.answer);
    const place = { item_id: ITEM, output_index: 0, content_index: 0 };
    const events: (Json & { readonly type: string })[] = [
      { type: 'response.created', response: response(wanted, 'in_progress', {}) },
      { type: 'response.in_progress', response: response(wanted, 'in_progress', {}) },
      { type: 'response.output_item.added', output_index: 0, item: outputItem([]) },
      { type: 'response.content_part.added', ...place, part: part('') },
      ...piecesOf(wanted.answer).map((delta) => ({ type: 'response.output_text.delta', ...place, delta })),
      { type: 'response.output_text.done', ...place, text },
      { type: 'response.content_part.done', ...place, part: part(text) },
      { type: 'response.output_item.done', output_index: 0, item: outputItem([part(text)]) },
      { type: 'response.completed', response: finished(wanted) },
    ];
    return events.map((event, sequence_number) => sse({ ...event, sequence_number }));
  },
};

/** Serialises responses, by protocol. */
export const VOICES: Readonly<Record<Protocol, Voice>> = { messages, chat, responses };

/** An error of the echo upstream in the format of the protocol. */
export function echoError(protocol: Protocol, type: string, message: string): string {
  const error = { type, message };
  return JSON.stringify(protocol === 'messages' ? { type: 'error', error } : { error: { ...error, code: null } });
}
