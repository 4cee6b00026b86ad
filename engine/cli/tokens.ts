import { InvalidArgumentError } from 'commander';
import type { AdminApi, InJson } from '../admin/operations.ts';
import { EXIT_UNAVAILABLE, StartError } from '../contract/start-error.ts';
import { isWellFormedToken } from '../identity/tokens/token-format.ts';
import { nothingToDo, type ShownToken, theOne } from '../identity/tokens/tokens.ts';

import { parseDuration } from '../kit/times.ts';
import { administering, allPages, type Location } from './admin.ts';
import type { CommandRow } from './commands.ts';
import { usageError } from './exit-codes.ts';
import { email, expiry, notEmpty, option, required } from './options.ts';
import { say, showList, showResult, showSecret } from './show.ts';
import { formatDay, formatMoment, titleInZone } from './times.ts';

type Shown = InJson<ShownToken>;

/** What a command is given that names one token: its id, or whose it is and what it is called. */
type WhichToken = Location & {
  readonly id?: string;
  readonly user?: string;
  readonly name?: string;
  readonly json?: true;
};

const MAX_OVERLAP_SECONDS = 30 * 86_400;

/** How long two tokens live side by side, in seconds. */
export function overlap(text: string): number {
  const seconds = text === '0' ? 0 : (parseDuration(text) ?? Number.NaN) / 1000;
  if (seconds >= 0 && seconds <= MAX_OVERLAP_SECONDS) return seconds;
  throw new InvalidArgumentError('Write 24h, 90m or 7d, up to 30d, or 0 to end the old one at once.');
}

/** The token itself: a script that gets an empty one would go on with it. Raises StartError. */
export function demandSecret(is_well_formed: boolean, what: string): void {
  if (is_well_formed) return;
  throw new StartError(`the answer holds no ${what}; is it the address of a gateway?`, { exit_code: EXIT_UNAVAILABLE });
}

function listOf(admin: AdminApi, user: string | undefined): Promise<Shown[]> {
  return allPages(async (page) => {
    const { tokens, next } = await admin('listTokens', { user, ...page });
    return { entries: tokens, next };
  });
}

function demandOwner({ user, group, baseUrl }: WhichToken & { readonly group?: string }): void {
  if (baseUrl !== undefined || (user !== undefined && group !== undefined)) return;
  throw usageError('whose token, and which models may it use? Give --user and --group, or --base-url to make your own');
}

function demandOne({ id, user, name, baseUrl }: WhichToken): void {
  if (id !== undefined && user === undefined && name === undefined) return;
  if (id === undefined && name !== undefined && (user !== undefined || baseUrl !== undefined)) return;
  throw usageError('which token? Give its id, as "appscli tokens list" shows it, or both --user and --name');
}

