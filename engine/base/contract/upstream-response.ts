import type { IncomingHttpHeaders } from 'node:http';

/** The response of an upstream, for one reader. What Node's own client receives (`IncomingMessage`) is one. */
export interface UpstreamResponse {
  readonly statusCode?: number | undefined;
  readonly statusMessage?: string | undefined;
  /** In lower case, repeated ones joined. */
  readonly headers: IncomingHttpHeaders;
  /** Names and values in turn, as they were received. */
  readonly rawHeaders: readonly string[];
  /** Whether all of it has come. */
  readonly complete: boolean;
  readonly readableEnded: boolean;
  /** Whether it was given up, or broke off and that was told. */
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
