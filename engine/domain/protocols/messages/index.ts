import { PROTOCOL_PATHS } from '../../../base/contract/protocol.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { MESSAGES_LIFETIMES } from '../body/lifetimes.ts';
import { KNOWN_KEYS } from '../body/privileged-fields.ts';
import type { ProtocolDefinition } from '../definition.ts';
import { errorHeaders, messagesTypeOf, messagesTypeOfStatus, type ProtocolErrors } from '../errors.ts';
import { MEANINGS, MESSAGES_TYPES, meaningOf } from '../read-error.ts';
import { own } from '../read-json.ts';
import type { Problem } from '../translation/conversation.ts';
import { ofOutline } from '../usage.ts';
import { meantFor, readMessagesBody } from './body.ts';
import { probe } from './probe.ts';
import { MessagesReader, messagesTexts, readDocument, readMessagesUsage } from './read-answer.ts';
import { findMadeReasoning, readRequest } from './read-request.ts';
import { MessagesWriter, writeDocument } from './write-answer.ts';
import { accepted, writeRequest } from './write-request.ts';

/** The phrase by which Messages clients recognise a context overflow, and compact the conversation. */
const TOO_LONG = 'prompt is too long';

function messagesType({ type, code, status, context_overflow }: Problem): string {
  if (context_overflow) return 'invalid_request_error';
  const named = meaningOf({ names: [code ?? '', type ?? ''], texts: [] }, status);
  if (named !== undefined) return MEANINGS[named.meaning].messages;
  // Compat servers send invalid_request_error with every status below 500.
  const keep = own(MESSAGES_TYPES, type) !== undefined && (type !== 'invalid_request_error' || status === 400);
  return keep ? type! : messagesTypeOfStatus(status);
}

/** Another phrase that they recognise; they then lower `max_tokens`. */
const TOO_LONG_WITH_ANSWER = /input length and `max_tokens` exceed context limit/i;

/** Errors of the Messages protocol. */
export const messagesErrors: ProtocolErrors = {
  nameOf: (error) => ({ type: messagesTypeOf(error), code: error.code }),
  body(error, request_id) {
    const { code, message, details } = error;
    const type = messagesTypeOf(error);
    return jsonText({ type: 'error', error: { type, message, code, ...details }, request_id });
  },
  headers: errorHeaders,
  breakOff: (error, { request_id }) => `event: error\ndata: ${messagesErrors.body(error, request_id)}\n\n`,
  fields(problem) {
    const { message, code, context_overflow } = problem;
    const says_so = !context_overflow || message.toLowerCase().includes(TOO_LONG);
    return {
      type: messagesType(problem),
      message: says_so ? message : `${TOO_LONG}: ${message}`,
      ...(code !== undefined && { code }),
    };
  },
  write: (problem, request_id) => ({ type: 'error', error: messagesErrors.fields(problem), request_id }),
  knowsOverflow: ({ message }) => message.toLowerCase().includes(TOO_LONG) || TOO_LONG_WITH_ANSWER.test(message),
};

export const definition: ProtocolDefinition = {
  name: 'Messages',
  provider: 'anthropic',
  path: PROTOCOL_PATHS.messages,
  other_paths: { own: /\/messages\b/i, headers: ['anthropic-version', 'vendor-version'] },
  upstream_type: 'vendor',
  privileged_fields: ['inference_geo', 'billing_policy', 'context_management'],
  known_keys: KNOWN_KEYS,
  form_headers: { version: '2023-06-01', beta: undefined },
  readBody: readMessagesBody,
  meantFor,
  output: { fields: ['max_tokens'], min: 0, is_required: true, runs_max: 10, are_runs_bounded: false },
  kept: { cache_lifetimes: true, call_state: false, responses: false, proven_reasoning: true },
  lifetimes: MESSAGES_LIFETIMES,
  readUsage: ofOutline(readMessagesUsage),
  errors: messagesErrors,
  texts: messagesTexts,
  stream: {
    preamble: ['message_start', 'ping'],
    has_preamble: false,
    openings: ['content_block_start'],
    empty_parts: ['text', 'thinking'],
    has_end: true,
    has_usage_option: false,
    keep_alive: 'event: ping\ndata: {"type": "ping"}\n\n',
  },
  probe,
  accepted,
  adapter: {
    readRequest,
    findMadeReasoning,
    writeRequest,
    createReader: (notes, emit) => new MessagesReader(notes, emit),
    readDocument,
    createWriter: (answer, notes) => new MessagesWriter(answer, notes),
    writeDocument,
  },
  clients: {
    request_id_header: 'request-id',
    waits_long: true,
    adds_up_usage: true,
    plain_call_ids: true,
    one_text: false,
    stop_field: 'stop_sequences',
    base_path: '',
  },
};
