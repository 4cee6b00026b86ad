import type { ClientNames } from '../client-files/names.ts';
import type { Exchange } from '../kit/net/exchange.ts';
import type { Echo } from './echo/echo.ts';

/** A request of a check, below the address of the gateway. */
export interface Ask {
  readonly method?: 'GET' | 'POST';
  /** With its query, such as `/v1/models?limit=1000`. */
  readonly path: string;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** In place of `json`: JSON that is sent as it is, byte for byte. */
  readonly body?: string;
  /** Besides the credential, the content type and, where clients of Messages ask, the version. */
  readonly headers?: Readonly<Record<string, string>>;
  /** In place of the token that is checked; `null` sends none. */
  readonly token?: string | null;
  /** In place of the time that requests have as a rule. */
  readonly seconds?: number;
}

/** What single runs of coding clients are made with. */
export interface ClientSurroundings {
  readonly env: NodeJS.ProcessEnv;
  /** What clients here may be called. */
  readonly names: readonly ClientNames[];
  /** The token that is checked; it goes into the environment of a client and nowhere else. */
  readonly token: string;
  /** For one run. */
  readonly seconds: number;
}

/** The gateway that is checked. */
export interface Subject {
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  /** The address as it was given, such as one that ends in `/v1`. */
  readonly given_url?: string;
  /** The model that is asked; `undefined` where none was named, and the gateway lists none or gives no list. */
  readonly model: string | undefined;
  /** A token whose limit is used up. */
  readonly limit_token: string | undefined;
  /** Begin the names of the headers that say version and beta features, such as `vendor` for `vendor-version`. */
  readonly header_prefixes: readonly string[];
  /** The upstream of our own that the gateway forwards to, where one was asked for. */
  readonly echo: Echo | undefined;
  /** Where coding clients are looked for; they are left out where it is missing. */
  readonly clients?: ClientSurroundings;
  /** Aborted once nothing more is to be asked; its reason is NotAsked. */
  readonly signal?: AbortSignal;
  /** Whether the token that is checked is in a text. */
  holdsToken(text: string | Buffer): boolean;
  /** Sends one request with the token, to this gateway and nowhere else. Rejects where no head of an answer comes. */
  ask(ask: Ask): Promise<Exchange>;
}
