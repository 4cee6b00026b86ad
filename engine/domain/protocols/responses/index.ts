import { ERRORS } from '../../../base/contract/errors.ts';
import { PROTOCOL_PATHS } from '../../../base/contract/protocol.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { COMPAT_LIFETIMES } from '../body/lifetimes.ts';
import { KNOWN_KEYS } from '../body/privileged-fields.ts';
import { COMPAT_CLIENTS, COMPAT_FIELDS, type ProtocolDefinition } from '../definition.ts';
import { compatErrors, type FailedRequest, OVERFLOW_CODE, type ProtocolErrors } from '../errors.ts';
import { ofOutline } from '../usage.ts';
import { meantFor, readResponsesBody } from './body.ts';
import { probe } from './probe.ts';
import { ResponsesReader, readDocument, readResponsesUsage, responsesTexts } from './read-answer.ts';
import { findMadeReasoning, readRequest } from './read-request.ts';
import { echoOf, ResponsesWriter, writeDocument } from './write-answer.ts';
import { accepted, OUTPUT_TOKENS_MIN, writeRequest } from './write-request.ts';

/**
 * Errors of Responses. Clients read one or the other of the two final events of a stream. The coding CLI recognises a context
 * overflow only in the second event, not in an error response.
 */
export const responsesErrors: ProtocolErrors = {
  ...compatErrors,
  breakOff(error, { said = '', ...request }) {
    const { compat } = ERRORS[error.code];
    const code = compat.code ?? compat.type;
    return endEvents(request, nextNumber(said), { code, message: error.message, param: null });
  },
  knowsOverflow: ({ code }) => code === OVERFLOW_CODE,
  stream(problem, request) {
    const { message, code, param, type } = compatErrors.fields(problem);
    const name = (code ?? type) as string;
    const response = { ...failedResponse(request), status: 'in_progress', error: null };
    return (
      event({ type: 'response.created', sequence_number: 0, response }) +
      endEvents(request, 1, { code: name, message: message as string, param: (param ?? null) as string | null })
    );
  },
};

/** Fields that typed clients require in the response of an event. */
const failedResponse = ({ request_id, created_at, model }: FailedRequest) => ({
  id: `resp_${request_id.replaceAll('-', '')}`,
  object: 'response',
  created_at,
  model,
  status: 'failed',
  output: [],
});

/** The next sequence number of a Responses stream. In texts of a model the quotes would be escaped. */
function nextNumber(events: string): number {
  const last = events.lastIndexOf('"sequence_number":');
  return last < 0 ? 0 : 1 + Number.parseInt(events.slice(last + '"sequence_number":'.length), 10) || 0;
}

function endEvents(
  request: FailedRequest,
  sequence_number: number,
  { code, message, param }: { readonly code: string; readonly message: string; readonly param: string | null },
): string {
  const response = { ...failedResponse(request), error: { code, message } };
  return (
    event({ type: 'error', sequence_number, code, message, param, request_id: request.request_id }) +
    event({ type: 'response.failed', sequence_number: sequence_number + 1, response })
  );
}

function event(value: { readonly type: string; readonly [key: string]: unknown }): string {
  return `event: ${value.type}\ndata: ${jsonText(value)}\n\n`;
}

export const definition: ProtocolDefinition = {
  name: 'Responses',
  provider: 'openai',
  path: PROTOCOL_PATHS.responses,
  other_paths: { own: /\/responses\b/i },
  upstream_type: 'compat',
  privileged_fields: [...COMPAT_FIELDS, 'context_management', 'max_tool_calls', 'prompt'],
  known_keys: KNOWN_KEYS,
  form_headers: {},
  readBody: readResponsesBody,
  meantFor,
  output: {
    fields: ['max_output_tokens'],
    min: OUTPUT_TOKENS_MIN,
    is_required: false,
    // The API documents no bound; no known response needs as many.
    runs_max: 100,
    are_runs_bounded: true,
  },
  kept: { cache_lifetimes: false, call_state: false, responses: true, proven_reasoning: false },
  lifetimes: COMPAT_LIFETIMES,
  readUsage: ofOutline(readResponsesUsage),
  errors: responsesErrors,
  texts: responsesTexts,
  stream: {
    preamble: ['response.created', 'response.queued', 'response.in_progress'],
    has_preamble: true,
    openings: ['response.output_item.added', 'response.content_part.added', 'response.reasoning_summary_part.added'],
    empty_parts: ['message', 'reasoning', 'output_text', 'summary_text'],
    has_end: true,
    has_usage_option: false,
    keep_alive: ': keep-alive\n\n',
  },
  probe,
  accepted,
  adapter: {
    readRequest,
    findMadeReasoning,
    writeRequest,
    echoOf,
    createReader: (notes, emit) => new ResponsesReader(notes, emit),
    readDocument,
    createWriter: (answer, notes) => new ResponsesWriter(answer, notes),
    writeDocument,
  },
  clients: COMPAT_CLIENTS,
};
