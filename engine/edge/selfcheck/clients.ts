import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join } from 'node:path';
import { failed, ok, skipped, warning } from '../../base/contract/checks.ts';
import type { Protocol } from '../../base/contract/protocol.ts';
import { findProgram } from '../../base/kit/process/find-program.ts';
import { type ProgramEnd, runProgram } from '../../base/kit/process/run-program.ts';
import { printableLine, printableWord } from '../../base/kit/text/printable.ts';
import { DEFINITIONS } from '../../domain/protocols/definitions.ts';
import { CLIENTS, type ClientKind, planClient, TIERS } from '../client-files/clients.ts';
import { platformOf } from '../client-files/key-helper.ts';
import type { ClientNames } from '../client-files/names.ts';
import {
  type ClientEnvironment,
  refusedOutcome,
  requestOf,
  type SelfCheck,
  type SelfCheckOutcome,
  type Subject,
  sendRequest,
  type TokensUsed,
} from './check.ts';

interface Runnable {
  readonly client: ClientKind;
  readonly api: Protocol;
  /** About twice the measured use of one run: the client decides. */
  readonly uses: TokensUsed;
  /** Without tools for commands and files, which the gateway's response could make the client use. */
  args(prompt: string): readonly string[];
}

const RUNNABLE: readonly Runnable[] = [
  {
    client: 'messages',
    api: 'messages',
    uses: { requests: 3, input: 30_000, output: 1000 },
    args: (prompt) => ['-p', prompt, '--tools', ''],
  },
  {
    client: 'coding-cli',
    api: 'responses',
    uses: { requests: 3, input: 25_000, output: 1000 },
    args: (prompt) => [
      'exec',
      '--skip-git-repo-check',
      ...['shell_tool', 'unified_exec', 'view_image'].flatMap((tool) => ['--disable', tool]),
      prompt,
    ],
  },
  {
    client: 'build-cli',
    api: 'chat',
    uses: { requests: 5, input: 60_000, output: 2000 },
    // An empty list of tools would mean all of them.
    args: (prompt) => ['-p', prompt, '--tools', 'todo_write', '--deny', '*'],
  },
];

export const CLIENT_CHECKS: readonly SelfCheck[] = RUNNABLE.map((runnable) => ({
  id: `clients.${runnable.client.replace('-', '_')}`,
  title: `One run of the ${CLIENTS[runnable.client].title}`,
  expected: 'the requested reply, and no browser for a sign-in',
  uses: runnable.uses,
  skipped: ({ clients }) => whyNot(runnable, clients),
  run: (subject) => runClient(runnable, subject),
}));

function whyNot({ client }: Runnable, clients: ClientEnvironment | undefined): string | undefined {
  if (clients === undefined) return 'client runs are disabled';
  if (process.platform === 'win32')
    return 'not supported on Windows, where processes that clients start cannot be stopped';
  const found = findClient(client, clients);
  if (found === undefined) {
    const programs = clients.names.map((names) => CLIENTS[client].files(names).program);
    return `no ${[...new Set(programs)].join(' or ')} is on the PATH`;
  }
  const managed = CLIENTS[client].files(found.names).managed_file[platformOf(process.platform)];
  if (managed === undefined || !existsSync(managed)) return undefined;
  return `${managed} controls the client on this machine, so the token could reach another server`;
}

function findClient(client: ClientKind, { names, env }: ClientEnvironment) {
  for (const each of names) {
    const program = findProgram(CLIENTS[client].files(each).program, env, process.platform);
    if (program !== undefined) return { program, names: each };
  }
  return undefined;
}

/** The reply is not part of the prompt, which some clients print. */
const PROMPT = 'Join "self" and "check" into one word, and reply with that one word only. Use no tools.';
const REPLY = /self-?check/i;

