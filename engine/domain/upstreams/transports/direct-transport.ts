import type { IncomingHttpHeaders } from 'node:http';
import net, { type Socket } from 'node:net';
import tls, { type TLSSocket } from 'node:tls';
import { Client, type Dispatcher } from 'undici';
import type { Clock } from '../../../base/contract/services.ts';
import type { UpstreamResponse } from '../../../base/contract/upstream-response.ts';
import {
  type ForProxy,
  NoTunnel,
  PROXY_REFUSES,
  ProxyUnreachable,
  placeOf,
  writtenForProxy,
} from '../../../base/kit/net/tunnel.ts';
import {
  createReachability,
  Delivery,
  IDLE_CONNECTIONS_MAX,
  type OutgoingRequest,
  openWatchedTunnel,
  type Reachability,
  type Sending,
  type Transport,
  type TransportOptions,
  UNREAD_MS,
} from './transport.ts';

/** The transport to one upstream over undici. Each connection has its own undici client. */
export class DirectTransport implements Transport {
  readonly url: URL;
  readonly proxy: URL | undefined;
  readonly for_proxy: ForProxy | undefined;
  readonly clock: Clock;
  readonly reachability: Reachability;
  /** What a server gave the last TLS connection, so that the next one is made faster. */
  tls_session: Buffer | undefined;
  readonly #all = new Set<Connection>();
  /** Last in, first out: surplus connections stay idle until the upstream closes them. */
  readonly #idle: Connection[] = [];

  constructor({ url, proxy, connect_seconds, clock }: TransportOptions) {
    this.url = url;
    this.proxy = proxy;
    this.for_proxy = writtenForProxy(url, proxy);
    this.clock = clock;
    this.reachability = createReachability({ connect_seconds, clock });
  }

  send(request: OutgoingRequest): Sending {
    return new DirectSending(this, request);
  }

