import { SERVICE_SCOPES, type ShownServiceToken } from '../../domain/identity/tokens/service-tokens.ts';
import { isWellFormedServiceToken } from '../../domain/identity/tokens/token-format.ts';
import type { InJson } from '../admin/operations.ts';
import { listing, operation } from './admin.ts';
import type { CommandRow } from './commands.ts';
import { collected, expiry, notEmpty, option, required } from './options.ts';
import { formatDay, formatMoment, titleInZone } from './times.ts';
import { type Ending, endIn, OVERLAP, overlap, secretOf } from './tokens.ts';

function made(token: InJson<ShownServiceToken> & { readonly token: string }): string {
  secretOf(token, isWellFormedServiceToken, 'service token');
  const { id, name, expires_at } = token;
  return `Service token ${id} for "${name}". It expires on ${formatMoment(expires_at)}, opens the admin API alone`;
}

const day = (moment: string | null) => moment && formatDay(moment);
const TOLD = 'print a JSON object with the token and what is known about it';

/** `appscli service-tokens`. */
export const commands: readonly CommandRow[] = [
  operation<'createServiceToken', Ending & { readonly scope: readonly string[] }>('createServiceToken', {
    name: 'create',
    about: 'make a service token and print it; it is shown only this once',
    options: [
      required('--name <name>', 'the program it is for', notEmpty),
      required('--scope <scope>', 'what it may do; may be repeated', collected),
      option('--expires <when>', 'end of its life: 30d, 12h or a date; 90 days unless given, 366 at most', expiry),
    ],
    json: TOLD,
    notes: `Scopes: ${SERVICE_SCOPES.slice(0, 4).join(', ')},
${SERVICE_SCOPES.slice(4, 8).join(', ')},
${SERVICE_SCOPES.slice(8).join(', ')}.

Who makes one at a gateway answers for it. When that person stops being an
administrator, it works on for 7 days and is then suspended, until another
administrator takes it over with "appscli service-tokens rotate".`,
    examples: [
      'appscli service-tokens create --name onboarding \\\n    --scope tokens:read --scope tokens:write',
      'appscli service-tokens create --base-url https://gateway.example.com \\\n    --name report --scope changes:read --expires 30d',
    ],
    input: (given) => ({ ...endIn(given), scopes: given.scope }),
    secret: made,
  }),
  listing('listServiceTokens', 'service_tokens', {
    name: 'list',
    about: 'all service tokens, without the tokens themselves',
    examples: ['appscli service-tokens list'],
    none: 'There are no service tokens.',
    within: 'terminal',
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
    about: "put a new service token in another's place and print it; you answer for it from then on",
    arguments: [['<id>', 'id of the old one, as service-tokens list shows it']],
    options: [
      option('--overlap <time>', OVERLAP, overlap),
      option('--expires <when>', 'end of the new one: 30d, 12h or a date; 90 days unless given', expiry),
    ],
    json: TOLD,
    examples: ['appscli service-tokens rotate svc_1a2b3c4d --overlap 0'],
    input: endIn,
    secret: made,
  }),
  operation<'revokeServiceToken', { readonly id: string }>('revokeServiceToken', {
    name: 'revoke',
    about: 'end the life of a service token',
    arguments: [['<id>', 'its id, as service-tokens list shows it']],
    examples: ['appscli service-tokens revoke svc_1a2b3c4d'],
    sentence: ({ name }, { id }) => `Revoked ${id}: "${name}".`,
  }),
];
