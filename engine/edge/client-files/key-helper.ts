import { StartError } from '../../base/contract/start-error.ts';

/** A command that prints a credential: a program and its arguments. */
export interface KeyHelper {
  readonly program: string;
  readonly args: readonly string[];
}

/** Operating systems that client files support. */
export const PLATFORMS = ['linux', 'macos', 'windows'] as const;

/** An operating system that client files support. */
export type ClientPlatform = (typeof PLATFORMS)[number];

/** The operating system of this machine. */
export function platformOf(platform: NodeJS.Platform): ClientPlatform {
  return platform === 'win32' ? 'windows' : platform === 'darwin' ? 'macos' : 'linux';
}

/** How long a client may cache the helper's output: safe with tokens of ten minutes, renewed in their last tenth. */
export const HELPER_KEEP_MS = 60_000;
/** Timeout of the helper: a renewal at a slow gateway takes a few seconds. */
export const HELPER_WAIT_SECONDS = 30;

const HEADERS_OPTION = '--headers';

export function headersHelper({ program, args }: KeyHelper): KeyHelper {
  const at = args.lastIndexOf('token') + 1;
  return { program, args: [...args.slice(0, at), HEADERS_OPTION, ...args.slice(at)] };
}

const PLAIN = /^[A-Za-z0-9_@+=:,./-]+$/;

/** The helper as a line for `sh`, on Windows for `cmd`. Raises StartError for a path that `cmd` cannot quote. */
export function helperLine({ program, args }: KeyHelper, platform: ClientPlatform): string {
  return [program, ...args].map((word) => (platform === 'windows' ? quoteForCmd(word) : quoteForSh(word))).join(' ');
}

/** A word for `sh`, quoted if necessary. */
export function quoteForSh(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function quoteForCmd(word: string): string {
  // cmd expands %NAME% within quotes, and cannot escape quotes.
  if (/["%]/.test(word)) throw new StartError(`${word} cannot be quoted for cmd: use a path without " and %`);
  return PLAIN.test(word) ? word : `"${word}"`;
}

/** Whether a configured command line runs `appscli token` for this gateway. */
export function callsHelper(text: unknown, root_url: string): boolean {
  if (typeof text !== 'string') return false;
  const words = text.split(/[\s"']+/).filter((word) => word !== '');
  return isHelperCall(words, root_url);
}

/** Whether these arguments request the token of this gateway. */
export function isHelperCall(args: readonly unknown[], root_url: string): boolean {
  const [token, option, url] = args.filter((arg) => arg !== HEADERS_OPTION).slice(-3);
  return token === 'token' && option === '--base-url' && url === root_url;
}
