import { statSync } from 'node:fs';
import type { CheckOutcome, CheckResult } from '../../base/contract/checks.ts';
import { findProgram } from '../../base/kit/process/find-program.ts';
import type { ClientKind } from '../client-files/clients.ts';
import type { KeyHelper } from '../client-files/key-helper.ts';
import type { ClientNames } from '../client-files/names.ts';
import { readUserFile } from '../client-files/user-file.ts';

/** A developer's machine, as checks see it. Tests provide a fake. */
export interface Workstation {
  readonly env: NodeJS.ProcessEnv;
  readonly platform: NodeJS.Platform;
  /** Working directory of the clients: some also read project files. */
  readonly folder: string;
  readonly names: ClientNames;
  /** The profile file with these names; `undefined` for the default ones. */
  readonly profile?: string | undefined;
  /** The text of a user's file; `undefined` if it does not exist. Raises StartError for anything but a text file. */
  read(path: string): string | undefined;
  /** Permission bits of a file; `undefined` if it does not exist, and on Windows, where they mean nothing. */
  rights(path: string): number | undefined;
  find(program: string): string | undefined;
  now(): number;
}

/** The workstation that this process runs on. */
export function openWorkstation(env: NodeJS.ProcessEnv, names: ClientNames): Workstation {
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

export interface Fix {
  readonly path: string;
  /** A missing file counts as empty. Returns `before` where only the permissions are wrong. Raises BrokenFile. */
  change(before: string): string;
  /** Whether the file contains a credential, so that only its owner may read it. */
  readonly secret: boolean;
  /** Secrets to mask when the change is shown, besides values that their keys mark as credentials. */
  readonly hides?: readonly string[];
}

/** The result of one check of a workstation or a gateway host. */
export interface Diagnosis extends CheckOutcome, Pick<CheckResult, 'id' | 'title' | 'where'> {
  /** Only fixes that lose nothing of value. */
  readonly fixes?: readonly Fix[];
}

/** How a client reaches its gateway, by its files and variables. */
export interface Connection {
  readonly client: ClientKind;
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  /** Whether a project file names the gateway. It is untrusted: remedies contain no command with this address. */
  readonly is_of_folder?: boolean;
  /** The credential that the client would send; `undefined` if it has none, or obtains it in an unsupported way. */
  readonly token: string | undefined;
  readonly authorities?: readonly string[];
  readonly model: string | undefined;
  readonly more_models?: readonly string[];
  readonly context_window: number | undefined;
  /** Fixes that set another window, in tokens; absent if no file of the user configures it. */
  readonly fixWindow?: (tokens: number) => Pick<Diagnosis, 'fixes'>;
  readonly helper?: HelperCommand;
}

/** A command that prints a credential, as configured in a client's files. */
export interface HelperCommand {
  /** A program with its arguments, or a line for the shell. */
  readonly command: KeyHelper | { readonly line: string };
  readonly where: string;
}

export interface ClientDiagnosis {
  readonly client: ClientKind;
  readonly is_there: boolean;
  readonly diagnoses: readonly Diagnosis[];
  readonly connection: Connection | undefined;
}
