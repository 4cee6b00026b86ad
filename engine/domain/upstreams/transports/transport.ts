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

export interface Sending {
  /** The head of the answer. Rejects with Node's error, ECONNECT_TIMEOUT, ProxyUnreachable, NoTunnel, or what `abandon` was given. */
  readonly answer: Promise<UpstreamResponse>;
  /** How often it was sent, as far as any of it may have reached the upstream; 0 while nothing has. */
  readonly attempts: number;
  readonly resent: 'stale_socket' | undefined;
  /** Whether the whole body was handed to the operating system. */
  readonly body_is_sent: boolean;
  abandon(reason: Error): void;
  /** Rejects `answer` with `reason`, while the upstream goes on; `late` still gets the head. */
  release(reason: Error): void;
  /** The head of the answer for somebody who waits longer; to be called before `release`, which keeps nothing for later calls. Rejects like `answer`. */
  late(): Promise<UpstreamResponse>;
  /** Frees the body: it is not sent again. */
  forgetBody(): void;
}

interface Waiter {
  resolve(response: UpstreamResponse): void;
  reject(error: Error): void;
}

/** A request on its way, as far as that is the same whatever carries it. */
export abstract class Delivery implements Sending {
  readonly answer: Promise<UpstreamResponse>;
  attempts = 0;
  resent: 'stale_socket' | undefined;
  /** Whether it has a response, failed, or was abandoned. */
  protected over = false;
  /** The request, for a second send. */
  protected request: OutgoingRequest | undefined;
  readonly #clock: Clock;
  readonly #started: number;
  #waiter!: Waiter;
  #late_waiter: Waiter | undefined;

  constructor(request: OutgoingRequest, clock: Clock) {
    this.request = request;
    this.#clock = clock;
    this.#started = clock.monotonic();
    this.answer = new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
    });
  }

  abstract get body_is_sent(): boolean;

  /** Cancels the request. */
  protected abstract cut(): void;

  abandon(reason: Error): void {
    if (this.over) return;
    this.fail(reason);
    this.cut();
  }

  release(reason: Error): void {
    this.#waiter.reject(reason);
  }

  late(): Promise<UpstreamResponse> {
    return new Promise((resolve, reject) => {
      this.#late_waiter = { resolve, reject };
    });
  }

  forgetBody(): void {
    this.request = undefined;
  }

  protected succeed(response: UpstreamResponse): void {
    this.#end();
    this.#waiter.resolve(response);
    this.#late_waiter?.resolve(response);
  }

  protected fail(error: Error): void {
    this.#end();
    this.#waiter.reject(error);
    this.#late_waiter?.reject(error);
  }

  /**
   * Whether an error only says that a kept connection had been closed. RFC 9110 section 9.2.2 leaves it to us; nothing was answered,
   * and every client tries such a request once more.
   */
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

/**
 * A transport to one upstream: sends requests, knows exactly which bytes may have arrived, and returns a head and a body with
 * back-pressure.
 */
export interface Transport {
  send(request: OutgoingRequest): Sending;
  close(): void;
}

export interface TransportOptions {
  readonly url: URL;
  /** The HTTP proxy in between: it opens a tunnel to an https URL, and reads requests for others. */
  readonly proxy?: URL | undefined;
  /** The longest a connection may take, TLS included; see `createReachability` for upstreams that are known not to answer. */
  readonly connect_seconds: number;
  readonly clock: Clock;
}

/** Idle connections kept open per upstream. */
export const IDLE_CONNECTIONS_MAX = 512;

/**
 * A kept-alive connection that breaks this soon after it was given a request was closed by the upstream before that; later
 * it may have been at work on it.
 */
const STALE_MS = 2000;

/** Time for an upstream to read the rest of a request after its response; then the connection can be reused. */
export const UNREAD_MS = 1000;

/** For so long after a connection could not be made in time the next ones get less. */
const SUSPICION_MS = 30_000;

/** The longest that a new connection may take meanwhile. */
const PROBE_CONNECT_MS = 1000;

export interface Reachability {
  /**
   * Ends a connection that is not ready in time, TLS included. After one that was not, a single request at a time probes the
   * upstream, for a second at most; the others are refused at once, until a connection is ready.
   * @param onReady called when a request can be sent.
   * @returns why this connection is not even tried.
   */
  watch(socket: Socket, onReady: () => void): Error | undefined;
  /**
   * The same for a connection that is not one socket yet, as through a proxy.
   * @param end called when it is not ready in time.
   * @returns who is told when it is ready, or over; or why it is not even tried.
   */
  begin(end: (error: Error) => void): Trial | Error;
}

/** A connection that is being made. */
export interface Trial {
  ready(): void;
  over(): void;
}

/** Creates the reachability of one upstream, which is fine at first. */
export function createReachability(options: { readonly connect_seconds: number; readonly clock: Clock }): Reachability {
  const { connect_seconds, clock } = options;
  const connect_ms = connect_seconds * 1000;
  let suspected_until = -Infinity;
  let probing = false;
  const begin: Reachability['begin'] = (end) => {
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
    begin,
    watch(socket, onReady) {
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
