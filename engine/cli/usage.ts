import { reportUsage, type UsageFilter, type UsageRow } from '../services/usage.ts';
import { EXIT_OK } from './exit-codes.ts';
import type { CommandContext } from './program.ts';
import { type Column, formatTable } from './table.ts';
import { withDatabase } from './with-database.ts';

/** `appscli usage`: what the ledger holds, per user, team, project, model and upstream. */
export async function usage(
  context: CommandContext,
  given: UsageFilter & { readonly config: string; readonly json?: true },
): Promise<number> {
  const { terminal } = context;
  const { config, json, ...filter } = given;
  const rows = await withDatabase(context, config, ({ database }) => reportUsage(database, filter));
  if (json) terminal.data(`${JSON.stringify(rows, null, 2)}\n`);
  else if (rows.length === 0) terminal.words('The ledger has no such requests.\n');
  else terminal.data(`${describeUsage(rows, terminal.columns).join('\n')}\n`);
  return EXIT_OK;
}

const COLUMNS: readonly Column[] = [
  { title: 'USER, MODEL', kind: 'text' },
  { title: 'REQUESTS', kind: 'number' },
  { title: 'INPUT', kind: 'number' },
  { title: 'OUTPUT', kind: 'number' },
  { title: 'CACHE R', kind: 'number' },
  { title: 'CACHE W', kind: 'number' },
  { title: 'COST USD', kind: 'number' },
];

/** Lines of a table: each caller on a line of its own, a line per model below, the sum at the end. */
export function describeUsage(rows: readonly UsageRow[], line_width: number): string[] {
  const callers = new Map<string, UsageRow[]>();
  for (const row of rows) {
    const caller = callerOf(row);
    callers.set(caller, [...(callers.get(caller) ?? []), row]);
  }
  const counted = [...callers.values()].flat();
  const cells = counted.map((row) => [`  ${modelOf(row)}`, ...numbersOf([row])]);
  const [titles, ...lines] = formatTable(COLUMNS, [...cells, ['TOTAL', ...numbersOf(rows)]], line_width);
  const total = lines.pop()!;
  const described = [...callers].flatMap(([caller, own]) => [
    shorten(caller, line_width),
    ...lines.splice(0, own.length),
  ]);
  return [titles!, ...described, total];
}

function callerOf({ user, team, project }: UsageRow): string {
  return [user, team && `team ${team}`, project && `project ${project}`].filter(Boolean).join(', ');
}

function modelOf({ model, upstream, surface }: UsageRow): string {
  return `${surface === 'count_tokens' ? 'count: ' : ''}${model} at ${upstream}`;
}

function numbersOf(rows: readonly UsageRow[]): string[] {
  const sum = (count: (row: UsageRow) => number) => rows.reduce((total, row) => total + count(row), 0);
  return [
    briefly(sum((row) => row.requests)),
    briefly(sum((row) => row.input_tokens)),
    briefly(sum((row) => row.output_tokens)),
    briefly(sum((row) => row.cache_read_tokens)),
    briefly(sum((row) => row.cache_write_5m_tokens + row.cache_write_1h_tokens)),
    sum((row) => row.cost_usd).toFixed(6),
  ];
}

/** A count in at most seven characters: exact up to a million, then with four digits and a unit. */
function briefly(count: number): string {
  if (count < 1_000_000) return String(count);
  const [unit, size] = count < 1e9 ? ['M', 1e6] : count < 1e12 ? ['G', 1e9] : ['T', 1e12];
  return `${(count / (size as number)).toPrecision(4)}${unit}`;
}

function shorten(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, width - 1)}…` : text;
}
