import type { GatewayConfig } from '../config.ts';
import { didYouMean, listed } from '../diagnostics/suggest.ts';
import { StartError } from '../services/start-error.ts';
import { createToken, listTokens, revokeToken, TokenError, type TokenSummary } from '../services/tokens.ts';
import { EXIT_FINDINGS, EXIT_OK, EXIT_USAGE } from './exit-codes.ts';
import type { CommandContext } from './program.ts';
import { type Column, formatTable, withoutEmptyColumns } from './table.ts';
import { withDatabase } from './with-database.ts';

/** The one group there is when gateway.yaml has no `token_groups`. */
const IMPLICIT_GROUP = 'all';

/** `appscli tokens create`: prints a new access token, alone on standard output. */
export async function create(
  context: CommandContext,
  given: {
    readonly config: string;
    readonly user: string;
    readonly group: string;
    readonly name: string;
    readonly team?: string;
    readonly project?: string;
    readonly expires?: Date;
    readonly json?: true;
  },
): Promise<number> {
  const { terminal } = context;
  const { user, group, name, team, project, expires } = given;
  const made = await withDatabase(context, given.config, ({ config, database }) => {
    demandGroup(config, group);
    return createToken(database, { user, group, name, team, project, expires_at: expires }).catch(explainRefusal);
  });
  if (given.json) {
    const facts = { team: team ?? null, project: project ?? null, expires_at: expires ?? null };
    terminal.data(`${JSON.stringify({ ...made, user: user.toLowerCase(), group, name, ...facts })}\n`);
    return EXIT_OK;
  }
  const end = expires === undefined ? 'It does not expire' : `It expires on ${expires.toISOString()}`;
  terminal.words(`Access token ${made.id} for ${user}. ${end}, and is shown only this once:\n`);
  terminal.data(`${made.token}\n`);
  return EXIT_OK;
}

function demandGroup(config: GatewayConfig, group: string): void {
  const known = config.token_groups.length === 0 ? [IMPLICIT_GROUP] : config.token_groups.map(({ name }) => name);
  if (known.includes(group)) return;
  const hint = didYouMean(group, known, `gateway.yaml has ${listed(known)}`);
  throw new StartError(`there is no token group "${group}": ${hint}`, { exit_code: EXIT_USAGE });
}

function explainRefusal(error: unknown): never {
  if (error instanceof TokenError) throw new StartError(error.message, { exit_code: EXIT_USAGE });
  throw error;
}

/** `appscli tokens list`: what is known about all tokens, or those of one user. */
export async function list(
  context: CommandContext,
  given: { readonly config: string; readonly user?: string; readonly json?: true },
): Promise<number> {
  const { terminal } = context;
  const tokens = await withDatabase(context, given.config, ({ database }) =>
    listTokens(database, { user: given.user }),
  );
  const now = new Date();
  if (given.json) {
    terminal.data(
      `${JSON.stringify(
        tokens.map((token) => ({ ...token, state: stateOf(token, now) })),
        null,
        2,
      )}\n`,
    );
  } else if (tokens.length === 0) {
    terminal.words('There are no access tokens; "appscli tokens create --help" shows how to make one.\n');
  } else {
    terminal.data(`${describeTokens(tokens, now, terminal.columns).join('\n')}\n`);
  }
  return EXIT_OK;
}

function stateOf({ revoked_at, expires_at }: TokenSummary, now: Date): 'active' | 'revoked' | 'expired' {
  if (revoked_at !== null) return 'revoked';
  return expires_at !== null && expires_at <= now ? 'expired' : 'active';
}

const COLUMNS: readonly Column[] = [
  { title: 'ID', kind: 'word' },
  { title: 'USER', kind: 'text' },
  { title: 'NAME', kind: 'text' },
  { title: 'GROUP', kind: 'text' },
  { title: 'TEAM', kind: 'text' },
  { title: 'PROJECT', kind: 'text' },
  { title: 'LAST USED', kind: 'word' },
  { title: 'STATE', kind: 'word' },
];

function day(date: Date | null): string {
  return date === null ? '' : date.toISOString().slice(0, 10);
}

function shownState(token: TokenSummary, now: Date): string {
  const state = stateOf(token, now);
  return state === 'active' && token.expires_at !== null ? `until ${day(token.expires_at)}` : state;
}

function describeTokens(tokens: readonly TokenSummary[], now: Date, line_width: number): string[] {
  const cells = tokens.map((token) => [
    token.id,
    token.user,
    token.name,
    token.group,
    token.team ?? '',
    token.project ?? '',
    day(token.last_used_at),
    shownState(token, now),
  ]);
  const { columns, rows } = withoutEmptyColumns(COLUMNS, cells);
  return formatTable(columns, rows, line_width);
}

/** `appscli tokens revoke`: ends a token, named by its id or by user and name. Exits 1 when there is nothing to revoke. */
export async function revoke(
  context: CommandContext,
  id: string | undefined,
  given: { readonly config: string; readonly user?: string; readonly name?: string; readonly json?: true },
): Promise<number> {
  const { terminal } = context;
  const which = whichToken(id, given);
  const revoked = await withDatabase(context, given.config, ({ database }) =>
    revokeToken(database, which).catch((error: unknown) => {
      if (error instanceof TokenError) throw new StartError(error.message, { exit_code: EXIT_FINDINGS });
      throw error;
    }),
  );
  if (given.json) terminal.data(`${JSON.stringify({ ...revoked, state: 'revoked' })}\n`);
  else terminal.words(`Revoked ${revoked.id}: "${revoked.name}" of ${revoked.user}.\n`);
  return EXIT_OK;
}

function whichToken(id: string | undefined, { user, name }: { readonly user?: string; readonly name?: string }) {
  if (id !== undefined && user === undefined && name === undefined) return { id };
  if (id === undefined && user !== undefined && name !== undefined) return { user, name };
  throw new StartError('which token? Give its id, as "appscli tokens list" shows it, or both --user and --name', {
    exit_code: EXIT_USAGE,
  });
}
