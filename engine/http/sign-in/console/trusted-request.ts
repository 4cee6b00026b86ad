import type { IncomingMessage } from 'node:http';
import { StageError } from '../../../contract/errors.ts';
import { jsonTypeProblem } from '../../../kit/media-type.ts';
import { isSameOrigin } from '../same-origin.ts';

/** What the console sends with each request of its own; no form, image or link of another site can. */
export const CONSOLE_HEADER = 'x-console';

/**
 * Refuses a request whose cookie says who asks, unless a page of this gateway sent it: a browser sends cookies whoever has it
 * ask. What changes something takes a proof of the origin, the header of the console and, for a body, JSON; what is read takes
 * the origin, or the header where the browser tells no origin (files that are downloaded and event streams have no header).
 * Raises forbidden.
 * @param origin the gateway's own, from its public URL; the Host header has no say.
 */
export function demandTrusted({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>, origin: string): void {
  const marked = headers[CONSOLE_HEADER] !== undefined;
  if (method === 'GET' || method === 'HEAD') {
    const is_told = headers['sec-fetch-site'] !== undefined || headers.origin !== undefined;
    if (is_told ? isSameOrigin(headers, origin) : marked) return;
    throw refused();
  }
  if (!marked || !isSameOrigin(headers, origin)) throw refused();
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = headers;
  const has_body = coding !== undefined || (length !== undefined && length !== '0');
  if ((has_body || type !== undefined) && jsonTypeProblem(type ?? '') !== undefined) throw refused();
}

function refused(): StageError {
  return new StageError(
    'forbidden',
    'This request came with the cookie of the console, and not from a page of the console. Use the console itself, or a session token.',
  );
}
