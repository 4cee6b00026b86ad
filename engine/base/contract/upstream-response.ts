import type { IncomingHttpHeaders } from 'node:http';

/** The response of an upstream, for one reader; a subset of Node's `IncomingMessage`. */
export interface UpstreamResponse {
  readonly statusCode?: number | undefined;
  readonly statusMessage?: string | undefined;
  /** Names in lower case, repeated headers joined. */
  readonly headers: IncomingHttpHeaders;
  /** Names and values in turn, as received. */
  readonly rawHeaders: readonly string[];
  readonly complete: boolean;
  readonly readableEnded: boolean;
  /** Whether it was aborted, or broke off and emitted its error. */
  readonly destroyed: boolean;
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'end' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'data', listener: (chunk: Buffer) => void): unknown;
  off(event: 'end' | 'close', listener: () => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
  pause(): unknown;
  resume(): unknown;
  destroy(): unknown;
}
