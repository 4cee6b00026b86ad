import type { Protocol } from '../../contract/protocol.ts';

/** A request as it arrived at the echo upstream. */
export interface EchoedRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Names and values in turns, as they were sent. */
  readonly raw_headers: readonly string[];
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
  readonly protocol: Protocol;
}

/** What the echo upstream is to answer to a request. */
export interface EchoAnswer {
  /** In place of a usual answer: this status, these headers and this body. */
  readonly error?: {
    readonly status: number;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body: string;
  };
  /** Between one event of a stream and the next; none where it is left out. */
  readonly pause_ms?: number;
  /** How many pieces of text a stream has. */
  readonly pieces?: number;
  /** Fields of `usage`, over those it has as a rule. */
  readonly usage?: Readonly<Record<string, unknown>>;
}

/**
 * An upstream of our own that a gateway can be pointed at: it speaks all three protocols, costs nothing, and keeps what
 * reaches it. Requests are told apart by a text in them.
 */
export interface Echo {
  /** Where it listens, for `base_url` of an upstream. */
  readonly url: string;
  /** Makes a text to be put into the prompt; a request that holds it is kept for it, and answered as told. */
  expect(answer?: EchoAnswer): { readonly text: string; received(): EchoedRequest | undefined };
  close(): Promise<void>;
}
