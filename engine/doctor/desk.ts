import { statSync } from 'node:fs';
import type { ClientNames } from '../client-files/names.ts';
import { readUserFile } from '../client-files/user-file.ts';
import { findProgram } from '../kit/process/find-program.ts';

/** A kind of coding client, by the name that commands give it. */
export type ClientKind = 'messages' | 'coding-cli' | 'build-cli';

/** What clients are called in what is printed. */
export const CLIENT_TITLES: Readonly<Record<ClientKind, string>> = {
  messages: 'Messages client',
  'coding-cli': 'coding CLI',
  'build-cli': 'build CLI',
};

/** The machine of a person, as far as checks look at it. Tests put another in its place. */
export interface Desk {
  readonly env: NodeJS.ProcessEnv;
  readonly platform: NodeJS.Platform;
  /** Where clients would be started: some also read files of a project. */
  readonly folder: string;
  /** What the files and variables of clients are called; checked for each set of names that something here uses. */
  readonly names: ClientNames;
  /** The file with these names; `undefined` for neutral ones. */
  readonly profile?: string | undefined;
  /** The text of a user's file; `undefined` where there is none. Raises StartError for what is no text file. */
  read(path: string): string | undefined;
  /** Permission bits of a file; `undefined` where there is none, and on Windows, where they say nothing. */
  rights(path: string): number | undefined;
  /** The path of a program on the PATH. */
  find(program: string): string | undefined;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** This machine. */
export function openDesk(env: NodeJS.ProcessEnv, names: ClientNames): Desk {
  const { platform } = process;
  return {
    env,
    platform,
    folder: process.cwd(),
    names,
    read: readUserFile,
    rights: (path) => (platform === 'win32' ? undefined : modeOf(path)),
    find: (program) => findProgram(program, env, platform),
    now: () => Date.now(),
  };
}

function modeOf(path: string): number | undefined {
  try {
    return statSync(path).mode & 0o777;
  } catch {
    return undefined;
  }
}
