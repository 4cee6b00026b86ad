import { PROTOCOLS } from '../../../base/contract/protocol.ts';
import { jsonText, printable, printableLines } from '../../../base/kit/text/printable.ts';
import {
  COUNTS,
  reportUsage,
  type UsageDimension,
  type UsageFilter,
  type UsageRow,
  usageCsv,
  usageJson,
} from '../../../domain/budget/reports/usage.ts';
import {
  assertPeriod,
  byFieldNames,
  type CommandContext,
  type CommandRow,
  type ConfigOptions,
  EXIT_OK,
  type Flags,
  option,
  type Texts,
  usageError,
} from '../commands.ts';
import { formatTable, numbers, paragraph, roundedUsd } from '../output.ts';
import { withDatabase } from '../with-database.ts';
import {
  type GatewayUsageOptions,
  gatewayUsage,
  IN_TABLE,
  SUM_COLUMNS,
  sumCells,
  USAGE_OPTIONS,
} from './gateway-usage.ts';

export interface UsageOptions extends ConfigOptions, Texts<'user' | 'timeZone'>, Flags<'csv'> {
  readonly since?: Date | string;
  readonly until?: Date | string;
  readonly by?: readonly UsageDimension[];
}

/** `appscli usage`: reports the ledger, per user, team, project, model and upstream by default. */
export async function usage(context: CommandContext, options: UsageOptions): Promise<number> {
  const { terminal } = context;
  const { config: config_file, by, json, csv, timeZone } = options;
  if (by !== undefined && by.length > IN_TABLE && !json && !csv) {
    throw usageError(`--by ${by.join(',')} has more than two dimensions: add --csv or --json, or use fewer`);
  }
  assertPeriod(options);
  const filter: UsageFilter = byFieldNames(options);
  const rows = await withDatabase(context, config_file, ({ config, database }) =>
    reportUsage(database, filter, { by, time_zone: timeZone ?? config.spend_limits?.time_zone }),
  );
  if (json) terminal.data(`${jsonText(rows.map(usageJson), 2)}\n`);
  else if (csv) terminal.verbatim(usageCsv(rows, by));
  else if (rows.length === 0) terminal.info('No matching requests in the ledger.\n');
  else terminal.data(printableLines(describeUsage(rows, terminal.table_columns, by)));
  return EXIT_OK;
}

interface Layout {
  readonly title: string;
  headingOf(row: UsageRow): string | undefined;
  nameOf(row: UsageRow): string;
}

const BY_CALLER: Layout = {
  title: 'USER, MODEL',
  headingOf: ({ user, team, project }) =>
    [user, team && `team ${team}`, project && `project ${project}`].filter(Boolean).join(', '),
  nameOf: ({ model, upstream, protocol }) => `${PROTOCOL_LABELS.get(protocol) ?? ''}${model} at ${upstream}`,
};

function layoutOf(by: readonly UsageDimension[] | undefined): Layout {
  if (by === undefined) return BY_CALLER;
  const named = (row: UsageRow, dimension: UsageDimension) => row[dimension] ?? `(no ${dimension})`;
  const last = by.at(-1)!;
  return {
    title: by.join(', ').toUpperCase(),
    headingOf: by.length === 1 ? () => undefined : (row) => named(row, by[0]!),
    nameOf: (row) => named(row, last),
  };
}

export function describeUsage(rows: readonly UsageRow[], line_width: number, by?: readonly UsageDimension[]): string[] {
  const { title, headingOf, nameOf } = layoutOf(by);
  const groups = Map.groupBy(rows, headingOf);
  const adjusted = rows.some((row) => row.adjusted_nano_usd !== 0n);
  const counts = (some: readonly UsageRow[]) => {
    const sum = some.reduce((total, row) => total + row.adjusted_nano_usd, 0n);
    return [...numbersOf(some), ...(adjusted ? [sum === 0n ? '' : roundedUsd(sum, 6)] : [])];
  };
  const cells = [...groups].flatMap(([heading, own]) =>
    own.map((row) => [heading === undefined ? nameOf(row) : `  ${nameOf(row)}`, ...counts([row])]),
  );
  const columns = [title, ...numbers(...SUM_COLUMNS, ...(adjusted ? ['ADJUSTED'] : []))];
  const [titles, ...lines] = formatTable(columns, [...cells, ['TOTAL', ...counts(rows)]], line_width);
  const total = lines.pop()!;
  const described = [...groups].flatMap(([heading, own]) => [
    ...(heading === undefined ? [] : [printable(heading)]),
    ...lines.splice(0, own.length),
  ]);
  return [titles!, ...described, total, ...describePossible(rows)];
}

function describePossible(rows: readonly UsageRow[]): string[] {
  const beyond = rows.reduce((sum, row) => sum + row.possibly_billed_nano_usd, 0n);
  const in_cost = rows.reduce((sum, row) => sum + row.possible_nano_usd, 0n);
  const notes = [
    beyond > 0n && `Upstreams may bill up to ${roundedUsd(beyond, 6)} USD more for failed attempts.`,
    in_cost > 0n && `This includes ${roundedUsd(in_cost, 6)} USD that upstreams may bill for failed attempts.`,
  ];
  return notes.flatMap((note) => (note === false ? [] : paragraph(note)));
}

/** Distinguishes rows of one model at one upstream; the first protocol is the usual one and has no label. */
const PROTOCOL_LABELS: ReadonlyMap<string | null | undefined, string> = new Map([
  ['count_tokens', 'count: '],
  ...PROTOCOLS.slice(1).map((name) => [name, `${name}: `] as const),
]);

function numbersOf(rows: readonly UsageRow[]): string[] {
  const sums = COUNTS.map((name) => [name, rows.reduce((sum, row) => sum + row[name], 0)] as const);
  const cost = rows.reduce((sum, row) => sum + row.cost_nano_usd, 0n);
  return sumCells(Object.fromEntries(sums) as Record<(typeof COUNTS)[number], number>, roundedUsd(cost, 6));
}

export const commands: readonly CommandRow[] = [
  {
    options: [...USAGE_OPTIONS, option('--csv', 'print CSV with exact numbers').conflicts(['json', 'baseUrl'])],
    place: 'either',
    json: 'print a JSON array of rows; with --base-url the response of the gateway',
    examples: [
      'appscli usage --since 7d',
      'appscli usage --since 2027-01-01 --team search --json',
      'appscli usage --since 2027-01-01 --until 2027-02-01 --by team,model,day --csv',
      'appscli usage --since 30d --by week,user --time-zone Europe/Berlin',
      'appscli usage --base-url https://gateway.example.com    with your limits',
    ],
    run: (context, options: UsageOptions & GatewayUsageOptions) =>
      options.baseUrl === undefined ? usage(context, options) : gatewayUsage(context, options),
  },
];
