import { StartError } from '../../../base/contract/start-error.ts';
import { printableLines } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { chooseBaseUrl } from '../../client/base-url.ts';
import { type CredentialsFile, openCredentials } from '../../client/credentials.ts';
import { revokeCredentials } from '../../client/fresh-credentials.ts';
import { type Ask, createAsk } from '../../client/http.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK, EXIT_UNAVAILABLE } from '../exit-codes.ts';
import { option } from '../options.ts';
import { warner } from '../program-name.ts';
import type { Terminal } from '../terminal.ts';

const WIDTH = 80;

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

/** Ends a sign-in; returns whether the gateway has revoked it. */
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
    terminal.info(printableLines([`appscli: ${problem}`, ...wrapText(left, WIDTH)]));
  }
  return problem === undefined;
}

/** `appscli logout`. */
export const commands: readonly CommandRow[] = [
  {
    options: [option('--all', 'end your sign-ins at all gateways').conflicts('baseUrl')],
    place: 'gateway',
    notes: `Exits 69 if a gateway is unreachable: the sign-in is then removed only from this
machine.`,
    examples: ['appscli logout --base-url https://gateway.example.com', 'appscli logout --all'],
    run: logout,
  },
];
