import type { AdminApi, InJson } from '../../admin/operations.ts';
import type { Fetch } from '../../client/http.ts';
import { EXIT_UNAVAILABLE, StartError } from '../../contract/start-error.ts';
import type { ShownToken } from '../../identity/tokens/shown-token.ts';
import { isWellFormedToken } from '../../identity/tokens/token-format.ts';
import { nothingToDo, theOne } from '../../identity/tokens/tokens.ts';
import { allPages, type Location, withAdmin } from '../admin.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { say, showList, showResult, showSecret } from '../show.ts';
import { formatDay, formatMoment, titleInZone } from '../times.ts';

type Shown = InJson<ShownToken>;

/** What a command is given that names one token. */
export type WhichToken = Location & { readonly user?: string; readonly name?: string; readonly json?: true };

/** `appscli tokens create`: prints a new access token, alone on standard output. */
export async function create(
  context: CommandContext,
  given: WhichToken & {
    readonly name: string;
    readonly group?: string;
    readonly team?: string;
    readonly project?: string;
    readonly expires?: Date;
  },
  fetch?: Fetch,
): Promise<number> {
  const { user, group, name, team, project } = given;
  if (given.baseUrl === undefined && (user === undefined || group === undefined)) {
    throw usageError(
      'whose token, and which models may it use? Give --user and --group, or --base-url to make your own',
    );
  }
  const wish = { user, group, name, team, project, expires_at: given.expires?.toISOString() };
  const made = await withAdmin(context, given, (admin) => admin('createToken', wish), fetch);
  demandSecret(made);
  return showSecret(context, made, given.json, `Access token ${made.id} for ${made.user}. ${endOf(made)}`);
}

/** `appscli tokens list`: what is known about all tokens, or those of one user. */
export async function list(
  context: CommandContext,
  given: Location & { readonly user?: string; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const tokens = await withAdmin(context, given, (admin) => listOf(admin, given.user), fetch);
  showList(context, tokens, given.json, {
    none: 'There are no access tokens; "appscli tokens create --help" shows how to make one.',
    columns: ['ID', 'USER', 'NAME', 'GROUP', 'TEAM', 'PROJECT', 'BY', titleInZone('USED'), 'STATE'],
    cells: (token) => [
      token.id,
      token.user,
      token.name,
      token.group,
      token.team ?? '',
      token.project ?? '',
      makerOf(token),
      token.last_used_at === null ? '' : formatDay(token.last_used_at),
      stateOf(token),
    ],
  });
  if (!given.json && tokens.some((token) => /^suspended/.test(stateOf(token)))) {
    say(context, 'Suspended tokens are refused until their owner, who made them, signs in again with "appscli login".');
  }
  return 0;
}

/** `appscli tokens rotate`: prints a new access token that takes a token's place. */
export async function rotate(
  context: CommandContext,
  id: string | undefined,
  given: WhichToken & { readonly overlap?: number; readonly expires?: Date },
  fetch?: Fetch,
): Promise<number> {
  const rotation = { overlap_seconds: given.overlap, expires_at: given.expires?.toISOString() };
  demandOne(id, given);
  const made = await withAdmin(
    context,
    given,
    async (admin) => admin('rotateToken', { id: await idOf(admin, id, given), ...rotation }),
    fetch,
  );
  demandSecret(made);
  const { replaces } = made;
  const old =
    replaces.state === 'replaced' && replaces.expires_at !== null
      ? `which works until ${formatMoment(replaces.expires_at)}`
      : 'which has ended';
  const about = `Access token ${made.id} takes the place of ${replaces.id}, "${made.name}" of ${made.user}, ${old}`;
  return showSecret(context, made, given.json, `${about}. ${endOf(made)}`);
}

/** `appscli tokens revoke`: ends a token, named by its id or by user and name. Exits 1 when there is nothing to revoke. */
export async function revoke(
  context: CommandContext,
  id: string | undefined,
  given: WhichToken,
  fetch?: Fetch,
): Promise<number> {
  demandOne(id, given);
  const revoked = await withAdmin(
    context,
    given,
    async (admin) => admin('revokeToken', { id: await idOf(admin, id, given) }),
    fetch,
  );
  const { also_revoked } = revoked;
  const also = also_revoked.length === 0 ? '' : `, and ${also_revoked.join(', ')}, which it had replaced`;
  return showResult(context, revoked, given.json, () =>
    say(context, `Revoked ${revoked.id}: "${revoked.name}" of ${revoked.user}${also}.`),
  );
}

function listOf(admin: AdminApi, user: string | undefined): Promise<Shown[]> {
  return allPages(async (page) => {
    const { tokens, next } = await admin('listTokens', { user, ...page });
    return { entries: tokens, next };
  });
}

function demandOne(id: string | undefined, { user, name, baseUrl }: WhichToken): void {
  if (id !== undefined && user === undefined && name === undefined) return;
  if (id === undefined && name !== undefined && (user !== undefined || baseUrl !== undefined)) return;
  throw usageError('which token? Give its id, as "appscli tokens list" shows it, or both --user and --name');
}

/** The id of the one token that is meant; by name alone it is one of whoever signed in. */
async function idOf(admin: AdminApi, id: string | undefined, given: WhichToken): Promise<string> {
  if (id !== undefined) return id;
  const which = { user: given.user ?? (await admin('getMe', {})).email, name: given.name! };
  const named = (await listOf(admin, which.user)).filter(({ name }) => name === which.name).map(withDates);
  const token = theOne(which, named, Date.now());
  if (token === undefined) throw nothingToDo(which, named, Date.now());
  return token.id;
}

function withDates(token: Shown): ShownToken {
  const entries = Object.entries(token).map(([key, value]) => {
    return [key, key.endsWith('_at') && typeof value === 'string' ? new Date(value) : value];
  });
  return Object.fromEntries(entries) as ShownToken;
}

/** The token itself: a script that gets an empty one would go on with it. */
function demandSecret({ token }: { readonly token: string }): void {
  if (isWellFormedToken(token)) return;
  throw new StartError('the answer holds no access token; is it the address of a gateway?', {
    exit_code: EXIT_UNAVAILABLE,
  });
}

function endOf({ expires_at }: Shown): string {
  return expires_at === null ? 'It does not expire' : `It expires on ${formatMoment(expires_at)}`;
}

const WARN_MS = 7 * 86_400_000;

/** What somebody has to do something about comes before the end. */
function stateOf({ state, expires_at, suspends_at }: Shown): string {
  if (suspends_at !== null && Date.parse(suspends_at) < Date.now() + WARN_MS) {
    return `suspended from ${formatDay(suspends_at)}`;
  }
  return state === 'active' && expires_at !== null ? `until ${formatDay(expires_at)}` : state;
}

/** Nothing for the command line, which is the rule where nobody signs in: the column then goes away. */
function makerOf({ created_by, user }: Shown): string {
  if (created_by.startsWith('command')) return '';
  return created_by === user ? 'self' : created_by;
}
