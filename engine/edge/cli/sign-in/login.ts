import { StartError } from '../../../base/contract/start-error.ts';
import { systemClock } from '../../../base/kit/clock.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import type { DeviceCode } from '../../client/answers.ts';
import { chooseBaseUrl } from '../../client/base-url.ts';
import { type Credentials, type CredentialsFile, credentialsFrom, openCredentials } from '../../client/credentials.ts';
import { awaitApproval, discover, hasBrowser, openBrowser, requestDeviceCode } from '../../client/device-sign-in.ts';
import { revokeCredentials } from '../../client/fresh-credentials.ts';
import { type Ask, createAsk } from '../../client/http.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK } from '../exit-codes.ts';
import { option } from '../options.ts';
import { programName, warner } from '../program-name.ts';
import { describeCode, signInProgress } from './format-sign-in.ts';

/** `appscli login`: signs in at a gateway and stores the credentials. */
export async function login(
  { terminal, env, clock = systemClock }: CommandContext,
  options: { readonly baseUrl?: string | undefined; readonly browser: boolean; readonly json?: true },
  open: (url: string) => void = openBrowser,
): Promise<number> {
  const credentials = openCredentials(env, warner(terminal));
  const base_url = chooseBaseUrl(options.baseUrl, env, [...credentials.read().keys()]);
  // Check first that the credentials can be stored.
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

async function untilInterrupted<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const interrupt = () => stop.abort(new StartError('stopped; you are not signed in', { exit_code: EXIT_FINDINGS }));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt);
  try {
    return await run(stop.signal);
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(signal, interrupt);
  }
}

/** Stores the new credentials, and revokes the replaced ones. */
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

/** `appscli login`. */
export const commands: readonly CommandRow[] = [
  {
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
];
