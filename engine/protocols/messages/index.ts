import type { ProtocolAdapter } from '../translation/adapter.ts';
import { readDocument } from './read-document.ts';
import { readRequest } from './read-request.ts';
import { MessagesReader } from './read-stream.ts';
import { writeDocument } from './write-document.ts';
import { writeRequest } from './write-request.ts';
import { MessagesWriter } from './write-stream.ts';

/** The Messages API. */
export const messagesAdapter: ProtocolAdapter = {
  readRequest,
  writeRequest,
  createReader: (notes) => new MessagesReader(notes),
  readDocument,
  createWriter: (answer) => new MessagesWriter(answer),
  writeDocument,
};
