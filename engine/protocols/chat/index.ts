import type { ProtocolAdapter } from '../translation/adapter.ts';
import { readDocument } from './read-document.ts';
import { readRequest } from './read-request.ts';
import { createReader } from './read-stream.ts';
import { writeDocument } from './write-document.ts';
import { writeRequest } from './write-request.ts';
import { ChatWriter } from './write-stream.ts';

/** Chat completions. */
export const chatAdapter: ProtocolAdapter = {
  readRequest,
  writeRequest,
  createReader,
  readDocument,
  createWriter: (answer, notes) => new ChatWriter(answer, notes),
  writeDocument,
};