  close(): void {
    for (const connection of this.#all) connection.destroy();
  }

  connection(is_new: boolean): Connection {
    while (!is_new && this.#idle.length > 0) {
      const connection = this.#idle.pop()!;
      if (!connection.socket!.destroyed) return connection;
    }
    const connection = new Connection(this);
    this.#all.add(connection);
    return connection;
  }

  release(connection: Connection): void {
    const socket = connection.socket!;
    if (connection.closed || socket.destroyed) return;
    if (socket.writableLength > 0) this.#awaitReader(connection);
    else if (this.#idle.length < IDLE_CONNECTIONS_MAX) this.#idle.push(connection);
    else connection.destroy();
  }

  /** After a complete response the upstream may never read the rest of the request. */
  #awaitReader(connection: Connection): void {
    const timer = this.clock.after(UNREAD_MS, () => {
      if (connection.socket!.writableLength > 0) connection.destroy();
      else this.release(connection);
    });
    timer.unref();
  }

  onClosed(connection: Connection): void {
    this.#all.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }
}

class DirectSending extends Delivery implements Dispatcher.DispatchHandler {
  readonly #transport: DirectTransport;
  #connection: Connection;
  #controller: Controller | undefined;
  #received: ReceivedResponse | undefined;
  /** Bytes that its connection had received before this request. */
  #read_before = 0;

  constructor(transport: DirectTransport, request: OutgoingRequest) {
    super(request, transport.clock);
    this.#transport = transport;
    this.#connection = transport.connection(false);
    this.#send(request);
  }

  #send({ method, path, headers, body }: OutgoingRequest): void {
    const { for_proxy } = this.#transport;
    const written =
      for_proxy === undefined
        ? { method, path, headers, body }
        : { method, path: for_proxy.origin + path, headers: { ...headers, ...for_proxy.headers }, body };
    this.#connection.send(written, this);
  }

  get body_is_sent(): boolean {
    return this.over && this.resent === undefined && this.attempts > 0 && this.#connection.socket!.writableLength === 0;
  }

  protected cut(): void {
    this.#connection.destroy();
  }

  onRequestStart(controller: Controller): void {
    if (this.over) {
      controller.abort(hangUpError());
      return;
    }
    this.#controller = controller;
    this.attempts++;
    if (this.#connection.requests === 0) this.forgetBody();
    else this.#read_before = this.#connection.socket!.bytesRead;
    this.#connection.begin();
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders, message?: string): void {
    // The request has no upgrade.
    if (status === 101) controller.abort(hangUpError());
    if (status < 200 || this.over) return;
    const { for_proxy } = this.#transport;
    if (status === PROXY_REFUSES && for_proxy !== undefined) {
      // The proxy forwarded nothing of the request.
      this.attempts = 0;
      this.abandon(new NoTunnel(status, for_proxy.proxy, headers));
      return;
    }
    this.#received = new ReceivedResponse(controller, status, headers, message);
    this.succeed(this.#received);
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    this.#received?.take(chunk);
  }

  onResponseEnd(): void {
    this.#transport.release(this.#connection);
    this.#received?.end();
  }

  onResponseError(_controller: Controller, error: NodeJS.ErrnoException): void {
    this.#received?.break(error);
    // A broken connection is not reused, whatever state undici sees.
    this.#connection.destroy();
    if (this.over) return;
    const known = error.code === 'UND_ERR_SOCKET' ? hangUpError() : error;
    // False if the upstream closed a kept-alive connection and undici noticed before it wrote.
    const was_begun = this.#controller !== undefined || this.#connection.requests === 0;
    // A resend whose tunnel could not be opened has no socket.
    const { socket } = this.#connection;
    const is_unread = this.#controller !== undefined && socket?.bytesRead === this.#read_before;
    const is_stale = was_begun && is_unread && this.isStale(known);
    if (was_begun && !is_stale) {
      this.fail(known);
      return;
    }
    if (is_stale) this.resent = 'stale_socket';
    this.#connection = this.#transport.connection(true);
    this.#send(this.request!);
  }
}

/** Longest delay of a Node timer: idle connections stay open until the upstream closes them. */
const FOREVER_MS = 2 ** 31 - 1;

/** A kept-alive connection is not reused in the last second of the timeout that the upstream announced. */
const BEFORE_CLOSING_MS = 1000;

/** Idle time before the first TCP keep-alive probe, in milliseconds. Probes detect dead connections. */
const KEEPALIVE_IDLE_MS = 1000;

const TLS = { ALPNProtocols: ['http/1.1'] };

/** Pauses, resumes or aborts a response. */
export type Controller = Dispatcher.DispatchController;

/** One connection to an upstream, made by its first request, for one request at a time. */
class Connection {
  socket: Socket | undefined;
  requests = 0;
  closed = false;
  readonly #owner: DirectTransport;
  readonly #client: Client;
  #opening: AbortController | undefined;
  #informational: InformationalResponses | undefined;

  constructor(owner: DirectTransport) {
    this.#owner = owner;
    this.#client = new Client(owner.url.origin, {
      connect: (_options, callback) => this.#connect(callback as Connected),
      pipelining: 1,
      // Only HTTP/1.1 keeps the order and the case of header names.
      allowH2: false,
      // The attempt has its own timeouts.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: FOREVER_MS,
      keepAliveMaxTimeout: FOREVER_MS,
      keepAliveTimeoutThreshold: BEFORE_CLOSING_MS,
    });
  }

  send(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#client.dispatch(request, handler);
  }

  begin(): void {
    this.requests++;
    this.#informational!.awaitResponse();
  }

  /** Passes an error: without one undici treats a truncated body without content-length as complete, and throws. */
  destroy(): void {
    this.closed = true;
    const reason = new Error('the connection is not used any more');
    this.socket?.destroy(reason);
    this.#opening?.abort(reason);
  }

  #connect(callback: Connected): void {
    // undici would open a replacement that this class does not track.
    if (this.closed) {
      callback(hangUpError(), null);
      return;
    }
    const { url, proxy } = this.#owner;
    if (proxy !== undefined && url.protocol === 'https:') {
      this.#connectThrough(proxy, callback);
      return;
    }
    const socket = this.#open(proxy ?? url);
    this.#take(socket);
    let is_reported = false;
    const reportOnce = (error: Error | undefined) => {
      if (is_reported) return;
      is_reported = true;
      if (error === undefined) callback(null, socket);
      else callback(proxy === undefined ? error : new ProxyUnreachable(proxy, error), null);
    };
    socket.on('error', reportOnce);
    socket.once('close', () => reportOnce(hangUpError()));
    const refusal = this.#owner.reachability.watch(socket, () => reportOnce(undefined));
    if (refusal !== undefined) socket.destroy(refusal);
  }

