import { jsonText } from '../diagnostics/printable.ts';
import { ERRORS, type StageError } from '../errors.ts';
import type { PipelineSpec } from '../load/spec.ts';

/** What a pipeline's clients speak. */
export type Surface = PipelineSpec['match']['surface'];

/** The JSON body of an error in the envelope the surface's clients expect. */
export function errorBody(surface: Surface, error: StageError, request_id: string): string {
  const spec = ERRORS[error.code];
  if (surface === 'chat' || surface === 'responses') {
    const { type, code } = spec.compat;
    return jsonText({ error: { message: error.message, type, code, param: null, ...error.details, request_id } });
  }
  return jsonText({
    type: 'error',
    error: { type: spec.type, message: error.message, code: error.code, ...error.details },
    request_id,
  });
}

/** Response headers of an error; what the error itself says wins. */
export function errorHeaders(error: StageError): Record<string, string> {
  const { retry } = ERRORS[error.code] as { retry?: boolean };
  return {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...(retry === undefined ? {} : { 'x-should-retry': String(retry) }),
    ...error.headers,
  };
}

/** The envelope for a path that no pipeline serves: by the API the path belongs to. */
export function surfaceOfPath(path: string): Surface {
  if (/\/(?:completions|embeddings)\b/i.test(path)) return 'chat';
  return /\/responses\b/i.test(path) ? 'responses' : 'messages';
}
