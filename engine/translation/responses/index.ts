/**
 * The Responses API, as client side and as upstream side.
 * @module
 */
import type { ProtocolAdapter } from '../adapter.ts';
import { readDocument } from './read-document.ts';
import { readRequest } from './read-request.ts';
import { createReader } from './read-stream.ts';
import { writeDocument } from './write-document.ts';
import { writeRequest } from './write-request.ts';
import { createWriter } from './write-stream.ts';

/** Reads and writes the Responses API. */
export const responsesAdapter: ProtocolAdapter = {
  readRequest,
  writeRequest,
  createReader,
  readDocument,
  createWriter,
  writeDocument,
};
