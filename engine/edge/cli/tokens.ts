import { InvalidArgumentError } from 'commander';
import { StartError } from '../../base/contract/start-error.ts';
import { parseDuration } from '../../base/kit/times.ts';
import { isWellFormedToken } from '../../domain/identity/tokens/token-format.ts';
import { MAX_OVERLAP_SECONDS, nothingToDo, type ShownToken, theOne } from '../../domain/identity/tokens/tokens.ts';
import type { AdminApi, InJson } from '../admin/operations.ts';
import { type AnswerOf, allEntries, type Given, listing, operation } from './admin.ts';
import type { CommandRow } from './commands.ts';
import { usageError } from './exit-codes.ts';
import { email, expiry, notEmpty, option, required } from './options.ts';
import { formatDay, formatMoment, titleInZone } from './times.ts';

type Shown = InJson<ShownToken>;

/** What a command is given that names one token: its id, or whose it is and what it is called. */
interface WhichToken {
  readonly id?: string;
  readonly user?: string;
  readonly name?: string;
}

/** When a token ends, and how long the one before it works on, in seconds. */
export interface Ending {
  readonly expires?: Date;
  readonly overlap?: number;
}

/** The same by the names of the admin API. */
export const endIn = ({ expires, overlap }: Ending) => ({
  expires_at: expires?.toISOString(),
  overlap_seconds: overlap,
});

/** What is said of the option. */
export const OVERLAP = 'how long the old one works on: 24h unless given, 0 for not at all';

/** How long two tokens live side by side, in seconds. */
export function overlap(text: string): number {
  const seconds = text === '0' ? 0 : (parseDuration(text) ?? Number.NaN) / 1000;
  if (seconds >= 0 && seconds <= MAX_OVERLAP_SECONDS) return seconds;
  throw new InvalidArgumentError('Write 24h, 90m or 7d, up to 30d, or 0 to end the old one at once.');
}

/** Raises StartError where there is no token: a script that gets an empty one would go on with it. */
export function secretOf(made: { readonly token: string }, isWellFormed: (token: string) => boolean, what: string) {
  if (isWellFormed(made.token)) return;
  throw new StartError(`the answer holds no ${what}; is it the address of a gateway?`);
}

function demandOwner({ user, group, baseUrl }: Given<WhichToken & { readonly group?: string }>): void {
  if (baseUrl !== undefined || (user !== undefined && group !== undefined)) return;
  throw usageError('whose token, and which models may it use? Give --user and --group, or --base-url to make your own');
}

function demandOne({ id, user, name, baseUrl }: Given<WhichToken>): void {
  if (id !== undefined && user === undefined && name === undefined) return;
  if (id === undefined && name !== undefined && (user !== undefined || baseUrl !== undefined)) return;
  throw usageError('which token? Give its id, as "appscli tokens list" shows it, or both --user and --name');
}

/** The id of the one token that is meant; by name alone it is one of whoever signed in. */
async function idOf(admin: AdminApi, given: WhichToken): Promise<string> {
  if (given.id !== undefined) return given.id;
  const which = { user: given.user ?? (await admin('getMe', {})).email, name: given.name! };
  const all = await allEntries<Shown>(admin, 'listTokens', 'tokens', { user: which.user });
  const named = all.filter(({ name }) => name === which.name).map(withDates);
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
  operation<'createToken', WhichToken & Ending & { readonly group?: string }>('createToken', {
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
    json: 'print a JSON object with the token and what is known about it',
    examples: [
      'appscli tokens create --user alice@example.com --group all --name laptop',
      'TOKEN=$(appscli tokens create --user ci@example.com --group all --name ci)',
      'appscli tokens create --base-url https://gateway.example.com --name editor',
    ],
    check: demandOwner,
    input: endIn,
    secret(made) {
      secretOf(made, isWellFormedToken, 'access token');
      return `Access token ${made.id} for ${made.user}. ${endOf(made)}`;
    },
  }),
  listing('listTokens', 'tokens', {
    name: 'list',
    about: 'all access tokens, without the tokens themselves',
    options: [option('--user <email>', 'only those of this user')],
    examples: ['appscli tokens list --user alice@example.com'],
    none: 'There are no access tokens; "appscli tokens create --help" shows how to make one.',
    columns: [
      ['ID', ({ id }) => id],
      ['USER', ({ user }) => user],
      ['NAME', ({ name }) => name],
      ['GROUP', ({ group }) => group],
      ['TEAM', ({ team }) => team],
      ['PROJECT', ({ project }) => project],
      ['BY', makerOf],
      [titleInZone('USED'), ({ last_used_at: at }) => at && formatDay(at)],
      ['STATE', stateOf],
    ],
    below: (tokens) =>
      tokens.some((token) => /^suspended/.test(stateOf(token)))
        ? 'Suspended tokens are refused until their owner, who made them, signs in again with "appscli login".'
        : undefined,
  }),
  operation<'rotateToken', WhichToken & Ending>('rotateToken', {
    name: 'rotate',
    about: "put a new access token in another's place and print it; the old one works on for a while",
    arguments: [['[id]', 'id of the old one, as tokens list shows it']],
    options: [
      ...BY_NAME,
      option('--overlap <time>', OVERLAP, overlap),
      option('--expires <when>', 'end of the new one: 30d, 12h or a date; else that of the old one', expiry),
    ],
    json: 'print a JSON object with the token and what is known about both',
    examples: [
      'appscli tokens rotate tok_1a2b3c4d --expires 90d',
      'appscli tokens rotate --user ci@example.com --name ci --overlap 0',
    ],
    check: demandOne,
    call: async (admin, given) => admin('rotateToken', { id: await idOf(admin, given), ...endIn(given) }),
    secret(made: AnswerOf<'rotateToken'>) {
      secretOf(made, isWellFormedToken, 'access token');
      const { state, expires_at, id } = made.replaces;
      const old =
        state === 'replaced' && expires_at !== null
          ? `which works until ${formatMoment(expires_at)}`
          : 'which has ended';
      return `Access token ${made.id} takes the place of ${id}, "${made.name}" of ${made.user}, ${old}. ${endOf(made)}`;
    },
  }),
  operation<'revokeToken', WhichToken>('revokeToken', {
    name: 'revoke',
    about: 'end the life of an access token and of those it replaced; gateways refuse them within a second',
    arguments: [['[id]', 'its id, as tokens list shows it']],
    options: BY_NAME,
    examples: ['appscli tokens revoke tok_1a2b3c4d', 'appscli tokens revoke --user alice@example.com --name laptop'],
    check: demandOne,
    call: async (admin, given) => admin('revokeToken', { id: await idOf(admin, given) }),
    sentence({ id, name, user, also_revoked }) {
      const also = also_revoked.length === 0 ? '' : `, and ${also_revoked.join(', ')}, which it had replaced`;
      return `Revoked ${id}: "${name}" of ${user}${also}.`;
    },
  }),
];
