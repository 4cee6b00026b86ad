import type { ClientNames } from '../client-files/names.ts';

/** A kind of coding client, by the name that commands give it. */
export type ClientKind = 'messages' | 'coding-cli' | 'build-cli';

/** The machine of a person, as far as checks look at it. Tests put another in its place. */
export interface Desk {
  readonly env: NodeJS.ProcessEnv;
  readonly platform: NodeJS.Platform;
  /** What the files and variables of clients are called; checked for each set of names that something here uses. */
  readonly names: ClientNames;
  /** The text of a user's file; `undefined` where there is none. Raises StartError for what is no text file. */
  read(path: string): string | undefined;
  /** The path of a program on the PATH. */
  find(program: string): string | undefined;
  /** Milliseconds since the epoch. */
  now(): number;
}