  /** For https URLs the proxy only opens a CONNECT tunnel; TLS ends at the upstream. */
  #connectThrough(proxy: URL, callback: Connected): void {
    this.#opening = new AbortController();
    const { url, reachability, tls_session: session } = this.#owner;
    openWatchedTunnel({ url, proxy, reachability }, { ...TLS, ...(session && { session }) }, this.#opening).then(
      (socket) => {
        this.#keepSessions(socket);
        this.#take(socket);
        callback(null, socket);
      },
      (error) => {
        this.closed = true;
        callback(error, null);
        this.#owner.onClosed(this);
      },
    );
  }

  #take(socket: Socket): void {
    this.socket = socket;
    this.#informational = new InformationalResponses(socket);
    socket.once('close', () => {
      this.closed = true;
      this.#owner.onClosed(this);
    });
  }

  /** @param to the upstream, or a proxy that forwards requests to it */
  #open(to: URL): Socket {
    const options = { ...placeOf(to), noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_IDLE_MS };
    if (to.protocol !== 'https:') return net.connect(options);
    const { tls_session: session } = this.#owner;
    const servername = net.isIP(options.host) === 0 ? options.host : '';
    const socket = tls.connect({ ...options, ...TLS, servername, ...(session && { session }) });
    this.#keepSessions(socket);
    return socket;
  }

  #keepSessions(socket: TLSSocket): void {
    socket.on('session', (tls_ticket) => {
      this.#owner.tls_session = tls_ticket;
    });
  }
}

type Connected = (error: Error | null, socket: Socket | null) => void;

function hangUpError(): NodeJS.ErrnoException {
  return Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
}

const [LF, CR, ZERO, ONE, TWO] = [10, 13, 48, 49, 50];

/** Position of the status in `HTTP/1.1 100 Continue`. */
const STATUS_AT = 9;

/**
 * The informational (1xx) responses of a connection. Accepts an unrequested `100 Continue` (RFC 9110 section 15.2), which undici treats
 * as an attack. Undici ignores other 1xx responses, so the status is changed to 102 in place.
 */
class InformationalResponses {
  #awaiting = false;
  #at = 0;
  #tens_are_zero = false;
  #line_length = 0;

