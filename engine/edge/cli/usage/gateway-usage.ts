import { InvalidArgumentError } from 'commander';
import { printable } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { USAGE_DIMENSIONS, type UsageDimension } from '../../../domain/budget/reports/usage.ts';

import type { AnswerOf } from '../admin.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { adminAtGateway, inputOf } from '../gateway-admin.ts';
import { dayOrMoment, demandPeriod, email, option, timeZone } from '../options.ts';
import { showReport } from '../show.ts';
import { formatList, formatTable, numbers, withoutEmptyColumns } from '../table.ts';
import { formatMoment } from '../times.ts';
import type { UsageOptions } from './usage.ts';

const WIDTH = 80;
/** The most dimensions that a table has room for. */
export const IN_TABLE = 2;

/** Options of `appscli usage --base-url`. */
export interface GatewayUsageOptions extends Omit<UsageOptions, 'config' | 'csv'> {
  readonly baseUrl?: string;
}

/**
 * `appscli usage --base-url`: what a gateway counted, and what the limits of the caller leave. Everybody sees their own,
 * administrators everybody's, and their own limits.
 */
export async function gatewayUsage(context: CommandContext, given: GatewayUsageOptions): Promise<number> {
  const { by = ['model'], json } = given;
  if (by.length > IN_TABLE && !json) throw usageError(`a table has room for two of --by ${by.join(',')}; add --json`);
  demandPeriod(given);
  const { base_url, admin } = await adminAtGateway(context, given.baseUrl);
  const { email, team, project, roles } = await admin('getMe', {});
  const is_admin = roles.includes('admin');
  const usage = await admin('getUsage', inputOf('getUsage', { ...given, by: by.join(',') }));
  // An administrator has to say whose; everybody else is told their own.
  const mine = is_admin ? { user: email, team: team ?? undefined, project: project ?? undefined } : {};
  const { limits } = await admin('listLimits', mine);
  const whose = given.user ?? (is_admin ? 'everybody' : email);
  return showReport(context, json, { base_url, ...usage, limits }, () => [
    ...describeRows(usage, { whose, by, line_width: context.terminal.table_columns }),
    '',
    ...describeLimits(limits, context.terminal.table_columns),
  ]);
}

type Usage = AnswerOf<'getUsage'>;

const COLUMNS = numbers('REQUESTS', 'INPUT', 'OUTPUT', 'CACHE R', 'CACHE W', 'COST USD');

function describeRows(
  usage: Usage,
  { whose, by, line_width }: { whose: string; by: readonly UsageDimension[]; line_width: number },
): string[] {
  const { since, until, time_zone, rows, total } = usage;
  const from = since === null ? '' : ` from ${formatMoment(since, time_zone)}`;
  const period = wrapText(`Usage of ${printable(whose)}${from} to ${formatMoment(until, time_zone)}:`, WIDTH);
  if (total.requests === 0) return [...period, 'No requests were counted.'];
  const cells = rows.map(({ of, others, sums }) => [
    others > 0 ? `(${others} others)` : by.map((dimension) => nameIn(of, dimension)).join(', '),
    ...numbersOf(sums),
  ]);
  return [
    ...period,
    ...formatTable([by.join(', ').toUpperCase(), ...COLUMNS], [...cells, ['TOTAL', ...numbersOf(total)]], line_width),
  ];
}

const LIMIT_COLUMNS = ['LIMIT OF', 'PER', ...numbers('LIMIT', 'USED', 'LEFT'), 'UNIT', 'RESETS'];

function describeLimits(limits: AnswerOf<'listLimits'>['limits'], line_width: number): string[] {
  const in_force = limits.filter(({ limit }) => limit !== null);
  if (in_force.length === 0) return ['No limit is in force for you.'];
  const amount = (value: number | null, unit: string) =>
    value === null ? '' : unit === 'usd' ? value.toFixed(2) : String(value);
  const rows = in_force.map(({ of, window, unit, limit, spent, in_flight, room, resets_at, time_zone }) => [
    Object.entries(of)
      .map(([scope, name]) => printable(`${scope} ${name}`))
      .join(', '),
    window === 'open' ? 'at once' : window,
    ...[limit, window === 'open' ? in_flight : spent, room].map((value) => amount(value, unit)),
    unit === 'usd' ? 'USD' : unit,
    resets_at === null ? '' : formatMoment(resets_at, time_zone),
  ]);
  const table = withoutEmptyColumns(LIMIT_COLUMNS, rows);
  return formatList(table.columns, table.rows, line_width);
}

function nameIn(of: object, dimension: UsageDimension): string {
  const name = (of as Readonly<Partial<Record<UsageDimension, string | null>>>)[dimension];
  return typeof name === 'string' ? printable(name) : `(no ${dimension})`;
}

function numbersOf(sums: Usage['total']): string[] {
  return [
    ...[sums.requests, sums.input_tokens, sums.output_tokens, sums.cache_read_tokens].map(String),
    String(sums.cache_write_5m_tokens + sums.cache_write_1h_tokens),
    sums.cost_usd.toFixed(6),
  ];
}

const MOST = 4;

function dimensions(text: string): readonly UsageDimension[] {
  const found = text.split(',').map((name) => USAGE_DIMENSIONS.find((dimension) => dimension === name.trim()));
  const known = found.filter((dimension) => dimension !== undefined);
  if (known.length < found.length || known.length > MOST || new Set(known).size < known.length) {
    throw new InvalidArgumentError(`Write one to four of ${USAGE_DIMENSIONS.join(', ')}: month,team.`);
  }
  return known;
}

/** The options that say which usage is meant. */
export const USAGE_OPTIONS = [
  option('--since <when>', 'from here: 7d, 12h or a date', dayOrMoment),
  option('--until <when>', 'up to here, that day not included: 1d, 12h or a date', dayOrMoment),
  option('--user <email>', 'only this user', email),
  option('--team <name>', 'only this team'),
  option('--project <name>', 'only this project'),
  option('--model <id>', 'only this model'),
  option('--upstream <name>', 'only this upstream'),
  option('--upstream-model <id>', 'only what the upstream calls so'),
  option('--protocol <name>', 'only these requests: messages, chat, responses or count_tokens'),
  option('--token <id>', 'only this access token'),
  option('--token-group <name>', 'only access tokens of this group'),
  option('--answered-model <name>', 'only what another model than the one asked for answered, by its name'),
  option('--service-tier <name>', 'only what was served in this tier, such as priority'),
  option('--speed <name>', 'only what was served at this speed, such as fast'),
  option('--by <what>', `up to four of ${USAGE_DIMENSIONS.join(', ')}; a table has room for two`, dimensions),
  option('--time-zone <name>', 'where a day begins, as in Europe/Berlin; else spend_limits.time_zone', timeZone),
];

/** `appscli usage` of somebody who has no gateway.yaml: at a gateway. */
export const commands: readonly CommandRow[] = [
  {
    options: USAGE_OPTIONS,
    place: 'gateway',
    json: 'print what the gateway says as JSON',
    examples: ['appscli usage', 'appscli usage --since 7d --by day', 'appscli usage --since 30d --by model,day --json'],
    run: gatewayUsage,
  },
];
