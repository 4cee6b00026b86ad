import type { InJson } from '../admin/operations.ts';
import { SERVICE_SCOPES, type ShownServiceToken } from '../identity/tokens/service-tokens.ts';

import { isWellFormedServiceToken } from '../identity/tokens/token-format.ts';
import { administering, type Location } from './admin.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { collected, expiry, notEmpty, option, required } from './options.ts';
import { say, showList, showResult, showSecret } from './show.ts';
import { formatDay, formatMoment, titleInZone } from './times.ts';
import { demandSecret, overlap } from './tokens.ts';

type Given = Location & { readonly json?: true };
type Which = Given & { readonly id: string };

function showMade(
  context: CommandContext,
  made: InJson<ShownServiceToken> & { readonly token: string },
  { json }: Given,
): number {
  demandSecret(isWellFormedServiceToken(made.token), 'service token');
  const what = `Service token ${made.id} for "${made.name}"`;
  return showSecret(
    context,
    made,
    json,
    `${what}. It expires on ${formatMoment(made.expires_at)}, opens the admin API alone`,
  );
}

/** `appscli service-tokens`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'create',
    about: 'make a service token and print it; it is shown only this once',
    options: [
      required('--name <name>', 'the program it is for', notEmpty),
      required('--scope <scope>', 'what it may do; may be repeated', collected),
      option('--expires <when>', 'end of its life: 30d, 12h or a date; 90 days unless given, 366 at most', expiry),
    ],
    place: 'either',
    json: 'print a JSON object with the token and what is known about it',
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
    run: administering(
      (admin, given: Given & { readonly name: string; readonly scope: readonly string[]; readonly expires?: Date }) =>
        admin('createServiceToken', {
          name: given.name,
          scopes: given.scope,
          expires_at: given.expires?.toISOString(),
        }),
      showMade,
    ),
  },
  {
    name: 'list',
    about: 'all service tokens, without the tokens themselves',
    place: 'either',
    json: 'print a JSON array',
    examples: ['appscli service-tokens list'],
    run: administering(
      async (admin, _: Given) => (await admin('listServiceTokens', {})).service_tokens,
      (context, tokens, { json }) => {
        const day = (moment: string | null) => (moment === null ? '' : formatDay(moment));
        return showList(context, tokens, json, {
          none: 'There are no service tokens.',
          columns: ['ID', 'NAME', 'SCOPES', 'OWNER', 'USED', titleInZone('UNTIL'), 'STATE'],
          width: context.terminal.columns,
          cells: ({ id, name, scopes, owner, last_used_at, expires_at, state }) => {
            return [id, name, scopes.join(' '), owner ?? '', day(last_used_at), day(expires_at), state];
          },
        });
      },
    ),
  },
  {
    name: 'rotate',
    about: "put a new service token in another's place and print it; you answer for it from then on",
    arguments: [['<id>', 'id of the old one, as service-tokens list shows it']],
    options: [
      option('--overlap <time>', 'how long the old one works on: 24h unless given, 0 for not at all', overlap),
      option('--expires <when>', 'end of the new one: 30d, 12h or a date; 90 days unless given', expiry),
    ],
    place: 'either',
    json: 'print a JSON object with the token and what is known about it',
    examples: ['appscli service-tokens rotate svc_1a2b3c4d --overlap 0'],
    run: administering(
      (admin, { id, overlap, expires }: Which & { readonly overlap?: number; readonly expires?: Date }) =>
        admin('rotateServiceToken', { id, overlap_seconds: overlap, expires_at: expires?.toISOString() }),
      showMade,
    ),
  },
  {
    name: 'revoke',
    about: 'end the life of a service token',
    arguments: [['<id>', 'its id, as service-tokens list shows it']],
    place: 'either',
    json: 'print a JSON object',
    examples: ['appscli service-tokens revoke svc_1a2b3c4d'],
    run: administering(
      (admin, { id }: Which) => admin('revokeServiceToken', { id }),
      (context, ended, { id, json }) =>
        showResult(context, ended, json, () => say(context, `Revoked ${id}: "${ended.name}".`)),
    ),
  },
];
