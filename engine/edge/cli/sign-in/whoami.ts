import { StartError } from '../../../base/contract/start-error.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { fieldsOf, safeToShow } from '../../client/answers.ts';
import { openClient } from '../../client/api-client.ts';
import { openCredentials } from '../../client/credentials.ts';
import { sentence } from '../../client/http.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { programName, warner } from '../program-name.ts';
import { showReport } from '../show.ts';
import { formatMoment } from '../times.ts';

const PATH = '/admin/api/me';
const WIDTH = 80;
const LABEL_WIDTH = 13;

/** `appscli whoami`: shows the signed-in person's account at the gateway. */
export async function whoami(
  context: CommandContext,
  options: { readonly baseUrl?: string | undefined; readonly json?: true },
): Promise<number> {
  const { terminal, env, clock } = context;
  const client = await openClient({ base_url: options.baseUrl, env, clock, warn: warner(terminal) });
  const { base_url } = client;
  const { status, body } = await client.request('GET', PATH);
  const me = fieldsOf(safeToShow(body));
  if (status !== 200 || typeof me.email !== 'string') {
    const says = sentence(fieldsOf(me.error).message) ?? 'no reason given';
    throw new StartError(`cannot read your account at ${base_url}: status ${status}, ${says}`);
  }
  const expires_at = openCredentials(env).read().get(base_url)?.expires_at;
  return showReport(context, options.json, { base_url, ...me, token_expires_at: expires_at ?? null }, () =>
    describe(me, base_url, expires_at, programName(terminal)),
  );
}

function describe(
  me: Readonly<Record<string, unknown>>,
  base_url: string,
  expires_at: string | undefined,
  name: string,
): string[] {
  const rows: [string, unknown][] = [
    ['Name', me.name],
    ['Groups', me.groups],
    ['Team', me.team],
    ['Project', me.project],
    ['Roles', me.roles],
    ['Token group', me.token_group],
    ['Models', modelsOf(me)],
    ['Token until', expires_at === undefined ? undefined : formatMoment(expires_at)],
    ['Own tokens', ownTokens(name, me)],
  ];
  return [
    `${sentence(me.email)} at ${base_url}`,
    ...rows.flatMap(([label, value]) => {
      const text = shown(value);
      return text === '' ? [] : wrapText(text, WIDTH, label.padEnd(LABEL_WIDTH), ' '.repeat(LABEL_WIDTH));
    }),
  ];
}

/** The models, or the reason for none; `undefined` if the gateway omits them. */
function modelsOf({ models, no_models_because }: Readonly<Record<string, unknown>>): unknown {
  if (!Array.isArray(models) || models.length > 0) return models;
  const why = sentence(no_models_because);
  return why === undefined ? 'none: ask your gateway administrator for a token group with models' : `none: ${why}`;
}

function ownTokens(
  name: string,
  { own_tokens, own_tokens_suspended, own_tokens_suspend_at }: Readonly<Record<string, unknown>>,
): string {
  if (typeof own_tokens !== 'number' || own_tokens === 0) return '';
  if (own_tokens_suspended === true) return `${own_tokens}, suspended: sign in again ("${name} login")`;
  const at = sentence(own_tokens_suspend_at);
  return at === undefined
    ? String(own_tokens)
    : `${own_tokens}, suspended from ${formatMoment(at)} unless you sign in before`;
}

/** A text, or a list of texts or of objects with an id, as one text; empty for any other value. */
function shown(value: unknown): string {
  const texts = (Array.isArray(value) ? value : [value]).map((one) => sentence(fieldsOf(one).id ?? one));
  return texts.filter((text) => text !== undefined).join(', ');
}

/** `appscli whoami`. */
export const commands: readonly CommandRow[] = [
  {
    place: 'gateway',
    json: 'print the response of the gateway as JSON',
    examples: ['appscli whoami', 'appscli whoami --base-url https://gateway.example.com --json'],
    run: whoami,
  },
];
