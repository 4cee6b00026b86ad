import { basename } from 'node:path';
import { ERRORS } from '../../../base/contract/errors.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { shownPath } from '../../../base/source/diagnostics/render.ts';
import type { ErrorClause, PipelineSpec, StageEntry } from '../../../base/source/spec.ts';
import { type EffectiveRule, RULE_TITLES } from '../../../pipeline/explain/rules.ts';
import { formatTable, numbers } from '../table.ts';

/** The lists of a pipeline, with titles, and marks for the table of all pipelines. */
const LISTS = {
  stages: { title: [], mark: undefined },
  on_error: { title: ['', 'On an error'], mark: 'e' },
  finally: { title: ['', 'Finally'], mark: 'f' },
} as const;
type List = keyof typeof LISTS;
const LIST_NAMES = Object.keys(LISTS) as List[];

const guardOf = ({ when }: StageEntry) => (when === undefined ? 'always' : formatCondition(when));
const errorsOf = (entry: StageEntry | ErrorClause) => ('errors' in entry ? entry.errors : undefined);

/** A pipeline as data. */
export function pipelineData(pipeline: PipelineSpec, cwd: string) {
  const { name, version, summary, match, limits, file } = pipeline;
  const at = (position: { readonly file: string; readonly line: number }) => ({
    file: shownPath(position.file, cwd),
    line: position.line,
  });
  const entries = LIST_NAMES.flatMap((list) =>
    pipeline[list].map((entry: StageEntry | ErrorClause, i) => {
      const { definition, options, when, mode, fail_closed, timeout_seconds, position, chain = [] } = entry;
      return {
        ...{ list, order: i + 1, id: entry.id, stage: definition.name, version: definition.version },
        ...{ when: when ?? true, when_text: guardOf(entry), mode, fail_closed, timeout_seconds },
        ...('errors' in entry && { errors: entry.errors }),
        ...{ options, reads: definition.reads, reads_if_set: definition.readsIfSet, writes: definition.writes },
        ...{ raises: definition.raises, needs: definition.needs, terminal: definition.terminal },
        ...at(position),
        used_by: chain.map(at),
      };
    }),
  );
  return { pipeline: name, version, summary, match, limits, file: shownPath(file, cwd), entries };
}

const DETAIL = ' '.repeat(7);

function detail(label: string, items: readonly string[], line_width: number): string[] {
  const indent = `${DETAIL}${label.padEnd(8)}`;
  return items.length === 0 ? [] : wrapText(items.join(', '), line_width, indent, ' '.repeat(indent.length));
}

function entryDetails(entry: StageEntry | ErrorClause, line_width: number, cwd: string): string[] {
  const { definition, options, fail_closed, timeout_seconds, chain = [] } = entry;
  const { reads, readsIfSet, writes, raises, needs } = definition;
  // JSON with spaces between its keys, where a long line may be broken.
  const pairs = Object.entries(options as object).map(([key, value]) => `${jsonText(key)}:${jsonText(value)}`);
  const details: readonly (readonly [label: string, items: readonly string[]])[] = [
    ['errors', errorsOf(entry) ?? []],
    ['options', pairs.length === 0 ? [] : [`{${pairs.join(', ')}}`]],
    ['reads', reads],
    ['if set', readsIfSet],
    ['writes', writes],
    ['raises', raises.length === Object.keys(ERRORS).length ? ['any error code'] : raises],
    ['may use', needs],
    [
      'limits',
      [
        ...(fail_closed ? [] : ['the request continues if it fails']),
        ...(timeout_seconds === undefined ? [] : [`at most ${timeout_seconds} s per step`]),
      ],
    ],
  ];
  return [
    ...details.flatMap(([label, items]) => detail(label, items, line_width)),
    ...chain.toReversed().map(({ file, line }) => `${DETAIL}used by ${shownPath(file, cwd)}:${line}`),
  ];
}

function listLines(pipeline: PipelineSpec, list: List, line_width: number, cwd: string): string[] {
  const entries = pipeline[list];
  if (entries.length === 0) return [];
  const rows = entries.map((entry, i) => {
    const { id, definition, mode, position } = entry;
    const file = position.file === pipeline.file ? '' : basename(position.file);
    const runs = `${mode === 'shadow' ? 'shadow: ' : ''}${guardOf(entry)}`;
    return [String(i + 1), id, `${definition.name}@${definition.version}`, runs, `${file}:${position.line}`];
  });
  const columns = [...numbers('#'), 'ID', 'STAGE', { title: 'RUNS', kind: 'brief' } as const, 'LINE'];
  const [titles, ...lines] = formatTable(columns, rows, line_width - 2);
  return [
    ...LISTS[list].title,
    `  ${titles}`,
    ...entries.flatMap((entry, i) => [
      `  ${lines[i]}`,
      // The table may truncate the guard, which matters most.
      ...(lines[i]!.includes('…') ? detail('runs', [guardOf(entry)], line_width) : []),
      ...entryDetails(entry, line_width, cwd),
    ]),
  ];
}

