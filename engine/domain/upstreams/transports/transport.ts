import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../../base/contract/services.ts';
import type { UpstreamResponse } from '../../../base/contract/upstream-response.ts';
import { openTlsTunnel, ProxyUnreachable, placeOf, type TunnelTls } from '../../../base/kit/net/tunnel.ts';

export interface OutgoingRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A request on its way, as far as that is the same whatever carries it. */
export abstract class Delivery {
  /** How often it was sent, as far as any of it may have reached the upstream; 0 while nothing has. */
  attempts = 0;
  resent: 'stale_socket' | undefined;
  /** Whether the request has a response, failed, or was abandoned. */
  protected over = false;
  /** The request, for a second send. */
  protected request: OutgoingRequest | undefined;
  readonly #clock: Clock;
  readonly #started: number;
  readonly #head = Promise.withResolvers<UpstreamResponse>();
  #late: PromiseWithResolvers<UpstreamResponse> | undefined;

  constructor(request: OutgoingRequest, clock: Clock) {
    this.request = request;
    this.#clock = clock;
    this.#started = clock.monotonic();
  }

  /** The head of the response. Rejects with Node's error, ECONNECT_TIMEOUT, ProxyUnreachable, NoTunnel, or the argument of `abandon`. */
  get response(): Promise<UpstreamResponse> {
    return this.#head.promise;
  }

  /** Whether the whole body was handed to the operating system. */
  abstract get body_is_sent(): boolean;

  protected abstract cut(): void;

  abandon(reason: Error): void {
    if (this.over) return;
    this.fail(reason);
    this.cut();
  }

  /** Rejects `response` with `reason`, while the upstream goes on; `late` still gets the head. */
  release(reason: Error): void {
    this.#head.reject(reason);
  }

  /** The head of the response for a caller that waits longer; to be called before `release`, which keeps nothing for later calls. Rejects like `response`. */
  late(): Promise<UpstreamResponse> {
    this.#late = Promise.withResolvers();
    return this.#late.promise;
  }

  /** Frees the body: it is not sent again. */
  forgetBody(): void {
    this.request = undefined;
  }

  protected succeed(response: UpstreamResponse): void {
    this.#end();
    this.#head.resolve(response);
    this.#late?.resolve(response);
  }

  protected fail(error: Error): void {
    this.#end();
    this.#head.reject(error);
    this.#late?.reject(error);
  }

  /** Whether the upstream had closed a kept-alive connection: no response byte came, so a retry is safe (RFC 9110, 9.2.2). */
  protected isStale({ code }: NodeJS.ErrnoException): boolean {
    return (
      this.resent === undefined &&
      this.request !== undefined &&
      (code === 'ECONNRESET' || code === 'EPIPE') &&
      this.#clock.monotonic() - this.#started < STALE_MS
    );
  }

  #end(): void {
    this.over = true;
    this.request = undefined;
  }
}

/** A request on its way. */
export type Sending = { [member in keyof Delivery]: Delivery[member] };

/** A transport to one upstream: tracks which bytes may have arrived; returns head, and body with back-pressure. */
export interface Transport {
  send(request: OutgoingRequest): Sending;
  close(): void;
}

export interface TransportOptions {
  readonly url: URL;
  /** The HTTP proxy in between: it tunnels to https URLs, and forwards requests to others. */
  readonly proxy?: URL | undefined;
  /** Connect timeout, TLS included; shorter for suspected upstreams, see `createReachability`. */
  readonly connect_seconds: number;
  readonly clock: Clock;
}

/** Idle connections kept open per upstream. */
export const IDLE_CONNECTIONS_MAX = 512;

/** A kept-alive connection that breaks sooner had been closed before; later, the upstream may have begun to process. */
const STALE_MS = 2000;

/** Time for an upstream to read the rest of a request after its response, so that the connection can be reused. */
export const UNREAD_MS = 1000;

/** After a connect timeout, connects have the shorter timeout for this long. */
const SUSPICION_MS = 30_000;

/** The shorter connect timeout. */
const PROBE_CONNECT_MS = 1000;

/** Creates the reachability of one upstream, which is fine at first. */
export function createReachability(options: { readonly connect_seconds: number; readonly clock: Clock }) {
  const { connect_seconds, clock } = options;
  const connect_ms = connect_seconds * 1000;
  let suspected_until = -Infinity;
  let probing = false;
  const begin = (end: (error: Error) => void) => {
    const is_probe = clock.monotonic() < suspected_until;
    if (is_probe && probing) return notInTime();
    if (is_probe) probing = true;
    const timer = clock.after(is_probe ? Math.min(connect_ms, PROBE_CONNECT_MS) : connect_ms, () => {
      suspected_until = clock.monotonic() + SUSPICION_MS;
      end(notInTime());
    });
    timer.unref();
    const over = () => {
      timer.close();
      if (is_probe) probing = false;
    };
    return {
      over,
      ready() {
        over();
        suspected_until = -Infinity;
      },
    };
  };
  return {
    /** Like `watch`, for a connection through a proxy. @param end called when it is late */
    begin,
    /**
     * Ends a connection that is not ready in time, TLS included. After that a single request at a time probes the upstream, for a second
     * at most; others are rejected until a connection is ready. @returns why this one is not even tried
     */
    watch(socket: Socket, onReady: () => void): Error | undefined {
      const trial = begin((error) => socket.destroy(error));
      if (trial instanceof Error) return trial;
      const ready = 'encrypted' in socket ? 'secureConnect' : 'connect';
      const onClose = () => {
        trial.over();
        socket.off(ready, onConnected);
      };
      const onConnected = () => {
        trial.ready();
        socket.off('close', onClose);
        onReady();
      };
      socket.once(ready, onConnected).once('close', onClose);
      return undefined;
    },
  };
}

/** Whether connections to one upstream can be made in time. */
export type Reachability = ReturnType<typeof createReachability>;

/** Opens a TLS connection through a proxy, in the time that connections may take. Rejects as `openTlsTunnel` does. */
export async function openWatchedTunnel(
  way: { readonly url: URL; readonly proxy: URL; readonly reachability: Reachability },
  options: TunnelTls = {},
  opening = new AbortController(),
): Promise<TLSSocket> {
  const { url, proxy, reachability } = way;
  const trial = reachability.begin((error) => opening.abort(new ProxyUnreachable(proxy, error)));
  if (trial instanceof Error) throw trial;
  try {
    const socket = await openTlsTunnel(placeOf(url), proxy, { ...options, signal: opening.signal });
    trial.ready();
    return socket;
  } catch (error) {
    trial.over();
    throw error;
  }
}

function notInTime(): Error {
  return Object.assign(new Error('no connection in time'), { code: 'ECONNECT_TIMEOUT' });
}
