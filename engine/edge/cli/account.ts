import { openCredentials } from '../client/credentials.ts';
import type { AnswerOf } from './admin.ts';
import type { CommandContext, CommandRow } from './commands.ts';
import { adminAtGateway } from './gateway-admin.ts';
import { type Columns, formatMoment, formatTable, paragraph, showReport, tableOf } from './output.ts';
import { programName } from './terminal.ts';

interface AccountOptions {
  readonly baseUrl?: string | undefined;
  readonly json?: true;
}

const LABEL_WIDTH = 13;

export async function whoami(context: CommandContext, options: AccountOptions): Promise<number> {
  const { base_url, admin } = await adminAtGateway(context, options.baseUrl);
  const me = await admin('getMe', {});
  const { name, groups, team, project, roles, token_group, models, no_models_because } = me;
  const token_expires_at = openCredentials(context.env).read().get(base_url)?.expires_at ?? null;
  const no_models = no_models_because ?? 'ask your gateway administrator for a token group with models';
  const rows = [
    ['Name', name],
    ['Groups', groups.join(', ')],
    ['Team', team],
    ['Project', project],
    ['Roles', roles.join(', ')],
    ['Token group', token_group],
    ['Models', models.join(', ') || `none: ${no_models}`],
    ['Token until', token_expires_at && formatMoment(token_expires_at)],
    ['Own tokens', ownTokens(me, programName(context.terminal))],
  ] as const;
  return showReport(context, options.json, { base_url, ...me, token_expires_at }, () => [
    `${me.email} at ${base_url}`,
    ...rows.flatMap(([label, text]) =>
      text ? paragraph(text, label.padEnd(LABEL_WIDTH), ' '.repeat(LABEL_WIDTH)) : [],
    ),
  ]);
}

function ownTokens(
  { own_tokens, own_tokens_suspended, own_tokens_suspend_at: at }: AnswerOf<'getMe'>,
  program: string,
): string {
  if (!own_tokens) return '';
  if (own_tokens_suspended) return `${own_tokens}, suspended: sign in again ("${program} login")`;
  return at === null
    ? String(own_tokens)
    : `${own_tokens}, suspended from ${formatMoment(at)} unless you sign in before`;
}

type Model = AnswerOf<'listModels'>['models'][number];
type Prices = Model['prices'][number]['usd_per_million_tokens'];

const count = (tokens: number | null) => (tokens === null ? '' : String(tokens));
const range = (kind: keyof Prices) => (model: Model) => {
  const prices = model.prices.map(({ usd_per_million_tokens }) => usd_per_million_tokens[kind]);
  if (prices.length === 0) return '';
  const [least, most] = [Math.min(...prices), Math.max(...prices)];
  return least === most ? String(least) : `${least}-${most}`;
};

const COLUMNS: Columns<Model> = [
  ['MODEL', ({ id }) => id],
  ['WINDOW', ({ context_window }) => count(context_window), 'number'],
  ['MAX OUTPUT', ({ max_output_tokens }) => count(max_output_tokens), 'number'],
  ['INPUT', range('input'), 'number'],
  ['OUTPUT', range('output'), 'number'],
  ['CACHE R', range('cache_read'), 'number'],
  ['CACHE W', range('cache_write_5m'), 'number'],
];

async function models(context: CommandContext, options: AccountOptions): Promise<number> {
  const { base_url, admin } = await adminAtGateway(context, options.baseUrl);
  const { models: usable, no_models_because } = await admin('listModels', {});
  return showReport(context, options.json, { base_url, models: usable, no_models_because }, () => {
    if (usable.length === 0) return [`None: ${no_models_because}.`];
    const lines = formatTable(...tableOf(COLUMNS, usable), context.terminal.table_columns);
    return [...lines, '', 'Window and maximum output in tokens, prices in USD per million tokens.'];
  });
}

export const ACCOUNT_COMMANDS = {
  whoami: {
    place: 'gateway',
    json: 'print the response of the gateway as JSON',
    examples: ['appscli whoami', 'appscli whoami --base-url https://gateway.example.com --json'],
    run: whoami,
  },
  models: {
    place: 'gateway',
    json: 'print the response of the gateway as JSON',
    examples: ['appscli models', 'appscli models --base-url https://gateway.example.com --json'],
    run: models,
  },
} satisfies Readonly<Record<string, CommandRow>>;
