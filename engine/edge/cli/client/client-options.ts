import { realpathSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { Signal } from '../../../base/contract/client-telemetry.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { systemClock } from '../../../base/kit/clock.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { chooseBaseUrl, withoutApiPath } from '../../client/base-url.ts';
import { openCredentials } from '../../client/credentials.ts';
import { freshCredentials } from '../../client/fresh-credentials.ts';
import { createAsk } from '../../client/http.ts';
import { CLIENTS, type ClientKind, type Credential, type Draft } from '../../client-files/clients.ts';
import { type ClientPlatform, type KeyHelper, platformOf } from '../../client-files/key-helper.ts';
import { type ClientNames, clientNames, pathOfFile } from '../../client-files/names.ts';
import { showDiff, withoutCredentials } from '../../client-files/show-diff.ts';
import { readUserFile, writeUserFiles } from '../../client-files/user-file.ts';
import { type CommandContext, EXIT_FINDINGS, EXIT_OK, usageError } from '../commands.ts';
import { defaultProfile, profileOf } from '../profiles.ts';

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

const DEFAULT_VARIABLE = 'RELAY_API_KEY';

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,199}$/;

const TOKEN = /^[\x21-\x7e]{8,8192}$/;

/** Placeholder of a token with `--print`. */
export const PLACEHOLDER = '<API_KEY>';

/** Address of the gateway as typed, possibly with `/v1`. Raises StartError. */
export function givenUrl(value: string | undefined, env: NodeJS.ProcessEnv): string {
  const preset = value ?? (env.APPSCLI_BASE_URL === '' ? undefined : env.APPSCLI_BASE_URL);
  const signed_in = preset === undefined ? [...openCredentials(env).read().keys()] : [];
  return chooseBaseUrl(value, env, signed_in, 'taken');
}

/** Address of the gateway without `/v1`. Raises StartError. */
export const rootUrl = (value: string | undefined, env: NodeJS.ProcessEnv): string =>
  withoutApiPath(givenUrl(value, env));

/** Raises StartError, which never quotes a possible token, unless an option's value is the name of a variable. */
export function assertVariable(value: string, option: string): void {
  if (VARIABLE.test(value) && !value.startsWith('gw_')) return;
  throw usageError(
    `${option} expects the name of an environment variable, not a token; if you passed a token, revoke it: it may be in your shell history`,
  );
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
    assertVariable(apiKeyEnv, '--api-key-env');
    return { variable: apiKeyEnv };
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
  readonly runtime: string;
  readonly script: string;
}

/** The program of this process. */
export function thisProgram(): Program {
  return { runtime: process.execPath, script: realpathSync(process.argv[1]!) };
}

/**
 * The location of a client's files: in the user's home, or, `shared` by all users of a machine, of the managed file; `elsewhere` for
 * another operating system, where it can only be printed. Raises StartError.
 */
