import { KNOWN_KEYS } from '../body/known-keys.ts';
import type { ProtocolDefinition } from '../definition.ts';
import { ofOutline } from '../usage/reading.ts';
import { messagesTexts } from './answer-texts.ts';
import { readMessagesBody } from './body.ts';
import { messagesErrors } from './errors.ts';
import { readRequest } from './read-request.ts';
import { MessagesReader, readDocument } from './read-stream.ts';
import { readMessagesUsage } from './reported-usage.ts';
import { writeDocument } from './write-document.ts';
import { writeRequest } from './write-request.ts';
import { MessagesWriter } from './write-stream.ts';

/** The Messages protocol. */
export const messagesProtocol: ProtocolDefinition = {
  path: '/v1/messages',
  known_keys: KNOWN_KEYS,
  readBody: readMessagesBody,
  readUsage: ofOutline(readMessagesUsage),
  errors: messagesErrors,
  texts: messagesTexts,
  keep_alive: 'event: ping\ndata: {"type": "ping"}\n\n',
  adapter: {
    readRequest,
    writeRequest,
    createReader: (notes) => new MessagesReader(notes),
    readDocument,
    createWriter: (answer, notes) => new MessagesWriter(answer, notes),
    writeDocument,
  },
};
