import { InvalidArgumentError } from 'commander';
import { parseDuration } from '../../base/kit/times.ts';
import { SERVICE_SCOPES, type ShownServiceToken } from '../../domain/identity/tokens/service-tokens.ts';
import { MAX_OVERLAP_SECONDS, nothingToDo, type ShownToken, theOne } from '../../domain/identity/tokens/tokens.ts';
import type { AdminApi, InJson } from '../admin/operations.ts';
import { type AnswerOf, allEntries, type CommandOptions, listing, operation } from './admin.ts';
import { type CommandRow, collected, email, expiry, option, required, type Texts, usageError } from './commands.ts';
import { fields } from './gateway-admin.ts';
import { formatDay, formatMoment, titleInZone } from './output.ts';

type Shown = InJson<ShownToken>;

type WhichToken = Texts<'id' | 'user' | 'name'>;

interface Ending {
  readonly expires?: Date;
  readonly overlap?: number;
}

const endIn = ({ expires, overlap }: Ending) => ({
  expires_at: expires?.toISOString(),
  overlap_seconds: overlap,
});

const OVERLAP = 'how long the old token stays valid (default: 24h); 0 ends it at once';

function overlap(text: string): number {
  const seconds = text === '0' ? 0 : (parseDuration(text) ?? Number.NaN) / 1000;
  if (seconds >= 0 && seconds <= MAX_OVERLAP_SECONDS) return seconds;
  throw new InvalidArgumentError('Expected a duration such as 24h, 90m or 7d, up to 30d, or 0.');
}

function assertOneToken({ id, user, name, baseUrl }: CommandOptions<WhichToken>): void {
  if (id !== undefined && user === undefined && name === undefined) return;
  if (id === undefined && name !== undefined && (user !== undefined || baseUrl !== undefined)) return;
  throw usageError('no token: give an id from "appscli tokens list", or both --user and --name');
}