export function locationOf(
  { managed }: Pick<ClientOptions, 'managed'>,
  client: ClientKind,
  all_names: ClientNames,
  env: NodeJS.ProcessEnv,
) {
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

export type ClientLocation = ReturnType<typeof locationOf>;

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

interface Outcome {
  readonly path: string;
  readonly change: 'none' | 'proposed' | 'written';
  readonly backup: string | null;
}

/**
 * Shows file changes, asks, and writes. `--print` prints the complete files; `--write` does not ask. Returns the exit code: 1
 * if changes were not written.
 */
export async function offerDrafts(
  { terminal }: CommandContext,
  drafts: readonly Draft[],
  { write, print, json }: Pick<ClientOptions, 'write' | 'print' | 'json'>,
  how: {
    readonly input: Input;
    readonly token: string | undefined;
    readonly facts: Readonly<Record<string, unknown>>;
  },
): Promise<number> {
  const { token, input, facts } = how;
  if (print) {
    if (json) terminal.data(`${jsonText({ ...facts, files: drafts.map((each) => printed(each, token)) })}\n`);
    else for (const draft of drafts) terminal.verbatim(printedText(draft, drafts.length, token));
    return EXIT_OK;
  }
  const changed = drafts.filter(({ before, after }) => before !== after);
  const { is_written, files } =
    changed.length === 0
      ? { is_written: false, files: [] }
      : await writeDrafts(terminal, changed, { write: write === true, input, hides: token ?? [] });
  const outcomes = drafts.map(({ path }): Outcome => {
    const outcome = files.find((file) => file.path === path);
    if (outcome === undefined) terminal.info(`${path} is up to date\n`);
    return outcome ?? { path, change: 'none', backup: null };
  });
  if (json) terminal.data(`${jsonText({ ...facts, files: outcomes })}\n`);
  return changed.length === 0 || is_written ? EXIT_OK : EXIT_FINDINGS;
}

/** Shows changes, asks unless `write`, and writes all files or none. Raises StartError. */
export async function writeDrafts(
  terminal: CommandContext['terminal'],
  drafts: readonly Draft[],
  how: { readonly write: boolean; readonly input: Input; readonly hides: string | readonly string[] },
): Promise<{ readonly is_written: boolean; readonly files: readonly Outcome[] }> {
  for (const draft of drafts) {
    const { path, before, after, secret } = draft;
    if (before !== after) terminal.info(showDiff(draft, how.hides, terminal.info_color));
    if (secret) terminal.info(`${path} will be readable only by you\n`);
  }
  const is_written = await mayWrite(terminal, how);
  const backups = is_written ? writeUserFiles(drafts) : [];
  const files = drafts.map(({ path, before }, index): Outcome => {
    const backup = backups[index] ?? null;
    const was = backup === null ? '' : `; backup: ${backup}`;
    const is = !is_written ? 'was not written' : before === undefined ? 'was created' : `was written${was}`;
    terminal.info(`${path} ${is}\n`);
    return { path, change: is_written ? 'written' : 'proposed', backup };
  });
  return { is_written, files };
}

async function mayWrite(
  terminal: CommandContext['terminal'],
  { write, input }: { readonly write: boolean; readonly input: Input },
): Promise<boolean> {
  if (write) return true;
  if (!input.answers) {
    terminal.info('Cannot ask without a terminal: run this again with --write.\n');
    return false;
  }
  return /^y(?:es)?$/i.test((await input.line('Write these changes? [y/N] ', false)).trim());
}

function printed({ path, after }: Draft, token: string | undefined) {
  return { path, text: withoutCredentials(after, token) };
}

function printedText(draft: Draft, files: number, token: string | undefined): string {
  const { path, text } = printed(draft, token);
  // Several files need headings; a single file can be redirected.
  const heading = files === 1 ? '' : `# ${path}\n`;
  return `${heading}${text}${text.endsWith('\n') ? '' : '\n'}`;
}

const BYTES_MAX = 64 * 1024;

/** Interactive input of a command. */
export interface Input {
  readonly answers: boolean;
  /** Asks a question and returns the typed line; `hidden` disables the echo. Raises StartError without an answer. */
  line(question: string, hidden: boolean): Promise<string>;
  /** Everything on standard input. Raises StartError for more than 64 KiB. */
  all(): Promise<string>;
}

/** The process's own standard input; questions go to standard error. */
export function processInput(): Input {
  const answers = process.stdin.isTTY === true && process.stderr.isTTY === true;
  return {
    answers,
    async line(question, hidden) {
      process.stderr.write(question);
      const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
      const lines = createInterface({
        input: process.stdin,
        output: hidden ? nowhere : process.stderr,
        terminal: true,
      });
      try {
        return await new Promise<string>((resolve, reject) => {
          const stopped = () => reject(new StartError('stopped; nothing was written', { exit_code: EXIT_FINDINGS }));
          lines.once('line', resolve).once('close', stopped).once('SIGINT', stopped);
        });
      } finally {
        lines.close();
        process.stdin.pause();
        if (hidden) process.stderr.write('\n');
      }
    },
    async all() {
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > BYTES_MAX) {
          throw usageError('standard input has more than 64 KiB; expected a token');
        }
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString('utf8');
    },
  };
}