/** The id of the one token that is meant; by name alone it is one of whoever signed in. */
async function idOf(admin: AdminApi, given: WhichToken): Promise<string> {
  if (given.id !== undefined) return given.id;
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

const BY_NAME = [
  option('--user <email>', 'instead of the id: whose it is, together with --name', email),
  option('--name <name>', 'instead of the id: what it is called, together with --user', notEmpty),
];

/** `appscli tokens`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'create',
    about: 'make an access token and print it; it is shown only this once',
    options: [
      option('--user <email>', 'whose requests it makes; you, with --base-url', email),
      option('--group <name>', 'token group: which models it may use; yours, with --base-url', notEmpty),
      required('--name <name>', 'what it is for, such as the device it lives on', notEmpty),
      option('--team <name>', 'team whose budget its requests share', notEmpty),
      option('--project <name>', 'project its requests are counted under', notEmpty),
      option('--expires <when>', 'end of its life: 30d, 12h or a date; without it, none', expiry),
    ],
    place: 'either',
    json: 'print a JSON object with the token and what is known about it',
    examples: [
      'appscli tokens create --user alice@example.com --group all --name laptop',
      'TOKEN=$(appscli tokens create --user ci@example.com --group all --name ci)',
      'appscli tokens create --base-url https://gateway.example.com --name editor',
    ],
    run: administering(
      async (
        admin,
        given: WhichToken & {
          readonly name: string;
          readonly group?: string;
          readonly team?: string;
          readonly project?: string;
          readonly expires?: Date;
        },
      ) => {
        const { user, group, name, team, project, expires } = given;
        return admin('createToken', { user, group, name, team, project, expires_at: expires?.toISOString() });
      },
      (context, made, { json }) => {
        demandSecret(isWellFormedToken(made.token), 'access token');
        return showSecret(context, made, json, `Access token ${made.id} for ${made.user}. ${endOf(made)}`);
      },
      demandOwner,
    ),
  },
  {
    name: 'list',
    about: 'all access tokens, without the tokens themselves',
    options: [option('--user <email>', 'only those of this user')],
    place: 'either',
    json: 'print a JSON array',
    examples: ['appscli tokens list --user alice@example.com'],
    run: administering(
      (admin, { user }: Location & { readonly user?: string; readonly json?: true }) => listOf(admin, user),
      (context, tokens, { json }) => {
        showList(context, tokens, json, {
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
        if (!json && tokens.some((token) => /^suspended/.test(stateOf(token)))) {
          say(
            context,
            'Suspended tokens are refused until their owner, who made them, signs in again with "appscli login".',
          );
        }
        return 0;
      },
    ),
  },
  {
    name: 'rotate',
    about: "put a new access token in another's place and print it; the old one works on for a while",
    arguments: [['[id]', 'id of the old one, as tokens list shows it']],
    options: [
      ...BY_NAME,
      option('--overlap <time>', 'how long the old one works on: 24h unless given, 0 for not at all', overlap),
      option('--expires <when>', 'end of the new one: 30d, 12h or a date; else that of the old one', expiry),
    ],
    place: 'either',
    json: 'print a JSON object with the token and what is known about both',
    examples: [
      'appscli tokens rotate tok_1a2b3c4d --expires 90d',
      'appscli tokens rotate --user ci@example.com --name ci --overlap 0',
    ],
    run: administering(
      async (admin, given: WhichToken & { readonly overlap?: number; readonly expires?: Date }) => {
        const rotation = { overlap_seconds: given.overlap, expires_at: given.expires?.toISOString() };
        return admin('rotateToken', { id: await idOf(admin, given), ...rotation });
      },
      (context, made, { json }) => {
        demandSecret(isWellFormedToken(made.token), 'access token');
        const { replaces } = made;
        const old =
          replaces.state === 'replaced' && replaces.expires_at !== null
            ? `which works until ${formatMoment(replaces.expires_at)}`
            : 'which has ended';
        const about = `Access token ${made.id} takes the place of ${replaces.id}, "${made.name}" of ${made.user}, ${old}`;
        return showSecret(context, made, json, `${about}. ${endOf(made)}`);
      },
      demandOne,
    ),
  },
  {
    name: 'revoke',
    about: 'end the life of an access token and of those it replaced; gateways refuse them within a second',
    arguments: [['[id]', 'its id, as tokens list shows it']],
    options: BY_NAME,
    place: 'either',
    json: 'print a JSON object',
    examples: ['appscli tokens revoke tok_1a2b3c4d', 'appscli tokens revoke --user alice@example.com --name laptop'],
    run: administering(
      async (admin, given: WhichToken) => admin('revokeToken', { id: await idOf(admin, given) }),
      (context, revoked, { json }) => {
        const { also_revoked } = revoked;
        const also = also_revoked.length === 0 ? '' : `, and ${also_revoked.join(', ')}, which it had replaced`;
        return showResult(context, revoked, json, () =>
          say(context, `Revoked ${revoked.id}: "${revoked.name}" of ${revoked.user}${also}.`),
        );
      },
      demandOne,
    ),
  },
];
