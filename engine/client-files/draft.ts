import type { Signal } from '../contract/client-telemetry.ts';
import type { KeyHelper } from './key-helper.ts';

/** A file of a user as it should be. */
export interface Draft {
  readonly path: string;
  /** `undefined` where there is no file yet. */
  readonly before: string | undefined;
  readonly after: string;
  /** Whether it gets a credential, so that nobody else may read it. */
  readonly secret: boolean;
  /** Whether everybody who works at the machine must be able to read it, which a new file then allows. */
  readonly shared?: boolean;
}

/** What a client's files should say, and what a person should know about them. */
export interface ClientPlan {
  readonly drafts: readonly Draft[];
  readonly warnings: readonly string[];
}

/** Reads a file of a user; `undefined` where there is none. */
export type ReadText = (path: string) => string | undefined;

/**
 * How a client gets its credential: from a variable it reads itself, as a text in its files, from a command that it runs,
 * or by signing in at the gateway.
 */
export type Credential =
  | { readonly variable: string }
  | { readonly token: string }
  | { readonly helper: KeyHelper }
  | { readonly sign_in: true };

/** What every client is told. */
export interface ClientWish {
  /** Address of the gateway without `/v1` and without a trailing slash. */
  readonly root_url: string;
  readonly credential: Credential;
  /** What telemetry the client sends to the gateway; an empty list is none, `undefined` leaves it as it is. */
  readonly telemetry?: readonly Signal[] | undefined;
}
