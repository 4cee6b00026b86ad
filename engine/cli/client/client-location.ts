import { realpathSync } from 'node:fs';
import { type ClientPlatform, type KeyHelper, platformOf } from '../../client-files/key-helper.ts';
import { pathOfFile } from '../../client-files/names.ts';
import { readUserFile } from '../../client-files/user-file.ts';
import type { ManagedFiles } from '../../contract/config.ts';
import { usageError } from '../exit-codes.ts';
import type { ClientOptions } from './client-options.ts';

/** The program that runs: a key helper on this machine calls it again. */
export interface Program {
  /** Executable of Node.js. */
  readonly runtime: string;
  /** What it runs; absolute. */
  readonly script: string;
}

/** The program of this process. */
export function thisProgram(): Program {
  return { runtime: process.execPath, script: realpathSync(process.argv[1]!) };
}

/** Where a client's file is, and for whom. */
export interface ClientLocation {
  readonly path: string;
  readonly platform: ClientPlatform;
  /** Whether it is for everybody who works at the machine. */
  readonly shared: boolean;
  /** Whether it belongs on other machines, so that it can only be shown here. */
  readonly elsewhere: boolean;
  readonly read: (path: string) => string | undefined;
}

/** Where the file of a client goes: into its user's home, or to where it looks for what an administrator wants. Raises StartError. */
export function locationOf(
  { managed }: Pick<ClientOptions, 'managed'>,
  names: { readonly file: string; readonly folder_variable: string; readonly managed_file: ManagedFiles },
  env: NodeJS.ProcessEnv,
): ClientLocation {
  const here = platformOf(process.platform);
  if (managed === undefined) {
    const path = pathOfFile(names.file, env, names.folder_variable);
    return { path, platform: here, shared: false, elsewhere: false, read: readUserFile };
  }
  const platform = managed === true ? here : managed;
  const path = names.managed_file[platform];
  if (path === undefined) {
    const where = { linux: 'Linux', macos: 'macOS', windows: 'Windows' }[platform];
    throw usageError(`this client has no file for every machine on ${where}: set up each user's own instead`);
  }
  const elsewhere = platform !== here;
  return { path, platform, shared: true, elsewhere, read: elsewhere ? () => undefined : readUserFile };
}

/** The command that prints a credential for a gateway: this program, or the one that other machines have. */
export function helperFor(
  { managed, appscli }: Pick<ClientOptions, 'managed' | 'appscli'>,
  root_url: string,
  program: Program,
): KeyHelper {
  const args = ['token', '--base-url', root_url];
  if (appscli !== undefined) return { program: appscli, args };
  if (managed === undefined) return { program: program.runtime, args: [program.script, ...args] };
  const platform = managed === true ? platformOf(process.platform) : managed;
  return { program: platform === 'windows' ? 'appscli.cmd' : 'appscli', args };
}

/** Whether a program is where a package manager keeps it for one run only. */
export function isPassing({ script }: Program): boolean {
  return /[\\/](?:_npx|dlx(?:-[^\\/]*)?)[\\/]/.test(script);
}
