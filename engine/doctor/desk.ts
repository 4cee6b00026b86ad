import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, extname, join } from 'node:path';
import type { ClientNames } from '../client-files/names.ts';
import { readUserFile } from '../client-files/user-file.ts';

/** A kind of coding client, by the name that commands give it. */
export type ClientKind = 'messages' | 'coding-cli' | 'build-cli';

/** The machine of a person, as far as checks look at it. Tests put another in its place. */
export interface Desk {
  readonly env: NodeJS.ProcessEnv;
  readonly platform: NodeJS.Platform;
  /** Where clients would be started: some also read files of a project. */
  readonly folder: string;
  /** What the files and variables of clients are called; checked for each set of names that something here uses. */
  readonly names: ClientNames;
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

function findProgram(program: string, env: NodeJS.ProcessEnv, platform: NodeJS.Platform): string | undefined {
  const endings = platform === 'win32' ? (env.PATHEXT ?? '.EXE;.CMD;.BAT').split(';') : [''];
  const names = extname(program) === '' ? endings.map((ending) => program + ending) : [program];
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function modeOf(path: string): number | undefined {
  try {
    return statSync(path).mode & 0o777;
  } catch {
    return undefined;
  }
}
