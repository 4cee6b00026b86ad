import { StartError } from '../../base/contract/start-error.ts';
import { systemClock } from '../../base/kit/clock.ts';
import { jsonText, printable, printableLines } from '../../base/kit/text/printable.ts';
import type { DeviceCode } from '../client/answers.ts';
import { chooseBaseUrl } from '../client/base-url.ts';
import {
  type Credentials,
  type CredentialsFile,
  credentialsFrom,
  freshCredentials,
  openCredentials,
  revokeCredentials,
} from '../client/credentials.ts';
import { awaitApproval, discover, hasBrowser, openBrowser, requestDeviceCode } from '../client/device-sign-in.ts';
import { type Ask, createAsk } from '../client/http.ts';
import { type CommandContext, type CommandRow, EXIT_FINDINGS, EXIT_OK, EXIT_UNAVAILABLE, option } from './commands.ts';
import { paragraph } from './output.ts';
import { programName, type Terminal, warner } from './terminal.ts';

const NOTICE_INDENT = '  | ';
const NOTICE_LINES_MAX = 20;
const LONG_WORD = /\S{76}/g;

export function describeCode(
  code: DeviceCode,
  how: { readonly base_url: string; readonly opens: boolean; readonly bold: boolean },
): string {
  const { user_code, verification_uri_complete } = code;
  const page = how.opens ? 'Your browser opens this page; otherwise open it yourself:' : 'Open this page in a browser:';
  const is_entered = verification_uri_complete === undefined;
  return `Signing in at ${how.base_url}.
${describeNotice(code.login_notice)}
${page}

  ${pageOf(code)}

${is_entered ? 'Enter this code there:' : 'Continue only if the page shows this code:'}

  ${how.bold ? `\x1b[1m${user_code}\x1b[22m` : user_code}

`;
}

/** The gateway's notice, marked with a bar to distinguish it from this program's text. */
function describeNotice(notice = ''): string {
  if (notice.trim() === '') return '';
  const lines = printable(notice.trim().replace(/[^\S\n]+/g, ' '))
    .split('\n')
    .slice(0, NOTICE_LINES_MAX)
    .flatMap((line) => paragraph(line.replace(LONG_WORD, '$& '), NOTICE_INDENT));
  return `\nNotice of the gateway:\n\n${lines.map((line) => `${line.trimEnd()}\n`).join('')}`;
}

function signInProgress(terminal: Terminal) {
  let shown: string | undefined;
  return {
    show(left_seconds: number, problem = '') {
      const left = `${Math.floor(left_seconds / 60)}:${String(left_seconds % 60).padStart(2, '0')}`;
      const is_same = shown === problem;
      shown = problem;
      if (terminal.interactive) {
        const waiting = `Waiting for sign-in (${left} left, Ctrl-C stops)`;
        const line = problem === '' ? waiting : `Retrying (${left} left): ${problem}`;
        // Leave one column free: some terminals wrap when the last one is full.
        terminal.rewrite(line.slice(0, Math.max(terminal.columns, 20) - 1));
      } else if (!is_same) {
        const waiting = `Waiting for sign-in; the code is valid for ${left} minutes.\n`;
        terminal.info(problem === '' ? waiting : `Retrying: ${problem}\n`);
      }
    },
    end() {
      if (terminal.interactive && shown !== undefined) terminal.rewrite('');
    },
  };
}

/** `appscli login`: signs in at a gateway and stores the credentials. */
export async function login(
  { terminal, env, clock = systemClock }: CommandContext,
  options: { readonly baseUrl?: string | undefined; readonly browser: boolean; readonly json?: true },
  open: (url: string) => void = openBrowser,
): Promise<number> {
  const credentials = openCredentials(env, warner(terminal));
  const base_url = chooseBaseUrl(options.baseUrl, env, [...credentials.read().keys()]);
  await credentials.locked(async () => {});
  const ask = createAsk();
  const tokens = await untilInterrupted(async (signal) => {
    const endpoints = await discover(ask, base_url, signal);
    const code = await requestDeviceCode(ask, endpoints, base_url, signal);
    const opens = options.browser && terminal.interactive && hasBrowser(env, process.platform);
    terminal.info(describeCode(code, { base_url, opens, bold: terminal.info_color }));
    if (opens) open(pageOf(code));
    const progress = signInProgress(terminal);
    try {
      return await awaitApproval({ ask, clock, token_endpoint: endpoints.token, code, signal, onWait: progress.show });
    } finally {
      progress.end();
    }
  });
  const kept = credentialsFrom(tokens, clock.now());
  await keep(credentials, ask, base_url, kept);
  const { email, expires_at } = kept;
  if (options.json) terminal.data(`${jsonText({ base_url, email: email ?? null, expires_at })}\n`);
  else terminal.info(success(base_url, email, programName(terminal)));
  return EXIT_OK;
}

function pageOf({ verification_uri, verification_uri_complete }: DeviceCode): string {
  return verification_uri_complete ?? verification_uri;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

async function untilInterrupted<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const interrupt = () =>
    stop.abort(new StartError('sign-in cancelled; nothing changed', { exit_code: EXIT_FINDINGS }));
  for (const signal of SIGNALS) process.on(signal, interrupt);
  try {
    return await run(stop.signal);
  } finally {
    for (const signal of SIGNALS) process.off(signal, interrupt);
  }
}

async function keep(credentials: CredentialsFile, ask: Ask, base_url: string, kept: Credentials): Promise<void> {
  const replaced = await credentials.locked(async () => {
    const before = credentials.read().get(base_url);
    credentials.write(base_url, kept);
    return before;
  });
  // A failed revocation is harmless: the old sign-in expires.
  if (replaced !== undefined) await revokeCredentials(ask, base_url, replaced).catch(() => {});
}

function success(base_url: string, email: string | undefined, name: string): string {
  return `Signed in at ${base_url}${email === undefined ? '' : ` as ${email}`}.

  ${name} models   list your models, with prices
  ${name} client   set up a coding client
  ${name} token    print a valid token
  ${name} logout   end the sign-in
`;
}

/** `appscli token`: prints a valid token, alone on standard output. */
export async function token(
  { terminal, env, clock = systemClock }: CommandContext,
  options: { readonly baseUrl?: string | undefined; readonly json?: true; readonly headers?: true },
): Promise<number> {
  const credentials = openCredentials(env, warner(terminal));
  const base_url = chooseBaseUrl(options.baseUrl, env, [...credentials.read().keys()]);
  const { access_token, expires_at } = await freshCredentials({ credentials, ask: createAsk(), clock, base_url });
  const headers = options.headers && { Authorization: `Bearer ${access_token}` };
  const facts = headers ?? (options.json && { token: access_token, expires_at, base_url });
  terminal.data(`${facts === undefined ? access_token : jsonText(facts)}\n`);
  return EXIT_OK;
}

/** `appscli logout`: ends sign-ins. Exits 69 if the gateway could not revoke one. */
export async function logout(
  { terminal, env }: CommandContext,
  options: { readonly baseUrl?: string | undefined; readonly all?: true },
): Promise<number> {
  const credentials = openCredentials(env, warner(terminal));
  const known = [...credentials.read().keys()];
  if (known.length === 0 && options.baseUrl === undefined) {
    terminal.info('You are not signed in anywhere.\n');
    return EXIT_OK;
  }
  const chosen = options.all ? known : [chooseBaseUrl(options.baseUrl, env, known)];
  const ask = createAsk();
  let exit_code = EXIT_OK;
  for (const base_url of chosen) {
    const ended = await credentials.locked(() => end(credentials, ask, base_url, terminal));
    if (!ended) exit_code = EXIT_UNAVAILABLE;
  }
  return exit_code;
}

async function end(credentials: CredentialsFile, ask: Ask, base_url: string, terminal: Terminal): Promise<boolean> {
  const stored = credentials.read().get(base_url);
  if (stored === undefined) {
    terminal.info(`You are not signed in at ${base_url}.\n`);
    return true;
  }
  let problem: string | undefined;
  try {
    await revokeCredentials(ask, base_url, stored);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    problem = error.message;
  }
  credentials.write(base_url, undefined);
  if (problem === undefined) terminal.info(`Signed out of ${base_url}.\n`);
  else {
    const left = `Removed the sign-in at ${base_url} from this machine, but the gateway could not revoke it: it stays valid until it expires, or until "appscli sessions end".`;
    terminal.info(printableLines([`appscli: ${problem}`, ...paragraph(left)]));
  }
  return problem === undefined;
}

export const SIGN_IN_COMMANDS = {
  login: {
    options: [option('--no-browser', 'only print the address of the sign-in page')],
    place: 'gateway',
    json: 'print a JSON object: base_url, email, expires_at',
    notes: `Prints a code and opens a page of the gateway, where you sign in with your
company account. Stores credentials in $APPSCLI_CREDENTIALS, or in
appscli/credentials.json below $XDG_CONFIG_HOME (~/.config), readable only by
you. Exits 1 if the sign-in is denied, times out or is stopped, 69 if the
gateway is unreachable.`,
    examples: [
      'appscli login --base-url https://gateway.example.com',
      'appscli login --no-browser          on a machine without a browser',
    ],
    run: login,
  },
  token: {
    options: [option('--headers', 'print a JSON object with the Authorization header').conflicts('json')],
    place: 'gateway',
    json: 'print a JSON object: token, expires_at, base_url',
    notes: `Renews the token if it expires soon; concurrent calls renew it once. Exits 1 if
you have to sign in again, 69 if it has expired and the gateway is unreachable.`,
    examples: [
      'appscli token --base-url https://gateway.example.com',
      'curl -H "Authorization: Bearer $(appscli token)" $APPSCLI_BASE_URL/v1/models',
    ],
    run: token,
  },
  logout: {
    options: [option('--all', 'end your sign-ins at all gateways').conflicts('baseUrl')],
    place: 'gateway',
    notes: `Exits 69 if a gateway is unreachable: the sign-in is then removed only from this
machine.`,
    examples: ['appscli logout --base-url https://gateway.example.com', 'appscli logout --all'],
    run: logout,
  },
} satisfies Readonly<Record<string, CommandRow>>;
