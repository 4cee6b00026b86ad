import { statSync } from 'node:fs';
import type { CheckOutcome } from '../../base/contract/checks.ts';
import { findProgram } from '../../base/kit/process/find-program.ts';
import type { ClientKind } from '../client-files/clients.ts';
import type { KeyHelper } from '../client-files/key-helper.ts';
import type { ClientNames } from '../client-files/names.ts';
import { readUserFile } from '../client-files/user-file.ts';

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

/**
 * How a file is put right. Changes of one file are made one after the other, each on what the one before made, and all
 * are shown before anything is written.
 */
export interface Fix {
  readonly path: string;
  /**
   * What the file should say; a file that is not there is an empty text. The same text is fine where only its rights are
   * wrong. Raises BrokenFile for a text that can't be changed.
   */
  change(before: string): string;
  /** Whether the file holds a credential, so that nobody else may read it. */
  readonly secret: boolean;
  /** Texts that must not be shown when the change is, beside what is hidden as a credential by its key. */
  readonly hides?: readonly string[];
}

/** What one check of a desk or a gateway's machine found. */
export interface Diagnosis extends CheckOutcome {
  /** Stays the same in all versions: lower-case words with dots between them, such as `build_cli.env_key`. */
  readonly id: string;
  /** What was looked at, in a few words. */
  readonly title: string;
  /** Where: a file with its line, as `positionOf` writes it, or a variable. */
  readonly where?: string;
  /** Only where it is safe: nothing that somebody may want is lost. */
  readonly fixes?: readonly Fix[];
}

/** How a client reaches its gateway, by its files and variables. */
export interface Connection {
  readonly client: ClientKind;
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  /** Whether a file of the folder names it, which may come from anybody: no command to paste goes there. */
  readonly is_of_folder?: boolean;
  /** The credential that the client would send; `undefined` where it has none, or gets it in a way that is not tried here. */
  readonly token: string | undefined;
  /** Files with authorities that it trusts besides the usual ones. */
  readonly authorities?: readonly string[];
  readonly model: string | undefined;
  /** Other models that it is told to ask for, such as those of its tiers. */
  readonly more_models?: readonly string[];
  /** In tokens, as the client believes. */
  readonly context_window: number | undefined;
  /** How its files are told another window, in tokens; not there where no file of the person says it. */
  readonly fixWindow?: (tokens: number) => Pick<Diagnosis, 'fixes'>;
  /** The command that the client runs to be given its credential; whoever may run it here learns `token` from it. */
  readonly helper?: HelperCommand;
}

/** A command that prints a credential, as a client has it in its files. */
export interface HelperCommand {
  /** A program with its arguments, or a line for the shell. */
  readonly command: KeyHelper | { readonly line: string };
  /** Where it is named. */
  readonly where: string;
}

/** What is known of one client. */
export interface Examination {
  readonly client: ClientKind;
  /** Whether the client is there at all: a file of it, its program, or a variable. */
  readonly is_there: boolean;
  readonly diagnoses: readonly Diagnosis[];
  readonly connection: Connection | undefined;
}
