import { STATUS_CODES } from 'node:http';
import type { Answer } from '../api.ts';
import type { RequestContext } from './context.ts';
import { REQUEST_ID_HEADER } from './headers.ts';

/** A request body up to this size is read to its end so that the connection can be used again. */
const DISCARD_BYTES_MAX = 1024 * 1024;

/** Longest time the gateway goes on discarding a refused body, in milliseconds. */
const LINGER_MS = 2000;

/** Sends a complete answer. When the client is still sending a large body, the connection is closed in a way that lets the client read the answer first. */
export function sendAnswer(ctx: RequestContext, answer: Answer): void {
  const { req, res } = ctx.exchange;
  const headers: Record<string, string | number> = {
    ...answer.headers,
    // A 304 would state the length of what it stands for (RFC 9110 section 8.6).
    ...(answer.status === 304 ? {} : { 'content-length': Buffer.byteLength(answer.body) }),
    [REQUEST_ID_HEADER]: ctx.peek('request.id')!,
  };
  // Said outright: a head that could not be written has left its phrase behind.
  const phrase = STATUS_CODES[answer.status] ?? '';
  const unread = !req.complete && !(Number(req.headers['content-length'] ?? Infinity) <= DISCARD_BYTES_MAX);
  const has_body = req.headers['content-length'] !== undefined || req.headers['transfer-encoding'] !== undefined;
  if (!unread || !has_body) {
    res.writeHead(answer.status, phrase, headers).end(answer.body);
    return;
  }
  res.writeHead(answer.status, phrase, { ...headers, connection: 'close' });
  res.write(answer.body);
  // Closing with unread input makes the kernel reset the connection, and the client would lose the answer.
  const timer = setTimeout(close, LINGER_MS);
  function close() {
    clearTimeout(timer);
    res.end();
  }
  req.on('end', close).on('close', close).on('error', close).resume();
}
