import { realpathSync } from 'node:fs';
import type { Signal } from '../../../base/contract/client-telemetry.ts';
import { systemClock } from '../../../base/kit/clock.ts';
import { chooseBaseUrl, withoutApiPath } from '../../client/base-url.ts';
import { openCredentials } from '../../client/credentials.ts';
import { freshCredentials } from '../../client/fresh-credentials.ts';
import { createAsk } from '../../client/http.ts';
import { CLIENTS, type ClientKind, type Credential } from '../../client-files/clients.ts';
import { type ClientPlatform, type KeyHelper, platformOf } from '../../client-files/key-helper.ts';
import { type ClientNames, clientNames, pathOfFile } from '../../client-files/names.ts';
import { readUserFile } from '../../client-files/user-file.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { defaultProfile, profileOf } from '../profiles.ts';
import type { Input } from './client-write.ts';

/** Options that every kind of client has. */
export interface ClientOptions {
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly apiKeyEnv?: string;
  readonly tokenStdin?: true;
  readonly keyHelper?: true;
  readonly signIn?: true;
  readonly appscli?: string;
  readonly managed?: true | ClientPlatform;
  readonly model?: string;
  readonly profile?: string;
  /** Signals to send; `false` for none. */
  readonly telemetry?: readonly Signal[] | false;
  readonly write?: true;
  readonly print?: true;
  readonly check?: true;
  readonly json?: true;
}

/** Example of a variable that holds a token. */
const DEFAULT_VARIABLE = 'RELAY_API_KEY';

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/;

const TOKEN = /^[\x21-\x7e]{8,8192}$/;

/** Stands for a token where only the form of a file is to be shown. */
export const PLACEHOLDER = '<API_KEY>';

/** Address of the gateway without `/v1`, whichever form was given. Raises StartError. */
export function rootUrl(given: string | undefined, env: NodeJS.ProcessEnv): string {
  const preset = given ?? (env.APPSCLI_BASE_URL === '' ? undefined : env.APPSCLI_BASE_URL);
  const signed_in = preset === undefined ? [...openCredentials(env).read().keys()] : [];
  return withoutApiPath(chooseBaseUrl(given, env, signed_in, 'taken'));
}

/** The names of clients that a profile gives, or the default ones. Raises StartError with the position of a mistake. */
export function namesOf(file: string | undefined): ClientNames {
  return clientNames(profileOf(file ?? defaultProfile()));
}

/** How the client gets its credential. Raises StartError; no message repeats what may be one. */
export async function credentialOf(
  { apiKey, apiKeyEnv, tokenStdin, keyHelper, signIn, managed, print, check }: ClientOptions,
  input: Input,
  how: { readonly needs_text: boolean; readonly helper: () => KeyHelper },
): Promise<Credential> {
  const given = [apiKey, apiKeyEnv, tokenStdin, keyHelper, signIn].filter((each) => each !== undefined);
  if (given.length > 1) {
    throw usageError('--api-key, --api-key-env, --token-stdin, --key-helper and --sign-in exclude each other');
  }
  if (managed !== undefined && (given.length === 0 || apiKey !== undefined || tokenStdin)) {
    throw usageError(
      'a file for every machine holds no token: with --managed say --key-helper, --sign-in or --api-key-env',
    );
  }
  if (signIn) return { sign_in: true };
  if (keyHelper) return { helper: how.helper() };
  if (apiKey !== undefined) return { token: tokenFrom(apiKey) };
  if (apiKeyEnv !== undefined) {
    if (VARIABLE.test(apiKeyEnv) && !apiKeyEnv.startsWith('gw_')) return { variable: apiKeyEnv };
    throw usageError(
      '--api-key-env takes the name of an environment variable, not a key; if that was one, revoke it: your shell may have kept it',
    );
  }
  if (tokenStdin) return { token: tokenFrom(await input.all()) };
  if (!how.needs_text) return { variable: DEFAULT_VARIABLE };
  if (print && !check) return { token: PLACEHOLDER };
  if (input.answers) return { token: tokenFrom(await input.line('Token for the gateway (not shown): ', true)) };
  throw usageError(
    'where is the token? Give it with --token-stdin, or name the variable that holds it with --api-key-env',
  );
}

function tokenFrom(text: string): string {
  const token = text.trim();
  if (TOKEN.test(token)) return token;
  throw usageError('the token must be one line of 8 to 8192 characters without spaces');
}

/** The token itself, to ask the gateway with. Raises StartError when its variable is not set, or nobody has signed in. */
export async function tokenOf(
  credential: Exclude<Credential, { readonly sign_in: true }>,
  root_url: string,
  { env, clock = systemClock }: Pick<CommandContext, 'env' | 'clock'>,
): Promise<string> {
  if ('token' in credential) return credential.token;
  if ('helper' in credential) {
    const [credentials, ask] = [openCredentials(env), createAsk()];
    return (await freshCredentials({ credentials, ask, clock, base_url: root_url })).access_token;
  }
  const token = (env[credential.variable] ?? '').trim();
  if (token !== '') return tokenFrom(token);
  throw usageError(`--check asks with the token in ${credential.variable}, and it is not set`);
}

/** Name of an entry that goes into a file: letters, digits, dashes. Raises StartError. */
export function aliasOf(given: string | undefined, model: string): string {
  if (given === undefined) return model.replace(/[^A-Za-z0-9_-]+/g, '-').replace(/^[-_]+|-+$/g, '') || 'gateway';
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(given)) return given;
  throw usageError('--alias is the name of an entry: letters, digits, dashes and underscores, such as coder');
}

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
  /** Of the file with the key, where the client has one. */
  readonly auth: string | undefined;
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
  client: ClientKind,
  all_names: ClientNames,
  env: NodeJS.ProcessEnv,
): ClientLocation {
  const names = CLIENTS[client].files(all_names);
  const here = platformOf(process.platform);
  if (managed === undefined) {
    const path = pathOfFile(names.file, env, names.folder_variable);
    const auth = names.auth_file === undefined ? undefined : pathOfFile(names.auth_file, env, names.folder_variable);
    return { path, auth, platform: here, shared: false, elsewhere: false, read: readUserFile };
  }
  const platform = managed === true ? here : managed;
  const path = names.managed_file[platform];
  if (path === undefined) {
    const where = { linux: 'Linux', macos: 'macOS', windows: 'Windows' }[platform];
    throw usageError(`this client has no file for every machine on ${where}: set up each user's own instead`);
  }
  const elsewhere = platform !== here;
  return { path, auth: undefined, platform, shared: true, elsewhere, read: elsewhere ? () => undefined : readUserFile };
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
