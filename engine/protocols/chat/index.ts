import { CHAT_KEYS } from '../body/decisive-fields.ts';
import type { ProtocolDefinition } from '../definition.ts';
import { compatErrors, type ProtocolErrors } from '../errors.ts';
import { ofOutline } from '../usage.ts';
import { chatTexts } from './answer-texts.ts';
import { readChatBody } from './body.ts';
import { createReader, readDocument } from './read-answer.ts';
import { readRequest } from './read-request.ts';
import { readChatUsage } from './reported-usage.ts';
import { ChatWriter, writeDocument } from './write-answer.ts';
import { writeRequest } from './write-request.ts';

/** Errors of chat completions. */
export const chatErrors: ProtocolErrors = {
  ...compatErrors,
  breakOff: (error, { request_id }) => `data: ${compatErrors.body(error, request_id)}\n\n`,
};

/** Chat completions. */
export const chatProtocol: ProtocolDefinition = {
  path: '/v1/chat/completions',
  known_keys: CHAT_KEYS,
  readBody: readChatBody,
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
};
