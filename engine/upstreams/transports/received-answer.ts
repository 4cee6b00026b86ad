import type { IncomingHttpHeaders } from 'node:http';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import type { Controller } from './connection.ts';

/** What is kept of a body that nobody takes for now; more stays in the connection, and so at the upstream. */
const KEPT_BYTES = 65_536;

/** Headers of which Node shows the first, where others are joined. */
const SHOWN_ONCE: ReadonlySet<string> = new Set([
  'age',
  'authorization',
  'content-length',
  'content-type',
  'etag',
  'expires',
  'from',
  'host',
  'if-modified-since',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'referer',
  'retry-after',
  'server',
  'user-agent',
]);

type OnData = (chunk: Buffer) => void;
type OnEnd = () => void;
type OnError = (error: Error) => void;

/**
 * An answer as it comes from a connection: its head, and its body for one reader at a time. What comes before anybody reads is kept,
 * and so are its end and its breaking off, which are told behind it.
 */
export class ReceivedAnswer implements UpstreamResponse {
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

  /** @param headers as undici shows them: in lower case, repeated ones as lists */
  constructor(
    controller: Controller,
    status: number,
    headers: IncomingHttpHeaders,
    status_message: string | undefined,
  ) {
    this.#controller = controller;
    this.statusCode = status;
    this.statusMessage = status_message;
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

  /** Tells what was kept before it returns, and from then on what comes. */
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
    // Meanwhile more may have come, and its reader may have had enough.
    if (!this.#flowing) return;
    if (this.complete) this.#tellEnd();
    else if (this.#broken !== undefined) this.#tellBroken();
  }

  /** Ends the connection, unless the whole answer has come. Nothing is told any more. */
  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.#kept = [];
    if (!this.complete && this.#broken === undefined) this.#controller.abort(new Error('the answer is not wanted'));
  }

  /** A part of the body has come. */
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

  /** All of it has come. */
  end(): void {
    this.complete = true;
    if (this.#flowing && !this.destroyed) this.#tellEnd();
  }

  /** The rest does not come. */
  break(error: Error): void {
    this.#broken ??= error;
    if (this.#flowing && !this.destroyed) this.#tellBroken();
  }

  #tellEnd(): void {
    if (this.readableEnded) return;
    this.readableEnded = true;
    this.#on_end?.();
  }

  #tellBroken(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.#on_error?.(this.#broken!);
    this.#on_close?.();
  }
}

/** As received: in order, spelled and repeated as they were. Joins repeated ones in `shown`, as Node does. */
function rawHeadersOf(received: readonly Buffer[], shown: IncomingHttpHeaders): string[] {
  const raw: string[] = new Array(received.length);
  let repeated = false;
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i]!.toString('latin1');
    const value = shown[name.toLowerCase()];
    raw[i] = name;
    // Most values are texts already.
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
