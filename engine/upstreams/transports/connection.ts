import net, { type Socket } from 'node:net';
import tls, { type TLSSocket } from 'node:tls';
import { Client, type Dispatcher } from 'undici';
import { ProxyUnreachable, placeOf } from '../../kit/net/tunnel.ts';
import { Announcements } from './announcements.ts';
import { openWatchedTunnel, type Reachability } from './reachability.ts';

/** The longest time that a timer of Node can wait: upstreams close connections that they don't want to keep. */
const FOREVER_MS = 2 ** 31 - 1;

/** How long before an upstream closes a kept connection, as it says, it is not used any more. */
const BEFORE_CLOSING_MS = 1000;

/** How often an idle connection is probed, so that one that is dead is noticed. */
const PROBE_MS = 1000;

const TLS = { ALPNProtocols: ['http/1.1'] };

/** How a request on its way is steered. */
export type Controller = Dispatcher.DispatchController;

/** Who is told what comes of a request. */
export type Handler = Dispatcher.DispatchHandler;

/** Whom connections belong to. */
export interface ConnectionOwner {
  readonly url: URL;
  readonly proxy: URL | undefined;
  readonly reachability: Reachability;
  /** What a server gave the last TLS connection, so that the next one is made faster. */
  tls_session: Buffer | undefined;
  /** A connection is closed. */
  onClosed(connection: Connection): void;
}

/** One connection to an upstream, made by its first request, for one request at a time. */
export class Connection {
  /** Absent until it is being made. */
  socket: Socket | undefined;
  /** How many requests it was given. */
  requests = 0;
  closed = false;
  readonly #owner: ConnectionOwner;
  readonly #client: Client;
  #opening: AbortController | undefined;
  #announcements: Announcements | undefined;

  constructor(owner: ConnectionOwner) {
    this.#owner = owner;
    this.#client = new Client(owner.url.origin, {
      connect: (_options, callback) => this.#connect(callback as Connected),
      pipelining: 1,
      // Only HTTP/1.1 has the order and the spelling of headers.
      allowH2: false,
      // How long an answer may take is decided above.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: FOREVER_MS,
      keepAliveMaxTimeout: FOREVER_MS,
      keepAliveTimeoutThreshold: BEFORE_CLOSING_MS,
    });
  }

  send(request: Dispatcher.DispatchOptions, handler: Handler): void {
    this.#client.dispatch(request, handler);
  }

  /** A request is written now. */
  begin(): void {
    this.requests++;
    this.#announcements!.awaitAnswer();
  }

  /** Without an error of its own undici would take the end of a body that has no length for a good one, and end the process. */
  destroy(): void {
    this.closed = true;
    const reason = new Error('the connection is not used any more');
    this.socket?.destroy(reason);
    this.#opening?.abort(reason);
  }

  #connect(callback: Connected): void {
    // undici would make another one in its place, of which nobody knows.
    if (this.closed) {
      callback(hungUp(), null);
      return;
    }
    const { url, proxy } = this.#owner;
    if (proxy !== undefined && url.protocol === 'https:') {
      this.#connectThrough(proxy, callback);
      return;
    }
    const socket = this.#open(proxy ?? url);
    this.#take(socket);
    let told = false;
    const tell = (error: Error | undefined) => {
      if (told) return;
      told = true;
      if (error === undefined) callback(null, socket);
      else callback(proxy === undefined ? error : new ProxyUnreachable(proxy, error), null);
    };
    socket.on('error', tell);
    socket.once('close', () => tell(hungUp()));
    const refusal = this.#owner.reachability.watch(socket, () => tell(undefined));
    if (refusal !== undefined) socket.destroy(refusal);
  }

  /** Over TLS there is no proxy that reads requests: it opens a way to the upstream, and TLS is spoken with that. */
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
    this.#announcements = new Announcements(socket);
    socket.once('close', () => {
      this.closed = true;
      this.#owner.onClosed(this);
    });
  }

  /** @param to the upstream, or a proxy that reads requests to it */
  #open(to: URL): Socket {
    const options = { ...placeOf(to), noDelay: true, keepAlive: true, keepAliveInitialDelay: PROBE_MS };
    if (to.protocol !== 'https:') return net.connect(options);
    const { tls_session: session } = this.#owner;
    const servername = net.isIP(options.host) === 0 ? options.host : '';
    const socket = tls.connect({ ...options, ...TLS, servername, ...(session && { session }) });
    this.#keepSessions(socket);
    return socket;
  }

  #keepSessions(socket: TLSSocket): void {
    socket.on('session', (given) => {
      this.#owner.tls_session = given;
    });
  }
}

type Connected = (error: Error | null, socket: Socket | null) => void;

/** As Node's own client says it. */
export function hungUp(): NodeJS.ErrnoException {
  return Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
}
