import { basename } from 'node:path';
import { ERRORS } from '../../../base/contract/errors.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { shownPath } from '../../../base/source/diagnostics/render.ts';
import type { ErrorClause, PipelineSpec, StageEntry } from '../../../base/source/spec.ts';
import { type EffectiveRule, RULE_TITLES } from '../../../pipeline/explain/rules.ts';
import { formatTable, numbers, paragraph, WIDTH } from '../output.ts';

const LISTS = { stages: 'Stages', on_error: 'On an error', finally: 'Finally' } as const;
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

function detail(label: string, items: readonly string[]): string[] {
  const indent = `${DETAIL}${label.padEnd(8)}`;
  return items.length === 0 ? [] : paragraph(items.join(', '), indent, ' '.repeat(indent.length));
}

function entryDetails(entry: StageEntry | ErrorClause, cwd: string): string[] {
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
    ...details.flatMap(([label, items]) => detail(label, items)),
    ...chain.toReversed().map(({ file, line }) => `${DETAIL}used by ${shownPath(file, cwd)}:${line}`),
  ];
}

function listLines(pipeline: PipelineSpec, list: List, cwd: string): string[] {
  const entries = pipeline[list];
  if (entries.length === 0) return [];
  const rows = entries.map((entry, i) => {
    const { id, definition, mode, position } = entry;
    const file = position.file === pipeline.file ? '' : basename(position.file);
    const runs = `${mode === 'shadow' ? 'shadow: ' : ''}${guardOf(entry)}`;
    return [String(i + 1), id, `${definition.name}@${definition.version}`, runs, `${file}:${position.line}`];
  });
  const columns = [...numbers('#'), 'ID', 'STAGE', { title: 'RUNS', kind: 'brief' } as const, 'LINE'];
  const [titles, ...lines] = formatTable(columns, rows, WIDTH - 2);
  return [
    ...(list === 'stages' ? [] : ['', LISTS[list]]),
    `  ${titles}`,
    ...entries.flatMap((entry, i) => [
      `  ${lines[i]}`,
      // The table may truncate the guard, which matters most.
      ...(lines[i]!.includes('…') ? detail('runs', [guardOf(entry)]) : []),
      ...entryDetails(entry, cwd),
    ]),
  ];
}

/** A pipeline as a table: order, id, stage, guard, position; below each entry its options, facts and errors. */
export function describePipeline(pipeline: PipelineSpec, cwd: string): string[] {
  const { name, version, summary, match, limits } = pipeline;
  const serves = `${match.methods.join(', ')} ${match.paths.join(', ')}`;
  const body = limits.body_bytes === undefined ? '' : `, bodies of up to ${limits.body_bytes} bytes`;
  return [
    `${name}, version ${version}: ${shownPath(pipeline.file, cwd)}`,
    ...paragraph(summary),
    ...paragraph(`Serves ${serves} (protocol ${match.protocol}${body}).`),
    '',
    ...LIST_NAMES.flatMap((list) => listLines(pipeline, list, cwd)),
  ];
}

/** All pipelines, each with its stages in order. */
export function describePipelines(pipelines: readonly PipelineSpec[]): string[] {
  const width = Math.max(...pipelines.map(({ name }) => name.length)) + 2;
  const marked = ({ id, when, mode }: StageEntry) =>
    `${id}${when === undefined ? '' : '?'}${mode === 'shadow' ? '~' : ''}`;
  const described = pipelines.flatMap((pipeline) => {
    const lists = LIST_NAMES.filter((list) => pipeline[list].length > 0).map(
      (list) => `${list === 'stages' ? '' : `${LISTS[list]}: `}${pipeline[list].map(marked).join(', ')}`,
    );
    return paragraph(lists.join('; '), pipeline.name.padEnd(width), ' '.repeat(width));
  });
  return [...described, '', '?: conditional; ~: in shadow mode. See also appscli explain NAME.'];
}

/** Rules by kind, each with its effect, its condition as a sentence, and its position. */
export function describeRules(rules: readonly EffectiveRule[]): string[] {
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
        ...paragraph(
          `${name}${mode === 'shadow' ? ' (shadow: only recorded)' : ''} ${effect}`,
          `${String(index + 1).padStart(3)}  `,
          '     ',
        ),
        ...(text === 'always' || text === 'otherwise' ? [] : paragraph(`when ${text}`, DETAIL, `${DETAIL}  `)),
        `${DETAIL}${file}:${line}`,
      ]),
    ]);
}
