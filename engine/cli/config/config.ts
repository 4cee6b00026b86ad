import type { AdminOperations, InJson } from '../../admin/operations.ts';
import type { Fetch } from '../../client/http.ts';
import { printable, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type Location, withAdmin } from '../admin.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { say, showReport } from '../show.ts';
import { formatList, withoutEmptyColumns } from '../table.ts';
import { formatMinute, titleInZone } from '../times.ts';

type Given = Location & { readonly json?: true };
type Load = InJson<Awaited<ReturnType<AdminOperations['listConfigLoads']>>>['loads'][number];
type Diff = InJson<Awaited<ReturnType<AdminOperations['diffConfigVersions']>>>;
type Rule = NonNullable<NonNullable<Diff['rules']>[number]['before']>;

const BECAUSE = { start: 'start', files: 'files changed', signal: 'signal' } as const;
/** What the admin API gives at once. */
const PAGE_MAX = 1000;

/** `appscli config loads`: what was loaded, and what runs. */
export async function loads(
  context: CommandContext,
  given: Given & { readonly lines: number },
  fetch?: Fetch,
): Promise<number> {
  const limit = Math.min(given.lines, PAGE_MAX);
  const found = await withAdmin(
    context,
    given,
    async (admin) => {
      const { replicas, version } = await admin('getConfig', {});
      return { version, replicas, loads: (await admin('listConfigLoads', { limit })).loads };
    },
    fetch,
  );
  if (given.json) return showReport(context, true, found, () => []);
  if (found.loads.length === 0) {
    say(context, 'Nothing was loaded yet: a gateway writes it down when it starts.');
    return EXIT_OK;
  }
  const titles = [titleInZone('WHEN'), 'OUTCOME', 'BECAUSE', 'VERSION', 'FINDINGS', 'CHANGED', 'REPLICA'];
  const { columns, rows } = withoutEmptyColumns(titles, found.loads.map(cellsOf));
  context.terminal.data(printableLines(formatList(columns, rows, context.terminal.table_columns)));
  for (const { name, version, failing_since } of found.replicas) {
    const failing = failing_since === null ? '' : `; its reloads fail since ${formatMinute(failing_since)}`;
    say(context, `${name} runs version ${version}${failing}.`);
  }
  return EXIT_OK;
}

function cellsOf({ at, failed, cause, version, errors, warnings, changed, replica, needs_restart }: Load): string[] {
  const outcome = failed ? 'failed' : needs_restart.length > 0 ? 'needs restart' : 'in force';
  const findings = errors > 0 ? `${errors} errors` : warnings > 0 ? `${warnings} warnings` : '';
  return [
    formatMinute(at),
    outcome,
    BECAUSE[cause],
    version ?? '',
    findings.replace(/^1 (\w+)s$/, '1 $1'),
    changed.join(', '),
    replica,
  ];
}

/** `appscli config diff`: what differs between two versions. Exits 1 where one of them is not kept. */
export async function diff(
  context: CommandContext,
  versions: { readonly from: string; readonly to: string | undefined },
  given: Given,
  fetch?: Fetch,
): Promise<number> {
  const { from } = versions;
  const found = await withAdmin(
    context,
    given,
    async (admin) => {
      const to = versions.to ?? (await admin('getConfig', {})).version ?? from;
      return admin('diffConfigVersions', { from, to });
    },
    fetch,
  );
  if (!given.json && found.files.length === 0) {
    say(context, `Nothing differs between ${found.from} and ${found.to}.`);
    return EXIT_OK;
  }
  return showReport(context, given.json, found, () => linesOf(found, context.terminal.columns));
}

function linesOf({ rules, files }: Diff, line_width: number): string[] {
  const told = (rules ?? []).flatMap(({ before, after }) => [
    ...(before === null ? [] : wrapText(`- ${wordsOf(before)}`, line_width, '', '    ')),
    ...(after === null ? [] : wrapText(`+ ${wordsOf(after)}`, line_width, '', '    ')),
  ]);
  return [
    ...(told.length === 0 ? [] : ['Rules', ...told, '']),
    ...files.flatMap((file) => [...fileLines(file), '']).slice(0, -1),
  ];
}

function wordsOf({ name, effect, text, mode }: Rule): string {
  const when = text === 'always' || text === 'otherwise' ? text : `when ${text}`;
  return printable(`${name} ${effect}, ${when}${mode === 'shadow' ? ' (shadow: only recorded)' : ''}`);
}

const SIGNS = { same: ' ', removed: '-', added: '+' } as const;

function fileLines({ name, change, hunks }: Diff['files'][number]): string[] {
  const head = `${name}: ${change}`;
  if (hunks === null) return [`${head}; no lines can be told of it`];
  return [
    head,
    ...hunks.flatMap(({ old_line, new_line, lines }) => [
      `@@ -${old_line} +${new_line} @@`,
      ...lines.map(({ kind, text }) => `${SIGNS[kind]}${text.trimEnd()}`),
    ]),
  ];
}
