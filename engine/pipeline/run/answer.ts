import { type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { StageError } from '../../base/contract/errors.ts';
import type { Clock, Timer } from '../../base/contract/services.ts';
import type { Relay, StageContext } from '../../base/contract/stage.ts';

/** Who uses a connection; kept with it, because a map of all connections would cost more. */
const OWNER = Symbol('owner');

type OwnedSocket = Socket & { [OWNER]?: string };

/** How many connections of clients there are, and of whom. */
export class Connections {
  #open = 0;
  readonly #by_owner = new Map<string, number>();

  /** How many there are. */
  get open(): number {
    return this.#open;
  }

  /** Counts a connection until it is closed. @returns false when there are more than `most` with it. */
  add(socket: Socket, most: number): boolean {
    this.#open++;
    socket.on('close', () => {
      this.#open--;
      this.#disown(socket);
    });
    return this.#open <= most;
  }

  /** Notes whose request a connection carries. @returns false when that caller has more than `most` connections with it. */
  claim(socket: OwnedSocket, owner: string, most: number): boolean {
    if (socket[OWNER] !== owner && !socket.destroyed) {
      this.#disown(socket);
      socket[OWNER] = owner;
      this.#by_owner.set(owner, (this.#by_owner.get(owner) ?? 0) + 1);
    }
    return (this.#by_owner.get(owner) ?? 0) <= most;
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

/** Pause between two pieces that are taken off the network to be thrown away, in milliseconds: about 30 MB per second. */
const PACE_MS = 2;

/** Bodies with more to throw away, each waiting for its turn. */
const waiting: IncomingMessage[] = [];
let timer: NodeJS.Timeout | undefined;

function takeTurn(): void {
  timer = undefined;
  waiting.shift()?.resume();
  schedule();
}

function schedule(): void {
  if (waiting.length > 0 && timer === undefined) timer = setTimeout(takeTurn, PACE_MS);
}

/** Reads the rest of a body that nobody wants, slowly: a crowd of refused bodies must not keep the process busy. */
function discardBody(req: IncomingMessage): void {
  req.on('data', () => {
    req.pause();
    waiting.push(req);
    schedule();
  });
  req.resume();
}

/** A host as the Host header names it, with or without a port; empty where a client has none to name. */
const HOST = /^(?:\[[0-9a-f:.%]+\]|[\w.~%-]*)(?::\d{0,5})?$/i;

/**
 * What is wrong with how a request names its host, tells the type of its body or marks its end, where a proxy in front of the gateway
 * might read it in another way; `undefined` when nothing is. Node's parser refuses the rest (RFC 9112 sections 3.2 and 6).
 */
export function framingProblem({ headers, rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  const { host } = headers;
  const coding = headers['transfer-encoding'];
  // Node's parser takes some of 0.9 and 2.0, too, to which nothing below would apply.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return `The request is HTTP/${httpVersion}; write HTTP/1.1.`;
  if (coding !== undefined) {
    if (httpVersion === '1.0') return 'The request is HTTP/1.0, which has no Transfer-Encoding.';
    // Repeated headers arrive here joined by commas.
    if (coding.toLowerCase() !== 'chunked') return 'The only Transfer-Encoding taken is "chunked", and that once.';
  }
  const repeated = repeatedHeader(rawHeaders);
  if (repeated !== undefined) return `The request has more than one ${repeated} header.`;
  if (host === undefined) {
    return httpVersion === '1.1' ? 'The request has no Host header; every request must have one.' : undefined;
  }
  return HOST.test(host) ? undefined : 'The Host header names no host.';
}

/** Of several Node's `headers` shows the first, and a proxy, or the upstream, may go by the last. */
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

/** A request that can be given up. */
interface UnderWay {
  readonly call: StageContext['call'];
  given_up: StageError | undefined;
  readonly cancel: ((reason: StageError) => void) | undefined;
}

/** Ends a request with an error, as soon as whoever works on it lets it; nothing new is begun for it. */
export function giveUpOn(ctx: UnderWay, reason: StageError): void {
  const { req, res } = ctx.call;
  ctx.given_up ??= reason;
  if (ctx.cancel !== undefined) ctx.cancel(reason);
  // Whoever still sends the request, or is sent a whole answer, can't be told anything.
  else if (res.headersSent || !req.complete) res.destroy();
}

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

/** Waits for silence that takes too long: before the first bytes of an answer, and between any two chunks from then on. */
export class Silence {
  readonly #clock: Clock;
  readonly #relay: Relay;
  readonly #onTooLong: (error: StageError) => void;
  #seconds: number;
  #timer: Timer | undefined;

  constructor(clock: Clock, relay: Relay, onTooLong: (error: StageError) => void) {
    this.#clock = clock;
    this.#relay = relay;
    this.#onTooLong = onTooLong;
    this.#seconds = relay.first_chunk_seconds ?? relay.idle_seconds;
  }

  /** Begins to wait. An answer that has come as a whole ends before. */
  begin(): void {
    this.#timer = this.#clock.after(this.#seconds * 1000, () => this.#onTooLong(silent(this.#seconds)));
  }

  /** Something has come. */
  end(): void {
    const { idle_seconds } = this.#relay;
    if (this.#seconds === idle_seconds) {
      this.#timer?.refresh();
      return;
    }
    this.#seconds = idle_seconds;
    if (this.#timer === undefined) return;
    this.#timer.close();
    this.begin();
  }

  /** Begins anew, as something else was waited for meanwhile. */
  refresh(): void {
    this.#timer?.refresh();
  }

  close(): void {
    this.#timer?.close();
  }
}

/** It has the request and has begun to answer: sent again, it is another one to pay. */
function silent(seconds: number): StageError {
  const message = `The upstream sent nothing for ${seconds} seconds.`;
  return new StageError('upstream_timeout', message, { headers: { 'x-should-retry': 'false' } });
}
