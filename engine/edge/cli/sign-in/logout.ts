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

/** `appscli logout`: ends sign-ins. Exits 69 when one could only be forgotten here. */
export async function logout(
  { terminal, env }: CommandContext,
  given: { readonly baseUrl?: string | undefined; readonly all?: true },
): Promise<number> {
  const credentials = openCredentials(env, warner(terminal));
  const known = [...credentials.read().keys()];
  if (known.length === 0 && given.baseUrl === undefined) {
    terminal.info('You are not signed in anywhere.\n');
    return EXIT_OK;
  }
  const chosen = given.all ? known : [chooseBaseUrl(given.baseUrl, env, known)];
  const ask = createAsk();
  let exit_code = EXIT_OK;
  for (const base_url of chosen) {
    const ended = await credentials.locked(() => end(credentials, ask, base_url, terminal));
    if (!ended) exit_code = EXIT_UNAVAILABLE;
  }
  return exit_code;
}

/** Whether the gateway knows that the sign-in has ended. */
async function end(credentials: CredentialsFile, ask: Ask, base_url: string, terminal: Terminal): Promise<boolean> {
  const held = credentials.read().get(base_url);
  if (held === undefined) {
    terminal.info(`You are not signed in at ${base_url}.\n`);
    return true;
  }
  let trouble: string | undefined;
  try {
    await revokeCredentials(ask, base_url, held);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    trouble = error.message;
  }
  credentials.write(base_url, undefined);
  if (trouble === undefined) terminal.info(`Signed out at ${base_url}.\n`);
  else {
    const left = `The sign-in at ${base_url} is forgotten on this machine, but the gateway was not told: it lives on until it expires, or "appscli sessions end" ends it.`;
    terminal.info(printableLines([`appscli: ${trouble}`, ...wrapText(left, WIDTH)]));
  }
  return trouble === undefined;
}

/** `appscli logout`. */
export const commands: readonly CommandRow[] = [
  {
    options: [option('--all', 'at every gateway you are signed in at').conflicts('baseUrl')],
    place: 'gateway',
    notes: `Exits 69 when a gateway can't be reached: the sign-in is then forgotten on this
machine only.`,
    examples: ['appscli logout --base-url https://gateway.example.com', 'appscli logout --all'],
    run: logout,
  },
];