  /** @param socket one that undici reads with `read` */
  constructor(socket: Socket) {
    const { read } = socket;
    socket.read = (size?: number) => {
      const chunk = read.call(socket, size) as Buffer | null;
      if (chunk !== null && this.#awaiting) this.#see(chunk);
      return chunk;
    };
  }

  awaitResponse(): void {
    this.#awaiting = true;
    this.#at = 0;
  }

  #see(chunk: Buffer): void {
    // Fast path: a final response whose status arrives in one chunk.
    if (this.#at === 0 && chunk.length > STATUS_AT && chunk[STATUS_AT] !== ONE) {
      this.#awaiting = false;
      return;
    }
    for (let i = 0; i < chunk.length && this.#awaiting; i++) {
      if (this.#at < STATUS_AT + 3) this.#seeStatus(chunk, i);
      else this.#seeHead(chunk[i]!);
    }
  }

  #seeStatus(chunk: Buffer, i: number): void {
    const byte = chunk[i]!;
    if (this.#at === STATUS_AT && byte !== ONE) this.#awaiting = false;
    if (this.#at === STATUS_AT + 1) this.#tens_are_zero = byte === ZERO;
    if (this.#at === STATUS_AT + 2 && this.#tens_are_zero && byte === ZERO) chunk[i] = TWO;
    this.#at++;
    this.#line_length = 1;
  }

  /** After the head of a 1xx response comes another status line. */
  #seeHead(byte: number): void {
    if (byte === LF) {
      if (this.#line_length === 0) this.#at = 0;
      this.#line_length = 0;
    } else if (byte !== CR) this.#line_length++;
  }
}

/** Bound on body bytes buffered without a reader; back-pressure then stops the upstream. */
const KEPT_BYTES = 65_536;

/** Repeated headers of which Node keeps the first; it joins others. */
const SHOWN_ONCE: ReadonlySet<string> = new Set(
  `age authorization content-length content-type etag expires from host if-modified-since if-unmodified-since
    last-modified location max-forwards proxy-authorization referer retry-after server user-agent`.split(/\s+/),
);

type OnData = (chunk: Buffer) => void;
type OnEnd = () => void;
type OnError = (error: Error) => void;

/** A response: its head, and its body for one reader at a time; bytes, end and error wait for the reader. */
export class ReceivedResponse implements UpstreamResponse {
  readonly statusCode: number;
  readonly statusMessage: string | undefined;
  readonly rawHeaders: string[];
  readonly headers: IncomingHttpHeaders;
  complete = false;
  readableEnded = false;
  destroyed = false;
  readonly #controller: Controller;
  #on_data: OnData | undefined;
  #on_end: OnEnd | undefined;
  #on_error: OnError | undefined;
  #on_close: OnEnd | undefined;
  #kept: Buffer[] = [];
  #kept_bytes = 0;
  #flowing = false;
  #held_back = false;
  #broken: Error | undefined;

  /** @param headers as undici returns them: in lower case, repeated ones as lists */
  constructor(controller: Controller, status: number, headers: IncomingHttpHeaders, message: string | undefined) {
    this.#controller = controller;
    this.statusCode = status;
    this.statusMessage = message;
    this.rawHeaders = rawHeadersOf(controller.rawHeaders as Buffer[], headers);
    this.headers = headers;
  }

  on(event: 'data' | 'end' | 'error' | 'close', listener: OnData | OnEnd | OnError): void {
    if (event === 'data') this.#on_data = listener as OnData;
    else if (event === 'end') this.#on_end = listener as OnEnd;
    else if (event === 'error') this.#on_error = listener as OnError;
    else this.#on_close = listener as OnEnd;
  }

  off(event: 'data' | 'end' | 'error' | 'close', listener: OnData | OnEnd | OnError): void {
    if (event === 'data' && this.#on_data === listener) this.#on_data = undefined;
    else if (event === 'end' && this.#on_end === listener) this.#on_end = undefined;
    else if (event === 'error' && this.#on_error === listener) this.#on_error = undefined;
    else if (event === 'close' && this.#on_close === listener) this.#on_close = undefined;
  }

  pause(): void {
    this.#flowing = false;
  }

  /** Emits the buffered bytes before it returns, and then each new chunk. */
  resume(): void {
    if (this.destroyed) return;
    this.#flowing = true;
    while (this.#kept.length > 0 && this.#flowing) {
      const chunk = this.#kept.shift()!;
      this.#kept_bytes -= chunk.length;
      this.#on_data?.(chunk);
    }
    if (this.#flowing && this.#held_back) {
      this.#held_back = false;
      this.#controller.resume();
    }
    // The reader may have paused meanwhile.
    if (!this.#flowing) return;
    if (this.complete) this.#emitEnd();
    else if (this.#broken !== undefined) this.#emitBroken();
  }

  /** Closes the connection, unless the response is complete. No more events. */
  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.#kept = [];
    if (!this.complete && this.#broken === undefined) this.#controller.abort(new Error('the response was cancelled'));
  }

  take(chunk: Buffer): void {
    if (this.destroyed) return;
    if (this.#flowing) {
      this.#on_data?.(chunk);
      return;
    }
    this.#kept.push(chunk);
    this.#kept_bytes += chunk.length;
    if (this.#kept_bytes < KEPT_BYTES || this.#held_back) return;
    this.#held_back = true;
    this.#controller.pause();
  }

  end(): void {
    this.complete = true;
    if (this.#flowing && !this.destroyed) this.#emitEnd();
  }

  break(error: Error): void {
    this.#broken ??= error;
    if (this.#flowing && !this.destroyed) this.#emitBroken();
  }

  #emitEnd(): void {
    if (this.readableEnded) return;
    this.readableEnded = true;
    this.#on_end?.();
  }

  #emitBroken(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.#on_error?.(this.#broken!);
    this.#on_close?.();
  }
}

/** Raw headers in their order, case and repetition. Joins repeated ones in `shown`, as Node does. */
function rawHeadersOf(received: readonly Buffer[], shown: IncomingHttpHeaders): string[] {
  const raw: string[] = new Array(received.length);
  let repeated = false;
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i]!.toString('latin1');
    const value = shown[name.toLowerCase()];
    raw[i] = name;
    // Fast path: the value is a string already.
    if (typeof value === 'string') raw[i + 1] = value;
    else {
      raw[i + 1] = received[i + 1]!.toString('latin1');
      repeated = true;
    }
  }
  if (repeated) joinRepeated(shown);
  return raw;
}

function joinRepeated(headers: IncomingHttpHeaders): void {
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (!Array.isArray(value) || name === 'set-cookie') continue;
    headers[name] = SHOWN_ONCE.has(name) ? value[0]! : value.join(', ');
  }
}