async function runClient(runnable: Runnable, subject: Subject): Promise<SelfCheckOutcome> {
  const { clients, echo, model, root_url, signal } = subject;
  const found = clients === undefined ? undefined : findClient(runnable.client, clients);
  if (clients === undefined || found === undefined || model === undefined) return skipped('no client or no model');
  const useless = await whyUseless(runnable, subject);
  if (useless !== undefined) return useless;
  const word = `echo-${randomBytes(4).toString('hex')}`;
  const expected = echo?.expect({ text: word });
  const prompt = expected === undefined ? PROMPT : `${PROMPT} (${expected.text})`;
  const run = await runOnce(runnable, { ...clients, ...found, root_url, model, prompt, signal });
  signal?.throwIfAborted();
  const isExpected = (reply: string) => (expected?.received() === undefined ? REPLY.test(reply) : reply.includes(word));
  return classifyRun(run, runnable, found.program, isExpected, clients.seconds);
}

/** A rejected client retries many times, each with tens of thousands of tokens. Returns why a run would fail. */
async function whyUseless({ api }: Runnable, subject: Subject): Promise<SelfCheckOutcome | undefined> {
  const { path } = DEFINITIONS[api];
  const reply = await sendRequest(subject, { path, json: requestOf(subject, api) }, 'a short request');
  const refused = refusedOutcome(reply);
  if (refused === undefined) return undefined;
  const { status, json } = reply.answer;
  if (json !== undefined && status >= 400 && status < 500 && status !== 401 && status !== 403) {
    return skipped(`not run: the gateway does not serve ${path}, or not for this model`, reply.travelled);
  }
  return { ...refused, found: `not run, because the client would fail the same way: ${refused.found}` };
}

interface RunRequest extends Omit<ClientEnvironment, 'names'> {
  readonly names: ClientNames;
  readonly program: string;
  readonly root_url: string;
  readonly model: string;
  readonly prompt: string;
  readonly signal: AbortSignal | undefined;
}

interface SingleRun extends ProgramEnd {
  /** Hosts of the pages that it opened in a browser; the rest of an address may be secret. */
  readonly opened: readonly string[];
  readonly version: string;
}

const OUTPUT_BYTES_MAX = 256 * 1024;
const VERSION_SECONDS = 20;
const WATCH_MS = 100;
const CONTEXT_WINDOW = 200_000;

const TOKEN_VARIABLE = 'APPSCLI_SELFCHECK_TOKEN';

/** Runs a client in a temporary home, the token in a variable. Removes all of its processes and files afterwards. */
async function runOnce({ client, args }: Runnable, request: RunRequest): Promise<SingleRun> {
  const { names, program, prompt, token, seconds, signal } = request;
  const home = mkdtempSync(join(tmpdir(), 'appscli-selfcheck-'));
  const pages = join(home, 'opened-pages');
  const opened = () => (existsSync(pages) ? hostsIn(readFileSync(pages, 'utf8')) : []);
  const enough = new AbortController();
  // A client that opens a browser waits for the user: stop it instead of waiting for the timeout.
  const watch = setInterval(() => {
    if (opened().length > 0) enough.abort();
  }, WATCH_MS);
  try {
    const folder = join(home, 'project');
    mkdirSync(folder);
    const variable = client === 'messages' ? `${names.messages.variable_prefix}_AUTH_TOKEN` : TOKEN_VARIABLE;
    writeFiles(client, variable, home, request);
    const env = environment(request.env, home, pages);
    const all = { folder, bytes_max: OUTPUT_BYTES_MAX };
    const about = await runProgram({
      ...all,
      command: { program, args: ['--version'] },
      env,
      seconds: VERSION_SECONDS,
    });
    const end = await runProgram({
      ...all,
      command: { program, args: args(prompt) },
      env: { ...env, [variable]: token },
      seconds,
      signal: AbortSignal.any([enough.signal, ...(signal === undefined ? [] : [signal])]),
    });
    return { ...end, opened: opened(), version: about.stdout.split('\n', 1)[0]!.trim() };
  } finally {
    clearInterval(watch);
    try {
      rmSync(home, { recursive: true, force: true, maxRetries: 3 });
    } catch {
      // A file may still be open; none contains the token.
    }
  }
}

