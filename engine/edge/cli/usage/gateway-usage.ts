import { InvalidArgumentError } from 'commander';
import { printable } from '../../../base/kit/text/printable.ts';
import { type COUNTS, USAGE_DIMENSIONS, type UsageDimension } from '../../../domain/budget/reports/usage.ts';
import type { AnswerOf } from '../admin.ts';
import {
  assertPeriod,
  type CommandContext,
  type CommandRow,
  dayOrMoment,
  option,
  timeZone,
  usageError,
} from '../commands.ts';
import { adminAtGateway, fields, inputOf } from '../gateway-admin.ts';
import {
  type Columns,
  formatList,
  formatMoment,
  formatTable,
  numbers,
  paragraph,
  showReport,
  tableOf,
} from '../output.ts';
import type { UsageOptions } from './usage.ts';

export const IN_TABLE = 2;

export interface GatewayUsageOptions extends Omit<UsageOptions, 'config' | 'csv'> {
  readonly baseUrl?: string;
}

/** `appscli usage --base-url`: users see their own usage and limits, administrators all. */
export async function gatewayUsage(context: CommandContext, options: GatewayUsageOptions): Promise<number> {
  const { by = ['model'], json } = options;
  if (by.length > IN_TABLE && !json) throw usageError(`--by ${by.join(',')} has more than two dimensions: add --json`);
  assertPeriod(options);
  const { base_url, admin } = await adminAtGateway(context, options.baseUrl);
  const { email, team, project, roles } = await admin('getMe', {});
  const is_admin = roles.includes('admin');
  const usage = await admin('getUsage', inputOf('getUsage', { ...options, by: by.join(',') }));
  // Administrators must name the subject; other callers get their own limits.
  const mine = is_admin ? { user: email, team: team ?? undefined, project: project ?? undefined } : {};
  const { limits } = await admin('listLimits', mine);
  const whose = options.user ?? (is_admin ? 'all users' : email);
  return showReport(context, json, { base_url, ...usage, limits }, () => [
    ...describeRows(usage, { whose, by, line_width: context.terminal.table_columns }),
    '',
    ...describeLimits(limits, context.terminal.table_columns),
  ]);
}

type Usage = AnswerOf<'getUsage'>;

export const SUM_COLUMNS = ['REQUESTS', 'INPUT', 'OUTPUT', 'CACHE R', 'CACHE W', 'COST USD'];

function describeRows(
  usage: Usage,
  { whose, by, line_width }: { whose: string; by: readonly UsageDimension[]; line_width: number },
): string[] {
  const { since, until, time_zone, rows, total } = usage;
  const from = since === null ? '' : ` from ${formatMoment(since, time_zone)}`;
  const period = paragraph(`Usage of ${printable(whose)}${from} to ${formatMoment(until, time_zone)}:`);
  if (total.requests === 0) return [...period, 'No requests.'];
  const cells = rows.map(({ of, others, sums }) => [
    others > 0 ? `(${others} others)` : by.map((dimension) => nameIn(of, dimension)).join(', '),
    ...sumCells(sums, sums.cost_usd.toFixed(6)),
  ]);
  const columns = [by.join(', ').toUpperCase(), ...numbers(...SUM_COLUMNS)];
  const last = ['TOTAL', ...sumCells(total, total.cost_usd.toFixed(6))];
  return [...period, ...formatTable(columns, [...cells, last], line_width)];
}

type Limit = AnswerOf<'listLimits'>['limits'][number];

const amount = (value: number | null, unit: string) =>
  value === null ? '' : unit === 'usd' ? value.toFixed(2) : String(value);

const LIMIT_COLUMNS: Columns<Limit> = [
  ['LIMIT OF', ({ of }) => Array.from(Object.entries(of), ([scope, name]) => `${scope} ${name}`).join(', ')],
  ['PER', ({ window }) => (window === 'open' ? 'at once' : window)],
  ['LIMIT', ({ limit, unit }) => amount(limit, unit), 'number'],
  ['USED', ({ window, in_flight, spent, unit }) => amount(window === 'open' ? in_flight : spent, unit), 'number'],
  ['LEFT', ({ room, unit }) => amount(room, unit), 'number'],
  ['UNIT', ({ unit }) => (unit === 'usd' ? 'USD' : unit)],
  ['RESETS', ({ resets_at, time_zone }) => resets_at && formatMoment(resets_at, time_zone)],
];

function describeLimits(limits: readonly Limit[], line_width: number): string[] {
  const in_force = limits.filter(({ limit }) => limit !== null);
  if (in_force.length === 0) return ['No limits apply to you.'];
  return formatList(...tableOf(LIMIT_COLUMNS, in_force), line_width);
}

function nameIn(of: object, dimension: UsageDimension): string {
  const name = (of as Readonly<Partial<Record<UsageDimension, string | null>>>)[dimension];
  return typeof name === 'string' ? printable(name) : `(no ${dimension})`;
}

type Counts = Pick<Usage['total'], (typeof COUNTS)[number]>;

/** Cells of `SUM_COLUMNS`; counts have at most six digits. */
export function sumCells(sums: Counts, cost_usd: string): string[] {
  const { requests, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens } =
    sums;
  const written = cache_write_5m_tokens + cache_write_1h_tokens;
  return [...[requests, input_tokens, output_tokens, cache_read_tokens, written].map(briefly), cost_usd];
}

function briefly(count: number): string {
  if (count < 1_000_000) return String(count);
  const [unit, size] = count < 1e9 ? ['M', 1e6] : count < 1e12 ? ['G', 1e9] : ['T', 1e12];
  return `${(count / (size as number)).toPrecision(4)}${unit}`;
}

const MOST = 4;

function dimensions(text: string): readonly UsageDimension[] {
  const found = text.split(',').map((name) => USAGE_DIMENSIONS.find((dimension) => dimension === name.trim()));
  const known = found.filter((dimension) => dimension !== undefined);
  if (known.length < found.length || known.length > MOST || new Set(known).size < known.length) {
    throw new InvalidArgumentError(`Expected one to four of ${USAGE_DIMENSIONS.join(', ')}, such as month,team.`);
  }
  return known;
}

export const USAGE_OPTIONS = [
  option('--since <when>', 'from this time: 7d, 12h or a date', dayOrMoment),
  option('--until <when>', 'until this time (exclusive): 1d, 12h or a date', dayOrMoment),
  ...fields('getUsage', 'user', 'team', 'project', 'model', 'upstream', 'upstream_model', 'protocol', 'token'),
  ...fields('getUsage', 'token_group', 'answered_model', 'service_tier', 'speed'),
  option('--by <what>', `group by up to four of ${USAGE_DIMENSIONS.join(', ')}; at most two for a table`, dimensions),
  option('--time-zone <name>', 'time zone of days, such as Europe/Berlin (default: spend_limits.time_zone)', timeZone),
];

export const commands: readonly CommandRow[] = [
  {
    options: USAGE_OPTIONS,
    place: 'gateway',
    json: 'print the response of the gateway as JSON',
    examples: ['appscli usage', 'appscli usage --since 7d --by day', 'appscli usage --since 30d --by model,day --json'],
    run: gatewayUsage,
  },
];
