import http, {
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import https, { type AgentOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { Stream } from 'node:stream';
import { createProxyServer } from 'http-proxy-3';
import type { Clock } from '../../../base/contract/services.ts';
import {
  type ForProxy,
  NoTunnel,
  optionsTo,
  PROXY_REFUSES,
  ProxyUnreachable,
  TunnelAgent,
  writtenForProxy,
} from '../../../base/kit/net/tunnel.ts';
import {
  createReachability,
  Delivery,
  IDLE_CONNECTIONS_MAX,
  type OutgoingRequest,
  openWatchedTunnel,
  type Reachability,
  type Transport,
  type TransportOptions,
  UNREAD_MS,
} from './transport.ts';

/** Stubs of the client's response and connection: the engine responds, and handles disconnected clients. */
const NO_RESPONSE = { on() {}, headersSent: false, finished: true } as unknown as ServerResponse;
const NO_SOCKET = { destroyed: false };

/** Creates the transport to one upstream over http-proxy-3 and Node's own HTTP client. */
export function createProxyTransport({ url, proxy: passed, connect_seconds, clock }: TransportOptions): Transport {
  const reachability = createReachability({ connect_seconds, clock });
  const for_proxy = writtenForProxy(url, passed);
  const target = for_proxy === undefined ? url : new URL(for_proxy.proxy.origin);
  const agentOf = (settings: AgentOptions) => {
    if (passed !== undefined && for_proxy === undefined)
      return new TunnelAgent(settings, () => openWatchedTunnel({ url, proxy: passed, reachability }));
    if (for_proxy === undefined)
      return url.protocol === 'https:' ? new https.Agent(settings) : new http.Agent(settings);
    // Node would expect the proxy to have the certificate of the requested host.
    const { servername } = optionsTo(target);
    const agent =
      target.protocol === 'https:' ? new https.Agent({ ...settings, servername }) : new http.Agent(settings);
    writeWhole(agent, for_proxy);
    return agent;
  };
  const agent = agentOf({ keepAlive: true, maxFreeSockets: IDLE_CONNECTIONS_MAX, scheduling: 'lifo' });
  // The agent has one destination. Node would compute its key from all connection options for every request.
  agent.getName = () => url.origin;
  const fresh = agentOf({});
  const proxy = createProxyServer({});
  proxy.on('proxyReq', (request, req, _res, _options, socket) => asAttempt(req).onSocket(request, socket));
  proxy.on('proxyRes', (response, req) => asAttempt(req).onResponse(response));

  const dispatch = (attempt: Attempt, is_first: boolean) => {
    proxy.web(
      attempt as unknown as IncomingMessage,
      NO_RESPONSE,
      {
        target,
        agent: is_first ? agent : fresh,
        changeOrigin: for_proxy === undefined,
        prependPath: false,
        // Keeps path and query as received; parsing them as a URL would re-encode them.
        toProxy: true,
        selfHandleResponse: true,
        buffer: attempt.bodySource(),
      },
      (error) => attempt.onError(error),
    );
  };
  return {
    send(request) {
      const attempt = new Attempt(request, { clock, reachability, for_proxy, dispatch });
      dispatch(attempt, true);
      return attempt;
    },
    close() {
      agent.destroy();
      fresh.destroy();
    },
  };
}

/** Writes absolute URLs, as forward proxies expect; http-proxy-3 supports only paths with a leading slash. */
function writeWhole(agent: http.Agent, { origin }: ForProxy): void {
  const adding = agent as unknown as { addRequest(request: { path: string }, options: object): void };
  const { addRequest } = adding;
  adding.addRequest = (request, options) => {
    request.path = origin + request.path;
    addRequest.call(agent, request, options);
  };
}

function asAttempt(req: IncomingMessage): Attempt {
  return req as unknown as Attempt;
}

interface Surroundings {
  readonly clock: Clock;
  readonly reachability: Reachability;
  readonly for_proxy: ForProxy | undefined;
  readonly dispatch: (attempt: Attempt, is_first: boolean) => void;
}

/** A sent request, which http-proxy-3 treats as the client's request. */
class Attempt extends Delivery {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly socket = NO_SOCKET;
  readonly #surroundings: Surroundings;
  #sent: ClientRequest | undefined;
  #socket: Socket | undefined;
  #read_before = 0;

  constructor(request: OutgoingRequest, surroundings: Surroundings) {
    super(request, surroundings.clock);
    this.method = request.method;
    this.url = request.path;
    // The proxy adds to them.
    this.headers = { ...request.headers, ...surroundings.for_proxy?.headers };
    this.#surroundings = surroundings;
  }

  /** http-proxy-3 listens for client errors here; they must not affect the upstream request. */
  on(): this {
    return this;
  }

  /** A stub of a stream that writes the whole body at once and then frees it. */
  bodySource(): Stream {
    let rest = this.request?.body;
    const pipe = (destination: ClientRequest) => {
      destination.end(rest);
      rest = undefined;
    };
    return { pipe } as unknown as Stream;
  }

  onSocket(request: ClientRequest, socket: Socket): void {
    this.#sent = request;
    if (this.over) return void request.destroy();
    this.#socket = socket;
    this.#read_before = socket.bytesRead;
    if (!socket.connecting) {
      this.attempts++;
      return;
    }
    this.forgetBody();
    const refusal = this.#surroundings.reachability.watch(socket, () => this.attempts++);
    if (refusal !== undefined) request.destroy(refusal);
  }

  onResponse(response: IncomingMessage): void {
    if (this.over) return void response.destroy();
    const { for_proxy } = this.#surroundings;
    if (for_proxy !== undefined && response.statusCode === PROXY_REFUSES) {
      // The proxy forwarded nothing of the request.
      this.attempts = 0;
      response.destroy();
      this.fail(new NoTunnel(PROXY_REFUSES, for_proxy.proxy, response.headers));
      return;
    }
    this.#socket = undefined;
    if (this.#sent?.writableFinished === false) response.once('end', this.#stopSending);
    this.succeed(response);
  }

  onError(error: NodeJS.ErrnoException): void {
    if (this.over) return;
    const is_unread = this.#sent?.reusedSocket === true && this.#socket?.bytesRead === this.#read_before;
    if (is_unread && this.isStale(error)) {
      this.resent = 'stale_socket';
      this.#surroundings.dispatch(this, false);
      return;
    }
    const { for_proxy } = this.#surroundings;
    const is_proxys = for_proxy !== undefined && this.attempts === 0;
    this.fail(is_proxys ? new ProxyUnreachable(for_proxy.proxy, error) : error);
  }

  get body_is_sent(): boolean {
    return this.over && this.resent === undefined && this.#sent?.writableFinished === true;
  }

  protected cut(): void {
    this.#sent?.destroy();
  }

  readonly #stopSending = (): void => {
    const request = this.#sent!;
    const timer = this.#surroundings.clock.after(UNREAD_MS, () => {
      if (!request.writableFinished) request.destroy();
    });
    timer.unref();
  };
}