/** A pipeline as a table: order, id, stage, guard, position; below each entry its options, facts and errors. */
export function describePipeline(pipeline: PipelineSpec, line_width: number, cwd: string): string[] {
  const { name, version, summary, match, limits } = pipeline;
  const serves = `${match.methods.join(', ')} ${match.paths.join(', ')}`;
  const body = limits.body_bytes === undefined ? '' : `, bodies of up to ${limits.body_bytes} bytes`;
  return [
    `${name}, version ${version}: ${shownPath(pipeline.file, cwd)}`,
    ...wrapText(summary, line_width),
    ...wrapText(`Serves ${serves} (protocol ${match.protocol}${body}).`, line_width),
    '',
    ...LIST_NAMES.flatMap((list) => listLines(pipeline, list, line_width, cwd)),
  ];
}

function cellOf(pipeline: PipelineSpec, stage: string): string {
  const marks = LIST_NAMES.flatMap((list) =>
    pipeline[list].flatMap(({ definition, when, mode }, i) =>
      definition.name === stage
        ? [`${LISTS[list].mark ?? i + 1}${when === undefined ? '' : '?'}${mode === 'shadow' ? '~' : ''}`]
        : [],
    ),
  );
  return marks.join(' ');
}

/** One table of pipelines, with long names broken at a dash; `fits` if nothing was truncated. */
function matrixOf(pipelines: readonly PipelineSpec[], stages: readonly string[], line_width: number) {
  const rows = stages
    .map((stage) => [stage, ...pipelines.map((pipeline) => cellOf(pipeline, stage))])
    .filter(([, ...cells]) => cells.some((cell) => cell !== ''));
  const titles = pipelines.map(({ name }) => name.toUpperCase());
  const broken = titles.map((title) => /^(.*?-)?(.*)$/.exec(title)!.slice(1) as [string | undefined, string]);
  const second_line = ['', ...broken.map(([head, tail]) => (head === undefined ? '' : tail))];
  const heads = broken.map(([head, tail]) => head ?? tail);
  const tables = [
    formatTable(['STAGE', ...titles], rows, line_width),
    formatTable(['STAGE', ...heads], [second_line, ...rows], line_width),
  ];
  const whole = tables.find((lines) => lines.every((line) => line.length <= line_width));
  return { lines: whole ?? tables[1]!, fits: whole !== undefined };
}

/** Splits the pipelines into as many tables as necessary. */
function matrixTables(pipelines: readonly PipelineSpec[], stages: readonly string[], line_width: number): string[] {
  for (let count = pipelines.length; count > 0; count--) {
    const { lines, fits } = matrixOf(pipelines.slice(0, count), stages, line_width);
    if (!fits && count > 1) continue;
    const rest = pipelines.slice(count);
    return rest.length === 0 ? lines : [...lines, '', ...matrixTables(rest, stages, line_width)];
  }
  return [];
}

/** All pipelines: a row per stage, a column per pipeline, and the position of the stage in each cell. */
export function describeMatrix(pipelines: readonly PipelineSpec[], line_width: number): string[] {
  // Stages in the order of the longest pipeline first, so that most columns count upwards.
  const by_length = pipelines.toSorted((a, b) => b.stages.length - a.stages.length);
  const names = LIST_NAMES.flatMap((list) =>
    by_length.flatMap((pipeline) => pipeline[list].map(({ definition }) => definition.name)),
  );
  const stages = [...new Set(names)];
  const used = stages.flatMap((stage) => by_length.map((pipeline) => cellOf(pipeline, stage))).join(' ');
  const legend = [
    'a number: position of the stage',
    ...(used.includes('?') ? ['?: conditional'] : []),
    ...(used.includes('~') ? ['~: in shadow mode'] : []),
    ...(/\be\b|\be[?~]/.test(used) ? ['e: on_error'] : []),
    'f: finally',
  ];
  const shows = `See also appscli explain ${by_length[0]?.name ?? 'NAME'}.`;
  return [
    ...matrixTables(by_length, stages, line_width),
    '',
    ...wrapText(`${legend.join('; ')}. ${shows}`, line_width),
  ];
}

/** Rules by kind, each with its effect, its condition as a sentence, and its position. */
export function describeRules(rules: readonly EffectiveRule[], line_width: number): string[] {
  const kinds = Object.entries(RULE_TITLES).map(([kind, title]) => ({
    title,
    own: rules.filter((rule) => rule.kind === kind),
  }));
  return kinds
    .filter(({ own }) => own.length > 0)
    .flatMap(({ title, own }, i) => [
      ...(i === 0 ? [] : ['']),
      title,
      ...own.flatMap(({ name, mode, effect, text, file, line }, index) => [
        ...wrapText(
          `${name}${mode === 'shadow' ? ' (shadow: only recorded)' : ''} ${effect}`,
          line_width,
          `${String(index + 1).padStart(3)}  `,
          '     ',
        ),
        ...(text === 'always' || text === 'otherwise'
          ? []
          : wrapText(`when ${text}`, line_width, DETAIL, `${DETAIL}  `)),
        `${DETAIL}${file}:${line}`,
      ]),
    ]);
}
