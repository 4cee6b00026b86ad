/**
 * How the scripted model provider writes a response in the Messages API.
 * @module
 */
import { sse } from '../../../engine/edge/simulate/upstream.ts';
import {
  type Answer,
  type AnswerIds,
  type Failure,
  pieces,
  type Said,
  sign,
  stopOf,
  type Used,
  usedBy,
} from './model-provider-script.ts';

function usage({ input, output, cache_read, cache_write, reasoning }: Used) {
  return {
    input_tokens: input,
    cache_creation_input_tokens: cache_write,
    cache_read_input_tokens: cache_read,
    cache_creation: { ephemeral_5m_input_tokens: cache_write, ephemeral_1h_input_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { thinking_tokens: reasoning },
    server_tool_use: null,
    service_tier: 'standard',
    inference_geo: 'not_available',
  };
}

const STOPS = {
  finished: 'end_turn',
  length: 'max_tokens',
  sequence: 'stop_sequence',
  calls: 'tool_use',
  refused: 'refusal',
} as const;

function block(what: Said, index: number, { call }: AnswerIds) {
  if (what.kind === 'call')
    return {
      type: 'tool_use',
      id: what.id ?? call(index),
      name: what.name,
      input: JSON.parse(what.arguments),
      caller: { type: 'direct' },
    };
  if (what.kind !== 'thought') return { type: 'text', text: what.text, citations: null };
  // A thought that cannot be read is known by its proof alone.
  if (what.text === '') return { type: 'redacted_thinking', data: sign('messages', '') };
  return { type: 'thinking', thinking: what.text, signature: sign('messages', what.text) };
}

function ending(response: Answer) {
  return {
    stop_reason: STOPS[stopOf(response)],
    stop_sequence: response.sequence ?? null,
    stop_details: stopOf(response) === 'refused' ? { type: 'refusal', category: null, explanation: null } : null,
  };
}

/** The response as one document. */
export function messagesDocument(response: Answer, ids: AnswerIds): object {
  const head = { id: ids.id, type: 'message', role: 'assistant', model: ids.model };
  const said = response.said.map((what, index) => block(what, index, ids));
  return { ...head, content: said, container: null, ...ending(response), usage: usage(usedBy(response)) };
}

function opening(what: Said, index: number, ids: AnswerIds) {
  const whole = block(what, index, ids);
  if (whole.type === 'thinking') return { type: 'thinking', thinking: '', signature: '' };
  if (whole.type === 'text') return { type: 'text', text: '' };
  return whole.type === 'tool_use' ? { ...whole, input: {} } : whole;
}

function deltas(what: Said, size?: number): object[] {
  if (what.kind === 'call') {
    // The real API begins every call with an empty delta.
    return ['', ...pieces(what.arguments, size)].map((partial_json) => ({ type: 'input_json_delta', partial_json }));
  }
  if (what.kind !== 'thought') return pieces(what.text, size).map((text) => ({ type: 'text_delta', text }));
  if (what.text === '') return [];
  const thought = pieces(what.text, size).map((thinking) => ({ type: 'thinking_delta', thinking }));
  return [...thought, { type: 'signature_delta', signature: sign('messages', what.text) }];
}

/** The response as the events of a stream. */
export function messagesEvents(response: Answer, ids: AnswerIds): string[] {
  const head = { id: ids.id, type: 'message', role: 'assistant', model: ids.model, content: [] };
  const used = usage(usedBy(response));
  const message = { ...head, stop_reason: null, stop_sequence: null, usage: { ...used, output_tokens: 1 } };
  const blocks = response.said.flatMap((what, index) => [
    { type: 'content_block_start', index, content_block: opening(what, index, ids) },
    ...(response.pings && index === 0 ? [{ type: 'ping' }] : []),
    ...deltas(what, response.piece).map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]);
  const { cache_creation: _, service_tier: __, inference_geo: ___, ...counts } = used;
  const last = { type: 'message_delta', delta: ending(response), usage: counts };
  return [{ type: 'message_start', message }, ...blocks, last, { type: 'message_stop' }].map(sse);
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

/** An error in the API's words. */
export function messagesError({ status, message, type = TYPES[status] ?? 'api_error' }: Failure) {
  return { type: 'error', error: { type, message }, request_id: 'req_provider' };
}
