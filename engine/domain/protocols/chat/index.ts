import { CHAT_KEYS } from '../body/decisive-fields.ts';
import { COMPAT_LIFETIMES } from '../body/lifetimes.ts';
import type { ProtocolDefinition } from '../definition.ts';
import { compatErrors, type ProtocolErrors } from '../errors.ts';
import { ofOutline } from '../usage.ts';
import { meantFor, readChatBody } from './body.ts';
import { chatTexts, createReader, readChatUsage, readDocument } from './read-answer.ts';
import { readRequest } from './read-request.ts';
import { ChatWriter, writeDocument } from './write-answer.ts';
import { writeRequest } from './write-request.ts';

/** Errors of chat completions. */
export const chatErrors: ProtocolErrors = {
  ...compatErrors,
  breakOff: (error, { request_id }) => `data: ${compatErrors.body(error, request_id)}\n\n`,
};

/** Chat completions. */
export const chatProtocol: ProtocolDefinition = {
  api: 'chat completions',
  path: '/v1/chat/completions',
  known_keys: CHAT_KEYS,
  readBody: readChatBody,
  meantFor,
  lifetimes: COMPAT_LIFETIMES,
  readUsage: ofOutline(readChatUsage),
  errors: chatErrors,
  texts: chatTexts,
  keep_alive: ': keep-alive\n\n',
  adapter: {
    readRequest,
    writeRequest,
    createReader,
    readDocument,
    createWriter: (answer, notes) => new ChatWriter(answer, notes),
    writeDocument,
  },
  clients: {
    request_id_header: 'x-request-id',
    waits_long: false,
    adds_up_usage: false,
    plain_call_ids: false,
    one_text: true,
    stop_field: 'stop',
  },
};
