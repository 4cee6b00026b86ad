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
  /** What the model says; a short sentence where it is left out. */
  readonly text?: string;
  /** Between one event of a stream and the next; none where it is left out. */
  readonly pause_ms?: number;
  /** How many pieces of text a stream has. */
  readonly pieces?: number;
  /** Size of each of those pieces, where their size matters and what they say does not. */
  readonly piece_bytes?: number;
  /** Fields of `usage`, over those it has as a rule. */
  readonly usage?: Readonly<Record<string, unknown>>;
  /** Events of a stream of the Messages API that stand before its last one, as text. */
  readonly extra_events?: string;
  /** Whether a stream breaks off in its middle: the connection is closed before its last events. */
  readonly breaks_off?: boolean;
}

/** A text that requests are told apart by, and what came with it. */
export interface Expected {
  /** To be put into a prompt. */
  readonly text: string;
  /** The first request that held the text. */
  received(): EchoedRequest | undefined;
  /** How many held it: a gateway may send one again. */
  count(): number;
}

/**
 * An upstream of our own that a gateway can be pointed at: it speaks all three protocols, costs nothing, and keeps what
 * reaches it. Requests are told apart by a text in them.
 */
export interface Echo {
  /** Where it listens, for `base_url` of an upstream. */
  readonly url: string;
  /** Makes a text to be put into the prompt; a request that holds it is kept for it, and answered as told. */
  expect(answer?: EchoAnswer): Expected;
  close(): Promise<void>;
}

/** Where the echo upstream listens. */
export interface EchoPlace {
  /** This machine only, where it is left out. */
  readonly host?: string;
  /** A free one, where it is left out. */
  readonly port?: number;
  /** What it answers to requests that hold no text it was told about. */
  readonly says?: string;
  /** The models that it lists; it answers to every other as well. `ECHO_MODEL` alone where it is left out. */
  readonly models?: readonly string[];
  /** The option of the command line that names the place; `--echo` where it is left out. */
  readonly option?: string;
}
