import type { ProtocolAdapter } from '../translation/adapter.ts';
import { readDocument } from './read-document.ts';
import { readRequest } from './read-request.ts';
import { ResponsesReader } from './read-stream.ts';
import { writeDocument } from './write-document.ts';
import { writeRequest } from './write-request.ts';
import { ResponsesWriter } from './write-stream.ts';

/** The Responses API. */
export const responsesAdapter: ProtocolAdapter = {
  readRequest,
  writeRequest,
  createReader: (notes) => new ResponsesReader(notes),
  readDocument,
  createWriter: (answer, notes) => new ResponsesWriter(answer, notes),
  writeDocument,
};
