import { basename } from 'node:path';
import { ERRORS } from '../../contract/errors.ts';
import { type EffectiveRule, RULE_TITLES } from '../../explain/rules.ts';
import { jsonText } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { formatCondition } from '../../rules/format-condition.ts';
import { shownPath } from '../../source/diagnostics/render.ts';
import type { ErrorClause, PipelineSpec, StageEntry } from '../../source/spec.ts';
import { formatTable, numbers } from '../table.ts';

const LISTS = ['stages', 'on_error', 'finally'] as const;

function guardOf({ when }: StageEntry): string {
  return when === undefined ? 'always' : formatCondition(when);
}

function chainOf(entry: StageEntry): readonly { readonly file: string; readonly line: number }[] {
  return entry.chain ?? [];
}

function entryData(entry: StageEntry | ErrorClause, list: (typeof LISTS)[number], order: number, cwd: string) {
  const { definition, options, when, mode, fail_closed, timeout_seconds, position } = entry;
  return {
    list,
    order,
    id: entry.id,
    stage: definition.name,
    version: definition.version,
    when: when ?? true,
    when_text: guardOf(entry),
    mode,
    fail_closed,
    timeout_seconds,
    ...('errors' in entry && { errors: entry.errors }),
    options,
    reads: definition.reads,
    reads_if_set: definition.readsIfSet,
    writes: definition.writes,
    raises: definition.raises,
    needs: definition.needs,
    terminal: definition.terminal,
    file: shownPath(position.file, cwd),
    line: position.line,
    used_by: chainOf(entry).map(({ file, line }) => ({ file: shownPath(file, cwd), line })),
  };
}

/** A pipeline as data. */
export function pipelineData(pipeline: PipelineSpec, cwd: string) {
  const { name, version, summary, match, limits, file } = pipeline;
  return {
    pipeline: name,
    version,
    summary,
    match,
    limits,
    file: shownPath(file, cwd),
    entries: LISTS.flatMap((list) => pipeline[list].map((entry, i) => entryData(entry, list, i + 1, cwd))),
  };
}

function detail(label: string, text: string, line_width: number): string[] {
  const indent = `${' '.repeat(7)}${label.padEnd(8)}`;
  return wrapText(text, line_width, indent, ' '.repeat(indent.length));
}

/** JSON with spaces between its keys, where a long line may be broken. */
function inPieces(options: object): string {
  return `{${Object.entries(options)
    .map(([key, value]) => `${jsonText(key)}:${jsonText(value)}`)
    .join(', ')}}`;
}

function entryDetails(entry: StageEntry | ErrorClause, line_width: number, cwd: string): string[] {
  const { definition, options, fail_closed, timeout_seconds } = entry;
  const { reads, readsIfSet, writes, raises, needs } = definition;
  const list = (label: string, items: readonly string[]) =>
    items.length === 0 ? [] : detail(label, items.join(', '), line_width);
  const limits = [
    ...(fail_closed ? [] : ['its failure lets the request go on']),
    ...(timeout_seconds === undefined ? [] : [`at most ${timeout_seconds} s per step`]),
  ];
  return [
    ...('errors' in entry && entry.errors ? list('errors', entry.errors) : []),
    ...(Object.keys(options as object).length === 0 ? [] : detail('options', inPieces(options as object), line_width)),
    ...list('reads', reads),
    ...list('if set', readsIfSet),
    ...list('writes', writes),
    ...list('raises', raises.length === Object.keys(ERRORS).length ? ['any error code'] : raises),
    ...list('may use', needs),
    ...list('limits', limits),
    ...[...chainOf(entry)].reverse().map(({ file, line }) => `${' '.repeat(7)}used by ${shownPath(file, cwd)}:${line}`),
  ];
}

const TITLES = { stages: undefined, on_error: 'On an error', finally: 'Finally, whatever happened' } as const;

function listLines(pipeline: PipelineSpec, list: (typeof LISTS)[number], line_width: number, cwd: string): string[] {
  const entries = pipeline[list];
  if (entries.length === 0) return [];
  const own_file = (entry: StageEntry) => entry.position.file === pipeline.file;
  const rows = entries.map((entry, i) => [
    String(i + 1),
    entry.id,
    `${entry.definition.name}@${entry.definition.version}`,
    `${entry.mode === 'shadow' ? 'shadow: ' : ''}${guardOf(entry)}`,
    own_file(entry) ? `:${entry.position.line}` : `${basename(entry.position.file)}:${entry.position.line}`,
  ]);
  const [titles, ...lines] = formatTable(
    [...numbers('#'), 'ID', 'STAGE', { title: 'RUNS', kind: 'brief' }, 'LINE'],
    rows,
    line_width - 2,
  );
  const title = TITLES[list];
  return [
    ...(title === undefined ? [] : ['', title]),
    `  ${titles}`,
    ...entries.flatMap((entry, i) => {
      const guard = guardOf(entry);
      // The table may have cut the guard short; it is what people came for.
      const cut = lines[i]!.includes('…') ? detail('runs', guard, line_width) : [];
      return [`  ${lines[i]}`, ...cut, ...entryDetails(entry, line_width, cwd)];
    }),
  ];
}

