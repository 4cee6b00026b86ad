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

/** Options of all clients. */
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

/** Default variable for the token. */
const DEFAULT_VARIABLE = 'RELAY_API_KEY';

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/;

const TOKEN = /^[\x21-\x7e]{8,8192}$/;

/** Placeholder of a token with `--print`. */
export const PLACEHOLDER = '<API_KEY>';

/** Address of the gateway without `/v1`. Raises StartError. */
export function rootUrl(value: string | undefined, env: NodeJS.ProcessEnv): string {
  const preset = value ?? (env.APPSCLI_BASE_URL === '' ? undefined : env.APPSCLI_BASE_URL);
  const signed_in = preset === undefined ? [...openCredentials(env).read().keys()] : [];
  return withoutApiPath(chooseBaseUrl(value, env, signed_in, 'taken'));
}

/** The client names of a profile, or the default ones. Raises StartError with the position of an error. */
export function namesOf(file: string | undefined): ClientNames {
  return clientNames(profileOf(file ?? defaultProfile()));
}

/** The client's credential, by options. Raises StartError, which never quotes a possible token. */
export async function credentialOf(
  { apiKey, apiKeyEnv, tokenStdin, keyHelper, signIn, managed, print, check }: ClientOptions,
  input: Input,
  how: { readonly needs_text: boolean; readonly helper: () => KeyHelper },
): Promise<Credential> {
  const ways = [apiKey, apiKeyEnv, tokenStdin, keyHelper, signIn].filter((each) => each !== undefined);
  if (ways.length > 1) {
    throw usageError('--api-key, --api-key-env, --token-stdin, --key-helper and --sign-in exclude each other');
  }
  if (managed !== undefined && (ways.length === 0 || apiKey !== undefined || tokenStdin)) {
    throw usageError('--managed files contain no token: use --key-helper, --sign-in or --api-key-env');
  }
  if (signIn) return { sign_in: true };
  if (keyHelper) return { helper: how.helper() };
  if (apiKey !== undefined) return { token: tokenFrom(apiKey) };
  if (apiKeyEnv !== undefined) {
    if (VARIABLE.test(apiKeyEnv) && !apiKeyEnv.startsWith('gw_')) return { variable: apiKeyEnv };
    throw usageError(
      '--api-key-env expects the name of an environment variable, not a key; if you passed a key, revoke it: it may be in your shell history',
    );
  }
  if (tokenStdin) return { token: tokenFrom(await input.all()) };
  if (!how.needs_text) return { variable: DEFAULT_VARIABLE };
  if (print && !check) return { token: PLACEHOLDER };
  if (input.answers) return { token: tokenFrom(await input.line('Token for the gateway (not shown): ', true)) };
  throw usageError('no token: use --token-stdin, or name its variable with --api-key-env');
}

function tokenFrom(text: string): string {
  const token = text.trim();
  if (TOKEN.test(token)) return token;
  throw usageError('the token must be one line of 8 to 8192 characters without spaces');
}

/** The token itself, for requests to the gateway. Raises StartError if its variable is not set, or without a sign-in. */
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
  throw usageError(`--check needs the token in ${credential.variable}, which is not set`);
}

/** Name of the client's entry: letters, digits, dashes. Raises StartError. */
export function aliasOf(value: string | undefined, model: string): string {
  if (value === undefined) return model.replace(/[^A-Za-z0-9_-]+/g, '-').replace(/^[-_]+|-+$/g, '') || 'gateway';
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(value)) return value;
  throw usageError('--alias: expected letters, digits, dashes and underscores, such as coder');
}

/** The running program, which a key helper runs again. */
export interface Program {
  /** Executable of Node.js. */
  readonly runtime: string;
  /** Absolute path of the script. */
  readonly script: string;
}

/** The program of this process. */
export function thisProgram(): Program {
  return { runtime: process.execPath, script: realpathSync(process.argv[1]!) };
}

/** Location of a client's files. */
export interface ClientLocation {
  readonly path: string;
  /** Path of the key file, if the client has one. */
  readonly auth: string | undefined;
  readonly platform: ClientPlatform;
  /** Whether it is for all users of a machine (`--managed`). */
  readonly shared: boolean;
  /** Whether it is for another operating system, so that it can only be printed. */
  readonly elsewhere: boolean;
  readonly read: (path: string) => string | undefined;
}

/** The location of a client's files: in the user's home, or of the managed file. Raises StartError. */
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
    throw usageError(`this client has no managed file on ${where}: set up each user instead`);
  }
  const elsewhere = platform !== here;
  return { path, auth: undefined, platform, shared: true, elsewhere, read: elsewhere ? () => undefined : readUserFile };
}

/** The key helper: this program, or `appscli` on the PATH for managed files. */
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

/** Whether the program is in a package manager's cache, as with npx. */
export function isPassing({ script }: Program): boolean {
  return /[\\/](?:_npx|dlx(?:-[^\\/]*)?)[\\/]/.test(script);
}
