import { ERRORS, type StageError } from '../../contract/errors.ts';
import { jsonText } from '../../kit/text/printable.ts';
import { errorBody, type PipelineProtocol } from './envelopes.ts';

/** What is known of the stream that breaks off. */
export interface BrokenStream {
  readonly request_id: string;
  /** Responses: the number of the next event, 0 where it is not known. */
  readonly sequence_number?: number;
}

/**
 * The server-sent events that end a protocol's stream with an error. Clients of Responses look for the one or the other
 * of the two they get.
 */
export function brokenStreamEvents(protocol: PipelineProtocol, error: StageError, stream: BrokenStream): string {
  if (protocol === 'responses') return responseFailed(error, stream);
  const data = `data: ${errorBody(protocol, error, stream.request_id)}\n\n`;
  return protocol === 'chat' ? data : `event: error\n${data}`;
}

function responseFailed(error: StageError, stream: BrokenStream): string {
  const { request_id, sequence_number = 0 } = stream;
  const { compat } = ERRORS[error.code];
  const code = compat.code ?? compat.type;
  const { message } = error;
  const response = {
    id: `resp_${request_id.replaceAll('-', '')}`,
    object: 'response',
    status: 'failed',
    output: [],
    error: { code, message },
  };
  return (
    event({ type: 'error', sequence_number, code, message, param: null, request_id }) +
    event({ type: 'response.failed', sequence_number: sequence_number + 1, response })
  );
}

function event(value: { readonly type: string; readonly [key: string]: unknown }): string {
  return `event: ${value.type}\ndata: ${jsonText(value)}\n\n`;
}
