import { ERRORS, type ErrorCode, type ErrorDetails, type StageError } from '../../contract/errors.ts';
import { isShortWait } from '../../kit/patience.ts';
import { jsonText } from '../../kit/text/printable.ts';
import type { PipelineSpec } from '../../source/spec.ts';
import { headerText } from './header-text.ts';

/** What a pipeline's clients speak. */
export type PipelineProtocol = PipelineSpec['match']['protocol'];

/** Refusals of limits: of these the clients of chat completions and Responses must know whether waiting helps. */
const LIMITS: ReadonlySet<ErrorCode> = new Set(['spend_limit_exceeded', 'rate_limit_exceeded']);

const isCompat = (protocol: PipelineProtocol) => protocol === 'chat' || protocol === 'responses';

/** What is said about sending the request again: `true`, `false` or nothing. */
function shouldRetry({ code, headers }: StageError): string | undefined {
  const { retry } = ERRORS[code] as { retry?: boolean };
  return headers['x-should-retry'] ?? (retry === undefined ? undefined : String(retry));
}

/** Whether a limit refuses what a little patience does not mend. */
function isLasting(error: StageError): boolean {
  return LIMITS.has(error.code) && shouldRetry(error) === 'false';
}

/** The JSON body of an error in the envelope the protocol's clients expect. */
export function errorBody(protocol: PipelineProtocol, error: StageError, request_id: string): string {
  const { type, compat } = ERRORS[error.code];
  const { message, details } = error;
  if (isCompat(protocol)) {
    const name = { type: isLasting(error) ? ERRORS.spend_limit_exceeded.compat.type : compat.type, code: compat.code };
    return jsonText({ error: { message, ...name, param: null, ...withUnixTimes(details), request_id } });
  }
  return jsonText({ type: 'error', error: { type, message, code: error.code, ...details }, request_id });
}

type Detail = ErrorDetails[string];

/**
 * Details as clients of chat completions and Responses read them: `resets_at` in whole seconds since the epoch, because one
 * that finds a text there takes the whole error for unreadable; the text is beside it as `reset_time`.
 */
function withUnixTimes(details: ErrorDetails): ErrorDetails {
  const converted: Record<string, Detail> = {};
  for (const [key, value] of Object.entries(details)) {
    if (key !== 'resets_at') {
      converted[key] = Array.isArray(value) ? value.map((item) => withUnixTimes(item) as typeof item) : value;
      continue;
    }
    converted.resets_at = unixSeconds(value);
    if (typeof value === 'string') converted.reset_time = value;
  }
  return converted;
}

function unixSeconds(value: Detail): number | null {
  const seconds = typeof value === 'string' ? Date.parse(value) / 1000 : value;
  return typeof seconds === 'number' && Number.isFinite(seconds) ? Math.ceil(seconds) : null;
}

/**
 * Response headers of an error; what the error itself says wins, but on chat completions and Responses for a wait that no
 * client should sit out.
 * @param refusal_header of the profile: the header whose text the coding CLI shows.
 */
export function errorHeaders(
  protocol: PipelineProtocol,
  error: StageError,
  refusal_header?: string,
): Record<string, string> {
  const retry = shouldRetry(error);
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...(retry === undefined ? {} : { 'x-should-retry': retry }),
    ...error.headers,
  };
  return isCompat(protocol) ? forCompat(headers, error, refusal_header) : headers;
}

function forCompat(
  headers: Record<string, string>,
  error: StageError,
  refusal_header: string | undefined,
): Record<string, string> {
  const { 'retry-after': wait, ...others } = headers;
  if (!isLasting(error)) return wait === undefined || isShortWait(wait) ? headers : others;
  return {
    ...others,
    // The coding CLI tries again after every status but 429 and 400, later each time: so its turn ends at once.
    ...(error.status !== 429 && { 'retry-after': '0' }),
    // The client goes on with words of its own, so without a full stop.
    ...(refusal_header !== undefined && { [refusal_header]: headerText(error.message).replace(/\.$/, '') }),
  };
}

/** The envelope for a path that no pipeline serves: by the API the path belongs to. */
export function protocolOfPath(path: string): PipelineProtocol {
  if (/\/(?:completions|embeddings)\b/i.test(path)) return 'chat';
  return /\/responses\b/i.test(path) ? 'responses' : 'messages';
}
