import { type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { StageError } from '../../base/contract/errors.ts';
import type { StageContext } from '../../base/contract/stage.ts';

/** The caller of a connection; stored on the socket, which costs less than a map of all connections. */
const OWNER = Symbol('owner');

type OwnedSocket = Socket & { [OWNER]?: string };

/** Counts client connections, in all and by caller. */
export class Connections {
  #open = 0;
  readonly #by_owner = new Map<string, number>();

  get open(): number {
    return this.#open;
  }

  /** Counts a connection until it closes. @returns false when there are more than `max` with it */
  add(socket: Socket, max: number): boolean {
    this.#open++;
    socket.on('close', () => {
      this.#open--;
      this.#disown(socket);
    });
    return this.#open <= max;
  }

  /** Counts a connection for its caller. @returns false when that caller has more than `max` with it */
  claim(socket: OwnedSocket, owner: string, max: number): boolean {
    if (socket[OWNER] !== owner && !socket.destroyed) {
      this.#disown(socket);
      socket[OWNER] = owner;
      this.#by_owner.set(owner, (this.#by_owner.get(owner) ?? 0) + 1);
    }
    return (this.#by_owner.get(owner) ?? 0) <= max;
  }

  #disown(socket: OwnedSocket): void {
    const owner = socket[OWNER];
    if (owner === undefined) return;
    delete socket[OWNER];
    const count = this.#by_owner.get(owner)! - 1;
    if (count === 0) this.#by_owner.delete(owner);
    else this.#by_owner.set(owner, count);
  }
}

/** Pause between two discarded chunks, over all connections, in milliseconds: about 30 MB per second. */
const PACE_MS = 2;

const waiting: IncomingMessage[] = [];
let timer: NodeJS.Timeout | undefined;

function schedule(): void {
  if (waiting.length === 0 || timer !== undefined) return;
  timer = setTimeout(() => {
    timer = undefined;
    waiting.shift()?.resume();
    schedule();
  }, PACE_MS);
}

/** Discards the rest of a body, rate-limited: many rejected bodies must not keep the process busy. */
function discardBody(req: IncomingMessage): void {
  req.on('data', () => {
    req.pause();
    waiting.push(req);
    schedule();
  });
  req.resume();
}

/** The value of a Host header: a host with or without a port, or nothing. */
const HOST = /^(?:\[[0-9a-f:.%]+\]|[\w.~%-]*)(?::\d{0,5})?$/i;

/**
 * Guards against request smuggling: the problem with a request's version, framing, Host or Content-Type where a proxy could
 * read it differently; `undefined` without one. Node's parser rejects the other cases (RFC 9112 sections 3.2 and 6).
 */
export function framingProblem({ headers, rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  const { host } = headers;
  const coding = headers['transfer-encoding'];
  // Node's parser also accepts versions 0.9 and 2.0.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return `HTTP/${httpVersion} is not supported; use HTTP/1.1.`;
  if (coding !== undefined) {
    if (httpVersion === '1.0') return 'HTTP/1.0 has no Transfer-Encoding; send a Content-Length.';
    // Node joins repeated headers with commas.
    if (coding.toLowerCase() !== 'chunked') return 'The only supported Transfer-Encoding is "chunked", once.';
  }
  const repeated = repeatedHeader(rawHeaders);
  if (repeated !== undefined) return `The request has more than one ${repeated} header.`;
  if (host === undefined) {
    return httpVersion === '1.1' ? 'The request has no Host header, which is required.' : undefined;
  }
  return HOST.test(host) ? undefined : 'The Host header is not a valid host.';
}

/** Node's `headers` has the first of repeated headers; a proxy or the upstream may use the last. */
function repeatedHeader(raw: readonly string[]): string | undefined {
  let host = false;
  let type = false;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    if (name.length === 4 && name.toLowerCase() === 'host') {
      if (host) return 'Host';
      host = true;
    } else if (name.length === 12 && name.toLowerCase() === 'content-type') {
      if (type) return 'Content-Type';
      type = true;
    }
  }
  return undefined;
}

interface CancellableRequest {
  readonly call: StageContext['call'];
  cancel_reason: StageError | undefined;
  readonly cancel: ((reason: StageError) => void) | undefined;
}

/** Cancels a request with an error; without a listener, closes its connection where no error can be sent any more. */
export function cancelRequest(ctx: CancellableRequest, reason: StageError): void {
  const { req, res } = ctx.call;
  ctx.cancel_reason ??= reason;
  if (ctx.cancel !== undefined) ctx.cancel(reason);
  // A client that still sends its request, or already receives a response, gets no error.
  else if (res.headersSent || !req.complete) res.destroy();
}

/** Largest unread request body that is discarded to keep its connection alive. */
const DISCARD_BYTES_MAX = 1024 * 1024;

/** Time for a client to read the last response before its connection closes, in milliseconds (lingering close). */
const LINGER_MS = 2000;

/** Time for the rest of a discarded body on a connection that is kept alive, in milliseconds. */
const REST_MS = 10_000;

/** Connections in a lingering close. */
const ending = new WeakSet<Socket>();

/** Connections that are reused once their unread body is discarded. */
const discarding = new WeakMap<Socket, IncomingMessage>();

/**
 * Sends a complete response. If the client is still sending its body, the connection is kept alive where the rest is small
 * and arrives soon; otherwise it gets a lingering close, so that the client can read the response.
 */
export function sendWhole(
  res: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
  body: string | Uint8Array,
): void {
  const { req } = res;
  // Explicit, because a failed `writeHead` leaves its phrase on the response.
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
    // Node.js does not emit `close` on an answered request when its connection ends.
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
  // Closing with unread input makes the kernel reset the connection, and the client would lose the response.
  const timer = setTimeout(close, LINGER_MS);
  function close() {
    clearTimeout(timer);
    res.end();
  }
  req.on('end', close).on('close', close).on('error', close);
  discardBody(req);
}

/** Whether input on a connection is ignored: it is in a lingering close, or its unread body is being discarded. */
export function isUnheard(socket: Socket): boolean {
  return ending.has(socket) || discarding.get(socket)?.complete === false;
}

/** Writes the last bytes to a connection, then closes it lingering. */
export function endSocket(socket: Socket, bytes: string): void {
  ending.add(socket);
  socket.end(bytes);
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.on('close', () => clearTimeout(timer)).resume();
}
