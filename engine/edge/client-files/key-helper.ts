import { StartError } from '../../base/contract/start-error.ts';

/** A command that prints a credential: a program and what it is called with. */
export interface KeyHelper {
  readonly program: string;
  readonly args: readonly string[];
}

/** Operating systems that a client's files can be meant for. */
export const PLATFORMS = ['linux', 'macos', 'windows'] as const;

/** An operating system that a client's files can be meant for. */
export type ClientPlatform = (typeof PLATFORMS)[number];

/** The operating system of this machine. */
export function platformOf(platform: NodeJS.Platform): ClientPlatform {
  return platform === 'win32' ? 'windows' : platform === 'darwin' ? 'macos' : 'linux';
}

/**
 * How long a client may keep what the helper printed. `appscli token` renews an hour's token in its last six minutes, and
 * shorter lives in their last tenth, so a minute keeps all of ten minutes and more ahead of their end.
 */
export const HELPER_KEEP_MS = 60_000;
/** How long a client waits for the helper: a renewal with a slow gateway takes a few seconds. */
export const HELPER_WAIT_SECONDS = 30;

/** Has `appscli token` print headers, for clients that take these. */
const HEADERS_OPTION = '--headers';

/** The same helper where it is to print headers. */
export function headersHelper({ program, args }: KeyHelper): KeyHelper {
  const at = args.lastIndexOf('token') + 1;
  return { program, args: [...args.slice(0, at), HEADERS_OPTION, ...args.slice(at)] };
}

/** What needs no quotes, in any shell. */
const PLAIN = /^[A-Za-z0-9_@+=:,./-]+$/;

/** A line for the shell that runs helpers: `sh`, on Windows `cmd`. Raises StartError for a path that `cmd` can't be told. */
export function helperLine({ program, args }: KeyHelper, platform: ClientPlatform): string {
  return [program, ...args].map((word) => (platform === 'windows' ? quoteForCmd(word) : quoteForSh(word))).join(' ');
}

/** A word for a line of `sh`, in quotes where it needs them. */
export function quoteForSh(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function quoteForCmd(word: string): string {
  // Within quotes cmd still reads %NAME%, and a quote has no escape there.
  if (/["%]/.test(word)) throw new StartError(`${word} cannot be written for cmd: choose a path without " and %`);
  return PLAIN.test(word) ? word : `"${word}"`;
}

/** Whether a text from a client's file calls `appscli token` for this gateway. */
export function callsHelper(text: unknown, root_url: string): boolean {
  if (typeof text !== 'string') return false;
  const words = text.split(/[\s"']+/).filter((word) => word !== '');
  return isHelperCall(words, root_url);
}

/** Whether these arguments ask for the token of this gateway. */
export function isHelperCall(args: readonly unknown[], root_url: string): boolean {
  const [token, option, url] = args.filter((arg) => arg !== HEADERS_OPTION).slice(-3);
  return token === 'token' && option === '--base-url' && url === root_url;
}
