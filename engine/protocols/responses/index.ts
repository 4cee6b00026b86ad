import { KNOWN_KEYS } from '../body/known-keys.ts';
import type { ProtocolDefinition } from '../definition.ts';
import { ofOutline } from '../usage/reading.ts';
import { responsesTexts } from './answer-texts.ts';
import { readResponsesBody } from './body.ts';
import { responsesErrors } from './errors.ts';
import { readRequest } from './read-request.ts';
import { ResponsesReader, readDocument } from './read-stream.ts';
import { readResponsesUsage } from './reported-usage.ts';
import { writeRequest } from './write-request.ts';
import { ResponsesWriter, writeDocument } from './write-stream.ts';

/** Responses. */
export const responsesProtocol: ProtocolDefinition = {
  path: '/v1/responses',
  known_keys: KNOWN_KEYS,
  readBody: readResponsesBody,
  readUsage: ofOutline(readResponsesUsage),
  errors: responsesErrors,
  texts: responsesTexts,
  keep_alive: ': keep-alive\n\n',
  adapter: {
    readRequest,
    writeRequest,
    createReader: (notes) => new ResponsesReader(notes),
    readDocument,
    createWriter: (answer, notes) => new ResponsesWriter(answer, notes),
    writeDocument,
  },
};
