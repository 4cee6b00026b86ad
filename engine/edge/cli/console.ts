import { systemClock } from '../../base/kit/clock.ts';
import { isLoopbackUrl } from '../../base/kit/net/addresses.ts';
import { issuerOf } from '../../domain/identity/provider/provider.ts';
import { endLinks, LINK_SECONDS, makeLink } from '../../domain/identity/sessions/console-sessions.ts';
import { type CommandContext, type CommandRow, configurationError, option } from './commands.ts';
import { counted, say, showResult } from './output.ts';
import { operator, withDatabase } from './with-database.ts';

const SIGNED_IN = 'Open this in a browser, and sign in with your company account:';
const LINKED =
  'Open this in a browser on this machine while the gateway runs. The link works once, within a minute, and gives administrator access:';

async function openConsole(
  context: CommandContext,
  options: { readonly config: string; readonly json?: true; readonly end?: true },
): Promise<number> {
  if (options.end) return endAll(context, options);
  const { url, expires_at } = await withDatabase(context, options.config, async ({ config, database }) => {
    const base = `${issuerOf(config)}/console`;
    if (config.auth?.oidc !== undefined) return { url: base, expires_at: null };
    if (!isLoopbackUrl(config.server.public_url)) {
      throw configurationError(
        'without an identity provider the console is available only on the gateway host: set auth.oidc, or a server.public_url such as http://127.0.0.1:8080',
      );
    }
    const secret = await makeLink({ database, clock: systemClock }, operator().name);
    const until = new Date(systemClock.now() + LINK_SECONDS * 1000);
    return { url: `${base}/link?once=${secret}`, expires_at: until.toISOString() };
  });
  return showResult(context, { url, expires_at }, options.json, () => {
    say(context, expires_at === null ? SIGNED_IN : LINKED);
    context.terminal.data(`${url}\n`);
  });
}

async function endAll(
  context: CommandContext,
  options: { readonly config: string; readonly json?: true },
): Promise<number> {
  const sessions = await withDatabase(context, options.config, ({ database }) => endLinks(database));
  return showResult(context, { sessions }, options.json, () => {
    say(context, `Ended ${counted(sessions, 'console session')} of one-time links.`);
  });
}

export const commands: readonly CommandRow[] = [
  {
    options: [option('--end', 'end all console sessions of one-time links, and unused links')],
    place: 'configuration',
    json: 'print a JSON object: url and expires_at; with --end the number of ended sessions',
    notes: `With an identity provider this prints the console's address. Otherwise it prints
a one-time link with administrator access, valid for a minute in a browser on
the gateway host.`,
    examples: ['appscli console', 'appscli console --config gateway.yaml --json', 'appscli console --end'],
    run: openConsole,
  },
];