function writeFiles(client: ClientKind, variable: string, home: string, { root_url, model, names }: RunRequest): void {
  const below = (path: string) => join(home, path.replace(/^~\//, '').replace(/^(?:[A-Za-z]:)?[\\/]+/, ''));
  const spec = {
    root_url,
    credential: { variable },
    telemetry: [],
    model,
    alias: client === 'build-cli' ? 'selfcheck' : undefined,
    display_name: 'selfcheck',
    context_window: client === 'messages' ? undefined : CONTEXT_WINDOW,
    tiers: Object.fromEntries(TIERS.map((tier) => [tier, model])),
  };
  const path = below(CLIENTS[client].files(names).file);
  const place = { path, platform: platformOf(process.platform), read: () => undefined };
  for (const { path, after } of planClient(client, spec, names, place).drafts) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, after, { mode: 0o600 });
  }
}

const BROWSERS = [
  ...['xdg-open', 'open', 'gio', 'gnome-open', 'kde-open', 'wslview', 'sensible-browser', 'x-www-browser'],
  ...['www-browser', 'firefox', 'chromium', 'google-chrome'],
];

/** Variables that clients inherit: network, certificates and language, but no user data. */
const KEPT = /^(?:PATH|LANG|LC_\w+|TZ|(?:https?|no|all)_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR)|SystemRoot)$/i;

function environment(env: NodeJS.ProcessEnv, home: string, pages: string): NodeJS.ProcessEnv {
  const kept = Object.fromEntries(Object.entries(env).filter(([name]) => KEPT.test(name)));
  const [programs, temporary] = [join(home, 'programs'), join(home, 'tmp')];
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

function classifyRun(
  run: SingleRun,
  { client, api, args }: Runnable,
  program: string,
  isExpected: (reply: string) => boolean,
  seconds: number,
): SelfCheckOutcome {
  const { ending, exit_code, opened, version, stdout, stderr } = run;
  const { path } = DEFINITIONS[api];
  const reply = printableLine(stdout.trim());
  const end = exit_code === undefined ? ending.replaceAll('_', ' ') : `exit code ${exit_code}`;
  const more = {
    sent: `${[basename(program), ...args('<prompt>')].map(printableWord).join(' ')}, in a temporary home directory`,
    came: `${end}, ${reply === '' ? 'no reply' : `the reply: ${shorten(reply)}`}`,
    details: [
      `${program}${version === '' ? '' : `, version ${shorten(version)}`}`,
      ...(exit_code === 0 ? [] : linesOf(stderr).map((line) => `output: ${shorten(line)}`)),
    ],
  };
  if (opened.length > 0)
    return failed(
      `it opened a browser at ${opened.join(' and ')} to sign in: it found no key, or the gateway rejected it`,
      `check that the gateway accepts this token for ${path}; appscli doctor ${client} checks the client's files`,
      more,
    );
  if (ending === 'no_start') return skipped(`cannot start ${program}`, more);
  if (ending === 'too_late')
    return failed(
      `no reply within ${seconds} seconds`,
      'see the checks of streams and errors; clients retry for minutes before they report an error',
      more,
    );
  if (ending !== 'exit' || exit_code !== 0) {
    const how = ending === 'exit' ? `exit code ${exit_code}` : 'it was stopped, or printed endlessly,';
    const remedy = 'see its last lines; update an old client, which may not know the options for a run without tools';
    return failed(`${how} and no reply`, remedy, more);
  }
  if (isExpected(stdout)) return ok('it replied as requested, and opened no browser', more);
  if (reply === '')
    return failed(
      'it exited without a reply',
      `check the response of ${path}: it may be empty, or lack its final event`,
      more,
    );
  return warning(
    `unexpected reply, no browser opened: ${shorten(reply)}`,
    'the model may have ignored the prompt: run it again, or with another --model',
    more,
  );
}

const SHOWN_MAX = 300;
const LINES_MAX = 4;

function linesOf(output: string): string[] {
  const lines = output.split('\n').map((line) => printableLine(line).trim());
  return [...new Set(lines.filter((line) => line !== ''))].slice(-LINES_MAX);
}

function shorten(text: string): string {
  const line = printableLine(text);
  return line.length <= SHOWN_MAX ? line : `${line.slice(0, SHOWN_MAX - 1)}…`;
}