async function idOf(admin: AdminApi, options: WhichToken): Promise<string> {
  if (options.id !== undefined) return options.id;
  const user = options.user ?? (await admin('getMe', {})).email;
  const all = await allEntries<Shown>(admin, 'listTokens', 'tokens', { user });
  const found = all.filter(({ name }) => name === options.name).map(withDates);
  const named = `the name "${options.name}" of ${user}`;
  const token = theOne(named, found, Date.now());
  if (token === undefined) throw nothingToDo(named, found.at(-1), Date.now());
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

function stateOf({ state, expires_at, suspends_at }: Shown): string {
  if (suspends_at !== null && Date.parse(suspends_at) < Date.now() + WARN_MS) {
    return `suspended from ${formatDay(suspends_at)}`;
  }
  return state === 'active' && expires_at !== null ? `until ${formatDay(expires_at)}` : state;
}

/** Creator of a token; empty for the command line, so that the column disappears without an identity provider. */
function makerOf({ created_by, user }: Shown): string {
  if (created_by.startsWith('command')) return '';
  return created_by === user ? 'self' : created_by;
}

const BY_NAME = [
  option('--user <email>', 'instead of the id: its user, with --name', email),
  option('--name <name>', 'instead of the id: its name, with --user'),
];

export const tokens: readonly CommandRow[] = [
  operation<'createToken', WhichToken & Ending & { readonly group?: string }>('createToken', {
    name: 'create',
    about: 'create an access token and print it once',
    options: [
      ...fields('createToken', 'user', 'group', 'name', 'team', 'project'),
      option('--expires <when>', 'expiry: 30d, 12h or a date (default: none)', expiry),
    ],
    json: 'print a JSON object with the token and its attributes',
    examples: [
      'appscli tokens create --user alice@example.com --group all --name laptop',
      'TOKEN=$(appscli tokens create --user ci@example.com --group all --name ci)',
      'appscli tokens create --base-url https://gateway.example.com --name editor',
    ],
    check({ user, group, baseUrl }) {
      if (baseUrl !== undefined || (user !== undefined && group !== undefined)) return;
      throw usageError('no owner: use --user and --group, or --base-url to create your own token');
    },
    input: endIn,
    secret: (made) => `Access token ${made.id} for ${made.user}. ${endOf(made)}`,
  }),
  listing('listTokens', 'tokens', {
    name: 'list',
    about: 'list access tokens, without their secrets',
    options: fields('listTokens', 'user'),
    examples: ['appscli tokens list --user alice@example.com'],
    none: 'No access tokens; see "appscli tokens create --help".',
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
        ? 'Suspended tokens are rejected until their owner signs in again with "appscli login".'
        : undefined,
  }),
  operation<'rotateToken', WhichToken & Ending>('rotateToken', {
    name: 'rotate',
    about: 'replace an access token and print the new one; the old one stays valid for a while',
    arguments: [['[id]', 'id of the old token, see tokens list']],
    options: [
      ...BY_NAME,
      option('--overlap <time>', OVERLAP, overlap),
      option('--expires <when>', 'expiry of the new token: 30d, 12h or a date (default: as the old one)', expiry),
    ],
    json: 'print a JSON object with the token and the attributes of both',
    examples: [
      'appscli tokens rotate tok_1a2b3c4d --expires 90d',
      'appscli tokens rotate --user ci@example.com --name ci --overlap 0',
    ],
    check: assertOneToken,
    call: async (admin, options) => admin('rotateToken', { id: await idOf(admin, options), ...endIn(options) }),
    secret(made: AnswerOf<'rotateToken'>) {
      const { state, expires_at, id } = made.replaces;
      const old =
        state === 'replaced' && expires_at !== null ? `valid until ${formatMoment(expires_at)}` : 'now revoked';
      return `Access token ${made.id} replaces ${id} ("${made.name}" of ${made.user}, ${old}). ${endOf(made)}`;
    },
  }),
  operation<'revokeToken', WhichToken>('revokeToken', {
    name: 'revoke',
    about: 'revoke an access token and those it replaced; takes effect within a second',
    arguments: [['[id]', 'id of the token, see tokens list']],
    options: BY_NAME,
    examples: ['appscli tokens revoke tok_1a2b3c4d', 'appscli tokens revoke --user alice@example.com --name laptop'],
    check: assertOneToken,
    call: async (admin, options) => admin('revokeToken', { id: await idOf(admin, options) }),
    sentence({ id, name, user, also_revoked }) {
      const also = also_revoked.length === 0 ? '' : `, and ${also_revoked.join(', ')}, which it replaced`;
      return `Revoked ${id}: "${name}" of ${user}${also}.`;
    },
  }),
];

function made({ id, name, expires_at }: InJson<ShownServiceToken>): string {
  return `Service token ${id} for "${name}". It expires on ${formatMoment(expires_at)}, is only for the admin API`;
}

const day = (moment: string | null) => moment && formatDay(moment);
const TOKEN_JSON = 'print a JSON object with the token and its attributes';

export const serviceTokens: readonly CommandRow[] = [
  operation<'createServiceToken', Ending & { readonly scope: readonly string[] }>('createServiceToken', {
    name: 'create',
    about: 'create a service token and print it once',
    options: [
      required('--name <name>', 'program that uses it'),
      required('--scope <scope>', 'permission, see below; repeatable', collected),
      option('--expires <when>', 'expiry: 30d, 12h or a date (default: 90d, at most 366d)', expiry),
    ],
    json: TOKEN_JSON,
    notes: `Scopes: ${SERVICE_SCOPES.slice(0, 4).join(', ')},
${SERVICE_SCOPES.slice(4, 8).join(', ')},
${SERVICE_SCOPES.slice(8).join(', ')}.

The administrator who creates it owns it. If the owner stops being an
administrator, the token is suspended after 7 days, until another administrator
takes it over with "appscli service-tokens rotate".`,
    examples: [
      'appscli service-tokens create --name onboarding \\\n    --scope tokens:read --scope tokens:write',
      'appscli service-tokens create --base-url https://gateway.example.com \\\n    --name report --scope changes:read --expires 30d',
    ],
    input: (options) => ({ ...endIn(options), scopes: options.scope }),
    secret: made,
  }),
  listing('listServiceTokens', 'service_tokens', {
    name: 'list',
    about: 'list service tokens, without their secrets',
    examples: ['appscli service-tokens list'],
    none: 'No service tokens; see "appscli service-tokens create --help".',
    columns: [
      ['ID', ({ id }) => id],
      ['NAME', ({ name }) => name],
      ['SCOPES', ({ scopes }) => scopes.join(' ')],
      ['OWNER', ({ owner }) => owner],
      ['USED', ({ last_used_at }) => day(last_used_at)],
      [titleInZone('UNTIL'), ({ expires_at }) => day(expires_at)],
      ['STATE', ({ state }) => state],
    ],
  }),
  operation<'rotateServiceToken', Ending>('rotateServiceToken', {
    name: 'rotate',
    about: 'replace a service token, print the new one, and become its owner',
    arguments: [['<id>', 'id of the old token, see service-tokens list']],
    options: [
      option('--overlap <time>', OVERLAP, overlap),
      option('--expires <when>', 'expiry of the new token: 30d, 12h or a date (default: 90d)', expiry),
    ],
    json: TOKEN_JSON,
    examples: ['appscli service-tokens rotate svc_1a2b3c4d --overlap 0'],
    input: endIn,
    secret: made,
  }),
  operation<'revokeServiceToken', { readonly id: string }>('revokeServiceToken', {
    name: 'revoke',
    about: 'revoke a service token',
    arguments: [['<id>', 'id of the token, see service-tokens list']],
    examples: ['appscli service-tokens revoke svc_1a2b3c4d'],
    sentence: ({ name }, { id }) => `Revoked ${id}: "${name}".`,
  }),
];
