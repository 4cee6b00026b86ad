import type { IncomingHttpHeaders } from 'node:http';
import type { Clock } from '../../contract/services.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import { type ForProxy, NoTunnel, PROXY_REFUSES, writtenForProxy } from '../../kit/net/tunnel.ts';
import { Connection, type ConnectionOwner, type Controller, type Handler, hungUp } from './connection.ts';
import { createReachability, type Reachability } from './reachability.ts';
import { ReceivedAnswer } from './received-answer.ts';
import {
  IDLE_CONNECTIONS_MAX,
  type OutgoingRequest,
  type Sending,
  STALE_MS,
  type Transport,
  type TransportOptions,
  UNREAD_MS,
} from './transport.ts';

/** Creates the transport to one upstream over undici, of which each connection is a client of its own. */
export function createDirectTransport(options: TransportOptions): Transport {
  return new DirectTransport(options);
}

class DirectTransport implements Transport, ConnectionOwner {
  readonly url: URL;
  readonly proxy: URL | undefined;
  readonly for_proxy: ForProxy | undefined;
  readonly clock: Clock;
  readonly reachability: Reachability;
  tls_session: Buffer | undefined;
  readonly #all = new Set<Connection>();
  /** The one used last is used next, so that those that are too many are closed by the upstream. */
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

  /** @param is_new whether it must be one that nobody had before */
  connection(is_new: boolean): Connection {
    while (!is_new && this.#idle.length > 0) {
      const connection = this.#idle.pop()!;
      if (!connection.socket!.destroyed) return connection;
    }
    const connection = new Connection(this);
    this.#all.add(connection);
    return connection;
  }

  /** A connection has brought an answer to its end. */
  release(connection: Connection): void {
    const socket = connection.socket!;
    if (connection.closed || socket.destroyed) return;
    if (socket.writableLength > 0) this.#awaitReader(connection);
    else if (this.#idle.length < IDLE_CONNECTIONS_MAX) this.#idle.push(connection);
    else connection.destroy();
  }

  /** An upstream that has answered all it has to say may never read the rest. */
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

/** One request on its way, which undici tells what comes of it. */
class DirectSending implements Sending, Handler {
  readonly answer: Promise<UpstreamResponse>;
  attempts = 0;
  resent: 'stale_socket' | undefined;
  readonly #transport: DirectTransport;
  readonly #started: number;
  #request: OutgoingRequest | undefined;
  #resolve!: (response: UpstreamResponse) => void;
  #reject!: (error: Error) => void;
  #connection: Connection;
  #controller: Controller | undefined;
  #received: ReceivedAnswer | undefined;
  /** What its connection had received before; a connection can serve many requests. */
  #read_before = 0;
  #over = false;

  constructor(transport: DirectTransport, request: OutgoingRequest) {
    this.#transport = transport;
    this.#request = request;
    this.#started = transport.clock.monotonic();
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
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
    return (
      this.#over && this.resent === undefined && this.attempts > 0 && this.#connection.socket!.writableLength === 0
    );
  }

  abandon(reason: Error): void {
    if (this.#over) return;
    this.#end();
    this.#reject(reason);
    this.#connection.destroy();
  }

  forgetBody(): void {
    this.#request = undefined;
  }

  onRequestStart(controller: Controller): void {
    if (this.#over) {
      controller.abort(hungUp());
      return;
    }
    this.#controller = controller;
    this.attempts++;
    if (this.#connection.requests === 0) this.#request = undefined;
    else this.#read_before = this.#connection.socket!.bytesRead;
    this.#connection.begin();
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders, message?: string): void {
    // Nobody asked for another protocol.
    if (status === 101) controller.abort(hungUp());
    if (status < 200 || this.#over) return;
    const { for_proxy } = this.#transport;
    if (status === PROXY_REFUSES && for_proxy !== undefined) {
      this.#refuseProxy(new NoTunnel(status, for_proxy.proxy, headers));
      return;
    }
    this.#end();
    this.#received = new ReceivedAnswer(controller, status, headers, message);
    this.#resolve(this.#received);
  }

  /** Nothing of the request has gone on to the upstream. */
  #refuseProxy(error: NoTunnel): void {
    this.attempts = 0;
    this.#end();
    this.#reject(error);
    this.#connection.destroy();
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
    // What is broken is not used again, whatever undici thinks of it.
    this.#connection.destroy();
    if (this.#over) return;
    const known = error.code === 'UND_ERR_SOCKET' ? hungUp() : error;
    if (this.#wasNotBegun()) {
      this.#sendAnew();
    } else if (this.#isStale(known)) {
      this.resent = 'stale_socket';
      this.#sendAnew();
    } else {
      this.#end();
      this.#reject(known);
    }
  }

  /** The upstream had closed a kept connection, and undici saw it before it wrote. */
  #wasNotBegun(): boolean {
    return this.#controller === undefined && this.#connection.requests > 0;
  }

  #sendAnew(): void {
    this.#connection = this.#transport.connection(true);
    this.#send(this.#request!);
  }

  #end(): void {
    this.#over = true;
    this.#request = undefined;
  }

  /** RFC 9110 section 9.2.2 leaves it to us; nothing was answered, and every client tries such a request once more. */
  #isStale({ code }: NodeJS.ErrnoException): boolean {
    const { clock } = this.#transport;
    return (
      this.resent === undefined &&
      this.#request !== undefined &&
      this.#controller !== undefined &&
      (code === 'ECONNRESET' || code === 'EPIPE') &&
      this.#connection.socket!.bytesRead === this.#read_before &&
      clock.monotonic() - this.#started < STALE_MS
    );
  }
}
