import { SERVICE_SCOPES, type ShownServiceToken } from '../../domain/identity/tokens/service-tokens.ts';
import { isWellFormedServiceToken } from '../../domain/identity/tokens/token-format.ts';
import type { InJson } from '../admin/operations.ts';
import { listing, operation } from './admin.ts';
import { type CommandRow, collected, expiry, notEmpty, option, required } from './commands.ts';
import { formatDay, formatMoment, titleInZone } from './output.ts';
import { type Ending, endIn, OVERLAP, overlap, secretOf } from './tokens.ts';

function made(token: InJson<ShownServiceToken> & { readonly token: string }): string {
  secretOf(token, isWellFormedServiceToken, 'service token');
  const { id, name, expires_at } = token;
  return `Service token ${id} for "${name}". It expires on ${formatMoment(expires_at)}, is only for the admin API`;
}

const day = (moment: string | null) => moment && formatDay(moment);
const TOKEN_JSON = 'print a JSON object with the token and its attributes';

export const commands: readonly CommandRow[] = [
  operation<'createServiceToken', Ending & { readonly scope: readonly string[] }>('createServiceToken', {
    name: 'create',
    about: 'create a service token and print it once',
    options: [
      required('--name <name>', 'program that uses it', notEmpty),
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
