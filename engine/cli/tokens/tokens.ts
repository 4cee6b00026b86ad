import type { Fetch } from '../../client/http.ts';
import { StartError } from '../../contract/start-error.ts';
import type { ShownToken } from '../../identity/tokens/shown-token.ts';
import type { WhichToken } from '../../identity/tokens/tokens.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { openAtGateway } from '../at-gateway.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK, EXIT_USAGE } from '../exit-codes.ts';
import { type Column, formatList, withoutEmptyColumns } from '../table.ts';
import { dayWords, momentWords, titleInZone } from '../times.ts';
import { withDatabase } from '../with-database.ts';
import { backendAtDatabase, backendAtGateway, type TokenBackend, type TokenWish } from './token-backend.ts';

/** Where a command works: at a running gateway when its address is given, else on the database of a configuration. */
export interface Place {
  readonly config: string;
  readonly baseUrl?: string;
}

async function withBackend<T>(
  context: CommandContext,
  { config, baseUrl }: Place,
  use: (backend: TokenBackend) => Promise<T>,
  fetch: Fetch | undefined,
): Promise<T> {
  if (baseUrl !== undefined) return use(backendAtGateway(await openAtGateway(context, baseUrl, fetch)));
  return withDatabase(context, config, (opened) => use(backendAtDatabase(opened.config, opened.database)));
}

/** `appscli tokens create`: prints a new access token, alone on standard output. */
export async function create(
  context: CommandContext,
  given: Place & TokenWish & { readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const made = await withBackend(context, given, (backend) => backend.create(given), fetch);
  if (given.json) {
    terminal.data(`${jsonText(made)}\n`);
    return EXIT_OK;
  }
  say(context, `Access token ${made.id} for ${made.user}. ${endOf(made)}, and is shown only this once:`);
  terminal.data(`${made.token}\n`);
  return EXIT_OK;
}

/** `appscli tokens list`: what is known about all tokens, or those of one user. */
export async function list(
  context: CommandContext,
  given: Place & { readonly user?: string; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const only = given.user === undefined ? {} : { user: given.user };
  const tokens = await withBackend(context, given, (backend) => backend.list(only), fetch);
  if (given.json) terminal.data(`${jsonText(tokens, 2)}\n`);
  else if (tokens.length === 0) {
    terminal.words('There are no access tokens; "appscli tokens create --help" shows how to make one.\n');
  } else {
    terminal.data(printableLines(describeTokens(tokens, terminal.table_columns)));
    if (tokens.some((token) => /^rest/.test(stateOf(token)))) {
      say(context, 'Tokens that rest are refused until their owner, who made them, signs in again: "appscli login".');
    }
  }
  return EXIT_OK;
}

/** `appscli tokens rotate`: prints a new access token that takes a token's place. */
export async function rotate(
  context: CommandContext,
  id: string | undefined,
  given: Place & {
    readonly user?: string;
    readonly name?: string;
    readonly overlap?: number;
    readonly expires?: Date;
    readonly json?: true;
  },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const which = whichToken(id, given);
  const made = await withBackend(context, given, (backend) => backend.rotate(which, given), fetch);
  if (given.json) {
    terminal.data(`${jsonText(made)}\n`);
    return EXIT_OK;
  }
  const { replaces } = made;
  const place = `Access token ${made.id} takes the place of ${replaces.id}, "${made.name}" of ${made.user}`;
  const old =
    replaces.state === 'replaced' && replaces.expires_at !== null
      ? `which works until ${momentWords(replaces.expires_at)}`
      : 'which has ended';
  say(context, `${place}, ${old}. ${endOf(made)}, and is shown only this once:`);
  terminal.data(`${made.token}\n`);
  return EXIT_OK;
}

/** `appscli tokens revoke`: ends a token, named by its id or by user and name. Exits 1 when there is nothing to revoke. */
export async function revoke(
  context: CommandContext,
  id: string | undefined,
  given: Place & { readonly user?: string; readonly name?: string; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const which = whichToken(id, given);
  const revoked = await withBackend(context, given, (backend) => backend.revoke(which), fetch);
  const also =
    revoked.also_revoked.length === 0 ? '' : `, and ${revoked.also_revoked.join(', ')}, which it had replaced`;
  if (given.json) terminal.data(`${jsonText(revoked)}\n`);
  else say(context, `Revoked ${revoked.id}: "${revoked.name}" of ${revoked.user}${also}.`);
  return EXIT_OK;
}

const WIDTH = 80;

function say({ terminal }: CommandContext, words: string): void {
  terminal.words(printableLines(wrapText(words, WIDTH)));
}

function endOf({ expires_at }: ShownToken): string {
  return expires_at === null ? 'It does not expire' : `It expires on ${momentWords(expires_at)}`;
}

function whichToken(
  id: string | undefined,
  { user, name, baseUrl }: { readonly user?: string; readonly name?: string; readonly baseUrl?: string },
): WhichToken | { readonly name: string } {
  if (id !== undefined && user === undefined && name === undefined) return { id };
  if (id === undefined && name !== undefined) {
    if (user !== undefined) return { user, name };
    if (baseUrl !== undefined) return { name };
  }
  throw new StartError('which token? Give its id, as "appscli tokens list" shows it, or both --user and --name', {
    exit_code: EXIT_USAGE,
  });
}

const columnsHere = (): Column[] => [
  { title: 'ID', kind: 'text' },
  { title: 'USER', kind: 'text' },
  { title: 'NAME', kind: 'text' },
  { title: 'GROUP', kind: 'text' },
  { title: 'TEAM', kind: 'text' },
  { title: 'PROJECT', kind: 'text' },
  { title: 'BY', kind: 'text' },
  { title: titleInZone('USED'), kind: 'text' },
  { title: 'STATE', kind: 'text' },
];

function describeTokens(tokens: readonly ShownToken[], line_width: number): string[] {
  const cells = tokens.map((token) => [
    token.id,
    token.user,
    token.name,
    token.group,
    token.team ?? '',
    token.project ?? '',
    makerOf(token),
    day(token.last_used_at),
    stateOf(token),
  ]);
  const { columns, rows } = withoutEmptyColumns(columnsHere(), cells);
  return formatList(columns, rows, line_width);
}

const WARN_MS = 7 * 86_400_000;

/** What somebody has to do something about comes before the end. */
function stateOf({ state, expires_at, suspends_at }: ShownToken): string {
  if (suspends_at !== null && suspends_at.getTime() < Date.now() + WARN_MS) return `rests ${day(suspends_at)}`;
  return state === 'active' && expires_at !== null ? `until ${day(expires_at)}` : state;
}

/** Nothing for the command line, which is the rule where nobody signs in: the column then goes away. */
function makerOf({ created_by, user }: ShownToken): string {
  if (created_by.startsWith('command')) return '';
  return created_by === user ? 'self' : created_by;
}

function day(date: Date | null): string {
  return date === null ? '' : dayWords(date);
}
