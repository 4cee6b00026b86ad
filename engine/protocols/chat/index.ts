import { CHAT_KEYS } from '../body/known-keys.ts';
import type { ProtocolDefinition } from '../definition.ts';
import { ofOutline } from '../usage/reading.ts';
import { chatTexts } from './answer-texts.ts';
import { readChatBody } from './body.ts';
import { chatErrors } from './errors.ts';
import { readRequest } from './read-request.ts';
import { createReader, readDocument } from './read-stream.ts';
import { readChatUsage } from './reported-usage.ts';
import { writeDocument } from './write-document.ts';
import { writeRequest } from './write-request.ts';
import { ChatWriter } from './write-stream.ts';

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
