import type { Fetch } from '../../client/http.ts';
import { StartError } from '../../contract/start-error.ts';
import { deprovision, endSession } from '../../identity/deprovisioning/deprovision.ts';
import { createSessions, type SessionSummary } from '../../identity/sessions/sessions.ts';
import { serviceTokensOf } from '../../identity/tokens/service-tokens.ts';
import { systemClock } from '../../kit/clock.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import { counted } from '../amounts.ts';
import { type Answered, openAtGateway, textOf, timeOf } from '../at-gateway.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, EXIT_USAGE } from '../exit-codes.ts';
import { operator } from '../operator.ts';
import { type Column, formatList, withoutEmptyColumns } from '../table.ts';
import { dayWords, titleInZone } from '../times.ts';
import type { Place } from '../tokens/tokens.ts';
import { withDatabase } from '../with-database.ts';

const PATH = '/admin/api/sessions';
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
  given: Place & { readonly user?: string; readonly ended?: true; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const { user, ended = false } = given;
  const sessions =
    given.baseUrl === undefined
      ? await withDatabase(context, given.config, ({ database }) =>
          createSessions({ database, clock: systemClock }).list({ ...(user === undefined ? {} : { user }), ended }),
        )
      : (
          await (
            await openAtGateway(context, given.baseUrl, fetch)
          ).all(PATH, 'sessions', { user, ended: String(ended) })
        ).map(sessionOf);
  if (given.json) terminal.data(`${jsonText(sessions, 2)}\n`);
  else if (sessions.length === 0) terminal.words('Nobody is signed in.\n');
  else terminal.data(printableLines(describeSessions(sessions, terminal.table_columns)));
  return EXIT_OK;
}

/** `appscli sessions end`: ends a session, or all of somebody's. Exits 1 when there is none to end. */
export async function end(
  context: CommandContext,
  id: string | undefined,
  given: Place & { readonly user?: string; readonly withTokens?: true; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const { user } = given;
  if ((id === undefined) === (user === undefined) || (id !== undefined && given.withTokens)) {
    throw new StartError(
      'which session? Give its id, as "appscli sessions list" shows it, or --user for all of somebody',
      {
        exit_code: EXIT_USAGE,
      },
    );
  }
  const ended =
    given.baseUrl === undefined
      ? await endInDatabase(context, given.config, id, user, given.withTokens === true)
      : await endAtGateway(context, given.baseUrl, id, user, given.withTokens === true, fetch);
  if (given.json) terminal.data(`${jsonText(ended)}\n`);
  else if (id !== undefined) terminal.words(`Ended the session ${id}.\n`);
  else {
    const lost = `Ended of ${user}: ${counted(ended.sessions, 'session')}${tokensOf(ended, given)}.`;
    terminal.words(printableLines([lost, ...describeGoingOn(ended)]));
  }
  return EXIT_OK;
}

function endInDatabase(
  context: CommandContext,
  config: string,
  id: string | undefined,
  user: string | undefined,
  with_tokens: boolean,
): Promise<Ended> {
  return withDatabase(context, config, async ({ database }) => {
    const by = { database, clock: systemClock, actor: operator() };
    if (id !== undefined) {
      if (await endSession(by, { id, because: BECAUSE })) return { sessions: 1, tokens: 0 };
      throw nothingToEnd(`there is no session ${id} to end; "appscli sessions list" shows all`);
    }
    const tokens = with_tokens ? 'all' : 'none';
    const { known, ...ended } = await deprovision(by, { user: user!, actor: by.actor, because: BECAUSE, tokens });
    if (known) return with_tokens ? { ...ended, service_tokens: await serviceTokensOf(by, user!) } : ended;
    throw nothingToEnd(`${user} has never signed in here, nor had an access token; check the address`);
  });
}

async function endAtGateway(
  context: CommandContext,
  base_url: string,
  id: string | undefined,
  user: string | undefined,
  with_tokens: boolean,
  fetch: Fetch | undefined,
): Promise<Ended> {
  const gateway = await openAtGateway(context, base_url, fetch);
  if (id !== undefined) {
    await gateway.ask('DELETE', `${PATH}/${encodeURIComponent(id)}`);
    return { sessions: 1, tokens: 0 };
  }
  const me = await gateway.ask('GET', '/admin/api/me');
  if (with_tokens || (Array.isArray(me.roles) && me.roles.includes('admin'))) {
    const path = `/admin/api/people/${encodeURIComponent(user!)}/deprovision`;
    const ended = await gateway.ask('POST', path, { tokens: with_tokens ? 'all' : 'none', because: BECAUSE });
    const lost = { sessions: Number(ended.sessions), tokens: Number(ended.tokens) };
    if (!with_tokens) return lost;
    const kept: readonly Answered[] = Array.isArray(ended.service_tokens) ? ended.service_tokens : [];
    return { ...lost, service_tokens: kept.map(({ id, name }) => ({ id: textOf(id), name: textOf(name) })) };
  }
  const own = (await gateway.all(PATH, 'sessions', { user })).map((session) => ({
    id: textOf(session.id),
    current: session.current === true,
  }));
  // The one that asks goes last: what comes after it would be refused.
  own.sort((a, b) => Number(a.current) - Number(b.current));
  for (const session of own) await gateway.ask('DELETE', `${PATH}/${encodeURIComponent(session.id)}`);
  return { sessions: own.length, tokens: 0 };
}

function nothingToEnd(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_FINDINGS });
}

function tokensOf({ tokens }: Ended, { withTokens }: { readonly withTokens?: true }): string {
  return withTokens ? ` and ${counted(tokens, 'access token')}` : '';
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

/** A session as the admin API tells it. */
export function sessionOf(answer: Answered): SessionSummary {
  const { id, user, client, client_address, created_at, checked_at, expires_at, ...rest } = answer;
  const never = new Date(0);
  return {
    id: textOf(id),
    user: textOf(user),
    client: textOf(client),
    client_address: textOf(client_address),
    created_at: timeOf(created_at) ?? never,
    checked_at: timeOf(checked_at) ?? never,
    expires_at: timeOf(expires_at) ?? never,
    revoked_at: timeOf(rest.revoked_at),
    revoked_because: textOf(rest.revoked_because) || null,
    refused_at: timeOf(rest.refused_at),
    refused_from: textOf(rest.refused_from) || null,
  };
}

const columnsHere = (): Column[] => [
  { title: 'ID', kind: 'text' },
  { title: 'USER', kind: 'text' },
  { title: 'PROGRAM', kind: 'text' },
  { title: 'FROM', kind: 'text' },
  { title: 'SINCE', kind: 'text' },
  { title: titleInZone('UNTIL'), kind: 'text' },
  { title: 'ENDED', kind: 'text' },
  { title: 'TOKEN REFUSED', kind: 'text' },
];

function describeSessions(sessions: readonly SessionSummary[], line_width: number): string[] {
  const cells = sessions.map(({ id, user, client, client_address, created_at, expires_at, ...rest }) => [
    id,
    user,
    client,
    client_address,
    dayWords(created_at),
    dayWords(rest.revoked_at ?? expires_at),
    rest.revoked_at === null ? '' : (rest.revoked_because ?? 'ended'),
    rest.refused_at === null ? '' : `${dayWords(rest.refused_at)} from ${rest.refused_from}`,
  ]);
  const { columns, rows } = withoutEmptyColumns(columnsHere(), cells);
  return formatList(columns, rows, line_width);
}
