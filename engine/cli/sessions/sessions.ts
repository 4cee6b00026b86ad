import type { AdminApi } from '../../admin/operations.ts';
import type { Fetch } from '../../client/http.ts';
import { printableLines } from '../../kit/text/printable.ts';
import { allPages, type Location, withAdmin } from '../admin.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { showList, showResult } from '../show.ts';
import { formatDay, titleInZone } from '../times.ts';

const BECAUSE = 'ended at the command line';

/** What was ended. */
interface Ended {
  readonly sessions: number;
  readonly tokens: number;
  /** Those that go on, of a person who lost everything else. */
  readonly service_tokens?: readonly { readonly id: string; readonly name: string }[];
}

/** `appscli sessions list`: who is signed in, from where and until when. */
export async function list(
  context: CommandContext,
  given: Location & { readonly user?: string; readonly ended?: true; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { user, ended } = given;
  const sessions = await withAdmin(context, given, (admin) => sessionsOf(admin, user, ended), fetch);
  return showList(context, sessions, given.json, {
    none: 'Nobody is signed in.',
    columns: ['ID', 'USER', 'PROGRAM', 'FROM', 'SINCE', titleInZone('UNTIL'), 'ENDED', 'TOKEN REFUSED'],
    cells: ({ id, user, client, client_address, created_at, expires_at, ...rest }) => [
      id,
      user,
      client,
      client_address,
      formatDay(created_at),
      formatDay(rest.revoked_at ?? expires_at),
      rest.revoked_at === null ? '' : (rest.revoked_because ?? 'ended'),
      rest.refused_at === null ? '' : `${formatDay(rest.refused_at)} from ${rest.refused_from}`,
    ],
  });
}

/** Sessions, the newest first, of one person where one is named. */
export function sessionsOf(admin: AdminApi, user: string | undefined, ended: boolean | undefined) {
  return allPages(async (page) => {
    const { sessions, next } = await admin('listSessions', { user, ended: ended ? 'true' : 'false', ...page });
    return { entries: sessions, next };
  });
}

/** `appscli sessions end`: ends a session, or all of somebody's. Exits 1 when there is none to end. */
export async function end(
  context: CommandContext,
  id: string | undefined,
  given: Location & { readonly user?: string; readonly withTokens?: true; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const { user, withTokens = false } = given;
  if ((id === undefined) === (user === undefined) || (id !== undefined && withTokens)) {
    throw usageError('which session? Give its id, as "appscli sessions list" shows it, or --user for all of somebody');
  }
  const ended = await withAdmin(
    context,
    given,
    async (admin): Promise<Ended> => {
      if (id === undefined) return endAll(admin, user!, withTokens, given.baseUrl === undefined);
      await admin('endSession', { id });
      return { sessions: 1, tokens: 0 };
    },
    fetch,
  );
  return showResult(context, ended, given.json, () => {
    if (id !== undefined) return terminal.info(`Ended the session ${id}.\n`);
    const tokens = withTokens ? ` and ${counted(ended.tokens, 'access token')}` : '';
    const lost = `Ended of ${user}: ${counted(ended.sessions, 'session')}${tokens}.`;
    return terminal.info(printableLines([lost, ...describeGoingOn(ended)]));
  });
}

/** People who are no administrators end their own sessions one by one. */
async function endAll(admin: AdminApi, user: string, with_tokens: boolean, at_database: boolean): Promise<Ended> {
  if (at_database || with_tokens || (await admin('getMe', {})).roles.includes('admin')) {
    const tokens = with_tokens ? 'all' : 'none';
    const { service_tokens, ...ended } = await admin('deprovision', { email: user, tokens, because: BECAUSE });
    const lost = { sessions: ended.sessions, tokens: ended.tokens };
    return with_tokens ? { ...lost, service_tokens } : lost;
  }
  const own = await sessionsOf(admin, user, false);
  // The one that asks goes last: what comes after it would be refused.
  own.sort((a, b) => Number(a.current) - Number(b.current));
  for (const { id } of own) await admin('endSession', { id });
  return { sessions: own.length, tokens: 0 };
}

/** What whoever ended all that somebody had may take for ended as well. */
function describeGoingOn({ service_tokens = [] }: Ended): string[] {
  if (service_tokens.length === 0) return [];
  return [
    'Still in force are service tokens that they answer for, and may know:',
    ...service_tokens.map(({ id, name }) => `  ${id}  ${name}`),
    '"appscli service-tokens rotate ID" takes one over, "appscli service-tokens revoke ID" ends it.',
  ];
}
