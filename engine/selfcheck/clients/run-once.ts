import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import type { Draft } from '../../client-files/draft.ts';
import type { ClientNames } from '../../client-files/names.ts';
import { type ProgramEnd, runProgram } from '../../kit/process/run-program.ts';
import type { RunnableClient } from './kinds.ts';

/** What a single run is made with. */
export interface RunGiven {
  readonly client: RunnableClient;
  readonly names: ClientNames;
  /** The program itself. */
  readonly program: string;
  readonly root_url: string;
  readonly model: string;
  readonly token: string;
  readonly prompt: string;
  readonly env: NodeJS.ProcessEnv;
  readonly seconds: number;
  readonly signal: AbortSignal | undefined;
}

/** How a single run ended. */
export interface SingleRun extends ProgramEnd {
  /** Hosts of the pages that it opened a browser for; the rest of an address may hold a secret. */
  readonly opened: readonly string[];
  /** What it says of its version. */
  readonly version: string;
}

const OUTPUT_BYTES_MAX = 256 * 1024;
const VERSION_SECONDS = 20;
const WATCH_MS = 100;

/** What programs start to open a page, by the systems they know. */
const BROWSERS = [
  'xdg-open',
  'open',
  'gio',
  'gnome-open',
  'kde-open',
  'wslview',
  'sensible-browser',
  'x-www-browser',
  'www-browser',
  'firefox',
  'chromium',
  'google-chrome',
];

/** Variables that say how the network is reached and in which language to speak, and nothing of a person. */
const KEPT = /^(?:PATH|LANG|LC_\w+|TZ|(?:https?|no|all)_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR)|SystemRoot)$/i;

/**
 * Runs a client once in a home directory of its own, with files as `appscli client` makes them, the token in a variable and
 * nothing else of the person. A browser that it opens is recorded and does not open. Everything it started and wrote is
 * gone afterwards.
 */
export async function runOnce(given: RunGiven): Promise<SingleRun> {
  const { client, names, program, prompt, token, seconds } = given;
  const home = mkdtempSync(join(tmpdir(), 'appscli-selfcheck-'));
  const pages = join(home, 'opened-pages');
  const opened = () => (existsSync(pages) ? hostsIn(readFileSync(pages, 'utf8')) : []);
  const enough = new AbortController();
  // Whoever opened a browser waits for a person, and would do so until time is over.
  const watch = setInterval(() => {
    if (opened().length > 0) enough.abort();
  }, WATCH_MS);
  try {
    const folder = join(home, 'project');
    mkdirSync(folder);
    for (const draft of filesOf(given, home)) writeDraft(draft);
    const env = environment(given.env, home, pages);
    const all = { folder, bytes_max: OUTPUT_BYTES_MAX };
    const version_of = { program, args: ['--version'] };
    const about = await runProgram({ ...all, command: version_of, env, seconds: VERSION_SECONDS });
    const signals = [enough.signal, ...(given.signal === undefined ? [] : [given.signal])];
    const end = await runProgram({
      ...all,
      command: { program, args: client.args(prompt) },
      env: { ...env, [client.tokenVariable(names)]: token },
      seconds,
      signal: AbortSignal.any(signals),
    });
    const version = about.stdout.split('\n', 1)[0]!.trim();
    return { ...end, opened: opened(), version };
  } finally {
    clearInterval(watch);
    remove(home);
  }
}

function filesOf({ client, root_url, model, names }: RunGiven, home: string): readonly Draft[] {
  const below = (path: string) => join(home, path.replace(/^~\//, '').replace(/^(?:[A-Za-z]:)?[\\/]+/, ''));
  return client.files({ root_url, model, names }, below);
}

function writeDraft({ path, after }: Draft): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, after, { mode: 0o600 });
}

function environment(env: NodeJS.ProcessEnv, home: string, pages: string): NodeJS.ProcessEnv {
  const kept = Object.fromEntries(Object.entries(env).filter(([name]) => KEPT.test(name)));
  const programs = join(home, 'programs');
  const temporary = join(home, 'tmp');
  for (const folder of [programs, temporary]) mkdirSync(folder);
  for (const name of BROWSERS) {
    const path = join(programs, name);
    writeFileSync(path, `#!/bin/sh\nfor each in "$@"; do printf '%s\\n' "$each" >> '${pages}'; done\n`);
    chmodSync(path, 0o700);
  }
  return {
    ...kept,
    PATH: `${programs}${delimiter}${env.PATH ?? ''}`,
    BROWSER: join(programs, 'xdg-open'),
    HOME: home,
    XDG_CONFIG_HOME: join(home, '.config'),
    XDG_CACHE_HOME: join(home, '.cache'),
    XDG_DATA_HOME: join(home, '.local', 'share'),
    XDG_STATE_HOME: join(home, '.local', 'state'),
    TMPDIR: temporary,
    TERM: 'dumb',
    NO_COLOR: '1',
  };
}

function hostsIn(pages: string): string[] {
  const urls = pages.split('\n').filter((line) => URL.canParse(line) && /^https?:/.test(line));
  return [...new Set(urls.map((line) => new URL(line).host))];
}

function remove(home: string): void {
  try {
    rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    // A file that somebody still holds: the token is in none of them.
  }
}
