import { type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { discardBody } from './discard.ts';

/** A request body up to this size is read to its end so that the connection can be used again. */
const DISCARD_BYTES_MAX = 1024 * 1024;

/** Longest time the gateway goes on discarding a refused body before it closes the connection, in milliseconds. */
const LINGER_MS = 2000;

/** How long the rest of a small body may take that is discarded to use the connection again, in milliseconds. */
const REST_MS = 10_000;

/** Connections that are only kept until their client has read the last answer. */
const ending = new WeakSet<Socket>();

/** Connections that are used again as soon as a body has arrived that nobody reads. */
const discarding = new WeakMap<Socket, IncomingMessage>();

/**
 * Sends a complete answer. When the client is still sending a body that nobody will read, the connection is used again if
 * the rest is small and comes soon, and otherwise closed in a way that lets the client read the answer first.
 */
export function sendWhole(
  res: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
  body: string | Uint8Array,
): void {
  const { req } = res;
  // Said outright: a head that could not be written has left its phrase behind.
  const phrase = STATUS_CODES[status] ?? '';
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers;
  if (req.complete || (length === undefined && coding === undefined)) {
    res.writeHead(status, phrase, headers).end(body);
    return;
  }
  if (Number(length ?? Infinity) <= DISCARD_BYTES_MAX && headers.connection !== 'close') {
    res.writeHead(status, phrase, headers).end(body);
    const { socket } = req;
    discarding.set(socket, req);
    const timer = setTimeout(() => socket.destroy(), REST_MS);
    // Node.js does not close a request that was answered when its connection ends.
    const settle = () => {
      clearTimeout(timer);
      socket.off('close', settle);
    };
    socket.once('close', settle);
    req.once('close', settle);
    return;
  }
  res.writeHead(status, phrase, { ...headers, connection: 'close' });
  res.write(body);
  ending.add(req.socket);
  // Closing with unread input makes the kernel reset the connection, and the client would lose the answer.
  const timer = setTimeout(close, LINGER_MS);
  function close() {
    clearTimeout(timer);
    res.end();
  }
  req.on('end', close).on('close', close).on('error', close);
  discardBody(req);
}

/** Whether what arrives on a connection is for nobody: its last answer is sent, or the rest of a body is discarded. */
export function isUnheard(socket: Socket): boolean {
  return ending.has(socket) || discarding.get(socket)?.complete === false;
}

/** Writes the last bytes to a connection and closes it as soon as the client has had the time to read them. */
export function endSocket(socket: Socket, bytes: string): void {
  ending.add(socket);
  socket.end(bytes);
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.on('close', () => clearTimeout(timer)).resume();
}