/** A pipeline as a table: order, id, stage, guard, position; below each entry what it reads, writes and may do. */
export function describePipeline(pipeline: PipelineSpec, line_width: number, cwd: string): string[] {
  const { name, version, summary, match, limits } = pipeline;
  const serves = `${match.methods.join(', ')} ${match.paths.join(', ')}`;
  const body = limits.body_bytes === undefined ? '' : `, bodies of up to ${limits.body_bytes} bytes`;
  return [
    `${name}, version ${version}: ${shownPath(pipeline.file, cwd)}`,
    ...wrapText(summary, line_width),
    ...wrapText(`Serves ${serves} (protocol ${match.protocol}${body}).`, line_width),
    '',
    ...LISTS.flatMap((list) => listLines(pipeline, list, line_width, cwd)),
  ];
}

function cellOf(pipeline: PipelineSpec, stage: string): string {
  const marks = LISTS.flatMap((list) =>
    pipeline[list].flatMap((entry, i) => {
      if (entry.definition.name !== stage) return [];
      const at = list === 'stages' ? String(i + 1) : list === 'finally' ? 'f' : 'e';
      return [`${at}${entry.when === undefined ? '' : '?'}${entry.mode === 'shadow' ? '~' : ''}`];
    }),
  );
  return marks.join(' ');
}

function matrixTable(titles: readonly string[], rows: readonly (readonly string[])[], line_width: number): string[] {
  return formatTable(['STAGE', ...titles], rows, line_width);
}

/** One table of pipelines, their names broken at a dash where they are too long; whether nothing had to be cut. */
function matrixOf(pipelines: readonly PipelineSpec[], stages: readonly string[], line_width: number) {
  const rows = stages
    .map((stage) => [stage, ...pipelines.map((pipeline) => cellOf(pipeline, stage))])
    .filter(([, ...cells]) => cells.some((cell) => cell !== ''));
  const isWhole = (lines: readonly string[]) => lines.every((line) => line.length <= line_width);
  const titles = pipelines.map(({ name }) => name.toUpperCase());
  const unbroken = matrixTable(titles, rows, line_width);
  if (isWhole(unbroken)) return { lines: unbroken, fits: true };
  const broken = titles.map((title) => /^(.*?-)?(.*)$/.exec(title)!.slice(1));
  const second_line = ['', ...broken.map(([head, tail]) => (head === undefined ? '' : tail!))];
  const heads = broken.map(([head, tail]) => head ?? tail!);
  const lines = matrixTable(heads, [second_line, ...rows], line_width);
  return { lines, fits: isWhole(lines) };
}

/** As many tables as it takes, one below the other. */
function matrixTables(pipelines: readonly PipelineSpec[], stages: readonly string[], line_width: number): string[] {
  for (let count = pipelines.length; count > 0; count--) {
    const { lines, fits } = matrixOf(pipelines.slice(0, count), stages, line_width);
    if (!fits && count > 1) continue;
    const rest = pipelines.slice(count);
    return rest.length === 0 ? lines : [...lines, '', ...matrixTables(rest, stages, line_width)];
  }
  return [];
}

/** All pipelines together: a row per stage, a column per pipeline, in each cell where the stage stands. */
export function describeMatrix(pipelines: readonly PipelineSpec[], line_width: number): string[] {
  // Stages in the order of the longest pipeline first, so that most columns count upwards.
  const by_length = [...pipelines].sort((a, b) => b.stages.length - a.stages.length);
  const names = (list: (typeof LISTS)[number]) =>
    by_length.flatMap((pipeline) => pipeline[list].map(({ definition }) => definition.name));
  const stages = [...new Set([...names('stages'), ...names('on_error'), ...names('finally')])];
  const used = stages.flatMap((stage) => by_length.map((pipeline) => cellOf(pipeline, stage))).join(' ');
  const legend = [
    'a number: its place',
    ...(used.includes('?') ? ['?: only under a condition'] : []),
    ...(used.includes('~') ? ['~: in shadow mode'] : []),
    ...(/\be\b|\be[?~]/.test(used) ? ['e: answers errors'] : []),
    'f: finally',
  ];
  return [
    ...matrixTables(by_length, stages, line_width),
    '',
    ...wrapText(`${legend.join('; ')}. appscli explain ${by_length[0]?.name ?? 'NAME'} shows one of them.`, line_width),
  ];
}

/** Lines: a section per kind of rule, each rule with its effect, its condition as a sentence and where it comes from. */
export function describeRules(rules: readonly EffectiveRule[], line_width: number): string[] {
  const kinds = Map.groupBy(rules, ({ kind }) => kind);
  const order = Object.keys(RULE_TITLES) as EffectiveRule['kind'][];
  const sections = order.flatMap((kind) => {
    const own = kinds.get(kind);
    return own === undefined ? [] : [{ title: RULE_TITLES[kind], own }];
  });
  return sections.flatMap(({ title, own }, i) => [
    ...(i === 0 ? [] : ['']),
    title,
    ...own.flatMap((rule, index) => [
      ...wrapText(
        `${rule.name}${rule.mode === 'shadow' ? ' (shadow: only recorded)' : ''} ${rule.effect}`,
        line_width,
        `${String(index + 1).padStart(3)}  `,
        '     ',
      ),
      ...(rule.text === 'always' || rule.text === 'otherwise'
        ? []
        : wrapText(`when ${rule.text}`, line_width, '       ', '         ')),
      `       ${rule.file}:${rule.line}`,
    ]),
  ]);
}
