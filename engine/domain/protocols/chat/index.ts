import { PROTOCOL_PATHS } from '../../../base/contract/protocol.ts';
import { COMPAT_LIFETIMES } from '../body/lifetimes.ts';
import { CHAT_KEYS } from '../body/privileged-fields.ts';
import { COMPAT_CLIENTS, COMPAT_FIELDS, type ProtocolDefinition } from '../definition.ts';
import { compatErrors, type ProtocolErrors } from '../errors.ts';
import { ofOutline } from '../usage.ts';
import { meantFor, readChatBody } from './body.ts';
import { probe } from './probe.ts';
import { chatTexts, createReader, readChatUsage, readDocument } from './read-answer.ts';
import { readRequest } from './read-request.ts';
import { ChatWriter, writeDocument } from './write-answer.ts';
import { accepted, writeRequest } from './write-request.ts';

export const chatErrors: ProtocolErrors = {
  ...compatErrors,
  breakOff: (error, { request_id }) => `data: ${compatErrors.body(error, request_id)}\n\n`,
};

export const definition: ProtocolDefinition = {
  name: 'chat completions',
  provider: 'openai',
  path: PROTOCOL_PATHS.chat,
  other_paths: {
    own: /\/(?:threads|assistants)\b/i,
    shared:
      /\/(?:chat|completions|embeddings|images|audio|videos|batches|files|uploads|moderations|fine_tuning|vector_stores|evals|realtime)\b/i,
  },
  upstream_type: 'compat',
  privileged_fields: [...COMPAT_FIELDS, ...['engine', 'best_of', 'num_return_sequences', 'candidate_count']],
  known_keys: CHAT_KEYS,
  form_headers: {},
  readBody: readChatBody,
  meantFor,
  output: {
    fields: ['max_tokens', 'max_completion_tokens'],
    min: 0,
    is_required: false,
    runs_max: 10,
    are_runs_bounded: true,
  },
  kept: { cache_lifetimes: false, call_state: true, responses: false, proven_reasoning: false },
  lifetimes: COMPAT_LIFETIMES,
  readUsage: ofOutline(readChatUsage),
  errors: chatErrors,
  texts: chatTexts,
  stream: {
    // Its first chunks have a role and no content.
    preamble: [],
    has_preamble: false,
    openings: [],
    empty_parts: [],
    // Some servers only close the connection.
    has_end: false,
    has_usage_option: true,
    keep_alive: ': keep-alive\n\n',
  },
  probe,
  example_response:
    '{ object: chat.completion, choices: [{ index: 0, message: { role: assistant, content: Hi }, finish_reason: stop }], usage: { prompt_tokens: 10, completion_tokens: 5 } }',
  accepted,
  adapter: {
    readRequest,
    writeRequest,
    createReader,
    readDocument,
    createWriter: (answer, notes) => new ChatWriter(answer, notes),
    writeDocument,
  },
  clients: { ...COMPAT_CLIENTS, one_text: true },
};
