import { systemClock } from '../../base/kit/clock.ts';
import { isLoopbackUrl } from '../../base/kit/net/addresses.ts';
import { issuerOf } from '../../domain/identity/provider/provider.ts';
import { endLinks, LINK_SECONDS, makeLink } from '../../domain/identity/sessions/console-sessions.ts';
import { counted } from './amounts.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { configurationError } from './exit-codes.ts';
import { option } from './options.ts';
import { say, showResult } from './show.ts';
import { operator, withDatabase } from './with-database.ts';

const SIGNED_IN = 'Open this in a browser, and sign in with the account you have at work:';
const LINKED =
  'Open this in a browser on this machine, while the gateway runs. The link is good once, for a minute, and whoever uses it is an administrator:';

/** `appscli console`: prints the console's address, or a link that opens it where nobody can sign in. */
async function openConsole(
  context: CommandContext,
  given: { readonly config: string; readonly json?: true; readonly end?: true },
): Promise<number> {
  if (given.end) return endAll(context, given);
  const { url, expires_at } = await withDatabase(context, given.config, async ({ config, database }) => {
    const base = `${issuerOf(config)}/console`;
    if (config.auth?.oidc !== undefined) return { url: base, expires_at: null };
    if (!isLoopbackUrl(config.server.public_url)) {
      throw configurationError(
        'without an identity provider the console opens on the machine of the gateway only: set auth.oidc, so that people can sign in, or a server.public_url such as http://127.0.0.1:8080',
      );
    }
    const secret = await makeLink({ database, clock: systemClock }, operator().name);
    const until = new Date(systemClock.now() + LINK_SECONDS * 1000);
    return { url: `${base}/link?once=${secret}`, expires_at: until.toISOString() };
  });
  return showResult(context, { url, expires_at }, given.json, () => {
    say(context, expires_at === null ? SIGNED_IN : LINKED);
    context.terminal.data(`${url}\n`);
  });
}

async function endAll(
  context: CommandContext,
  given: { readonly config: string; readonly json?: true },
): Promise<number> {
  const sessions = await withDatabase(context, given.config, ({ database }) => endLinks(database));
  return showResult(context, { sessions }, given.json, () => {
    say(context, `Ended ${counted(sessions, 'session')} of the console that links had opened.`);
  });
}

/** `appscli console`. */
export const commands: readonly CommandRow[] = [
  {
    options: [option('--end', 'instead: end all sessions that links have opened, and links that were not used')],
    place: 'configuration',
    json: 'print a JSON object: url, and until when it is good; with --end how many sessions ended',
    notes: `Where people sign in with an identity provider, this is the same address for
everybody. Otherwise it is a link that opens the console for an administrator:
once, within a minute, in a browser on the machine of the gateway.`,
    examples: ['appscli console', 'appscli console --config gateway.yaml --json', 'appscli console --end'],
    run: openConsole,
  },
];
