import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';

/** What is sent to an upstream. */
export interface OutgoingRequest {
  readonly method: string;
  /** Path and query as they travel. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A request on its way. */
export interface Sending {
  /** The head of the answer. Rejects with Node's error, ECONNECT_TIMEOUT, or what `abandon` was given. */
  readonly answer: Promise<IncomingMessage>;
  /** How often it was sent, as far as any of it may have reached the upstream; 0 while nothing has. */
  readonly attempts: number;
  /** Why it was sent a second time. */
  readonly resent: 'stale_socket' | undefined;
  /** Whether the operating system has all of the body, so that nobody reads it here any more. */
  readonly body_is_sent: boolean;
  /** Gives the request up unless it is answered. */
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
