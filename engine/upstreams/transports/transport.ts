import type { IncomingHttpHeaders } from 'node:http';
import type { Clock } from '../../contract/services.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';

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
  /** Whether the operating system has all of the body, so that nobody reads it here any more. */
  readonly body_is_sent: boolean;
  abandon(reason: Error): void;
  /** Lets go of the body: it is not sent again. */
  forgetBody(): void;
}

/**
 * What carries requests to one upstream: sends these bytes, tells exactly what of them may have arrived, and gives back a head and a
 * body with back-pressure. Nothing above knows how.
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
export const STALE_MS = 2000;

/** How long an upstream whose answer is complete has time to read the rest of the request: those that do can have another one. */
export const UNREAD_MS = 1000;
