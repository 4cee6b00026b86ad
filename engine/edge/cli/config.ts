import { printable } from '../../base/kit/text/printable.ts';
import { type AnswerOf, allEntries, operation } from './admin.ts';
import { type CommandRow, count, EXIT_OK, option } from './commands.ts';
import {
  apart,
  type Columns,
  counted,
  formatMinute,
  paragraph,
  say,
  showList,
  showReport,
  titleInZone,
} from './output.ts';

type Load = AnswerOf<'listConfigLoads'>['loads'][number];
type Diff = AnswerOf<'diffConfigVersions'>;
type Rule = NonNullable<NonNullable<Diff['rules']>[number]['before']>;

type Loads = AnswerOf<'listConfigLoads'> & Pick<AnswerOf<'getConfig'>, 'version' | 'replicas'>;

const BECAUSE = { start: 'start', files: 'files changed', signal: 'signal' } as const;

const COLUMNS: Columns<Load> = [
  [titleInZone('WHEN'), ({ at }) => formatMinute(at)],
  [
    'OUTCOME',
    ({ failed, needs_restart }) => (failed ? 'failed' : needs_restart.length > 0 ? 'needs restart' : 'in force'),
  ],
  ['BECAUSE', ({ cause }) => BECAUSE[cause]],
  ['VERSION', ({ version }) => version],
  [
    'FINDINGS',
    ({ errors, warnings }) =>
      errors > 0 ? counted(errors, 'error') : warnings > 0 ? counted(warnings, 'warning') : null,
  ],
  ['CHANGED', ({ changed }) => changed.join(', ')],
  ['REPLICA', ({ replica }) => replica],
];

function linesOf({ rules, files }: Diff): string[] {
  const rule_lines = (rules ?? []).flatMap(({ before, after }) => [
    ...(before === null ? [] : paragraph(`- ${wordsOf(before)}`, '', '    ')),
    ...(after === null ? [] : paragraph(`+ ${wordsOf(after)}`, '', '    ')),
  ]);
  return apart([rule_lines.length === 0 ? [] : ['Rules', ...rule_lines], ...files.map(fileLines)]);
}

function wordsOf({ name, effect, text, mode }: Rule): string {
  const when = text === 'always' || text === 'otherwise' ? text : `when ${text}`;
  return printable(`${name} ${effect}, ${when}${mode === 'shadow' ? ' (shadow: only recorded)' : ''}`);
}

const SIGNS = { same: ' ', removed: '-', added: '+' } as const;

function fileLines({ name, change, hunks }: Diff['files'][number]): string[] {
  const head = `${name}: ${change}`;
  if (hunks === null) return [`${head}; no lines available`];
  return [
    head,
    ...hunks.flatMap(({ old_line, new_line, lines }) => [
      `@@ -${old_line} +${new_line} @@`,
      ...lines.map(({ kind, text }) => `${SIGNS[kind]}${text.trimEnd()}`),
    ]),
  ];
}

export const commands: readonly CommandRow[] = [
  operation<'listConfigLoads', { readonly lines: number }, Omit<Loads, 'next'>>('listConfigLoads', {
    name: 'loads',
    about: 'list starts and reloads, newest first: version, cause, replica and errors',
    options: [option('-n, --lines <count>', 'number of loads', count).default(20)],
    json: 'print a JSON object: replicas, the version in force, loads',
    examples: ['appscli config loads', 'appscli config loads -n 5 --json'],
    async call(admin, { lines }) {
      const { replicas, version } = await admin('getConfig', {});
      const loads = await allEntries<Load>(admin, 'listConfigLoads', 'loads', {}, lines);
      return { version, replicas, loads };
    },
    show(context, found, { json }) {
      if (json) return showReport(context, true, found, () => []);
      showList(context, found.loads, undefined, {
        none: 'No loads yet: gateways record their starts and reloads.',
        columns: COLUMNS,
      });
      for (const { name, version, failing_since } of found.loads.length === 0 ? [] : found.replicas) {
        const failing = failing_since === null ? '' : `; its reloads fail since ${formatMinute(failing_since)}`;
        say(context, `${name} runs version ${version}${failing}.`);
      }
      return EXIT_OK;
    },
  }),
  operation<'diffConfigVersions', { readonly from: string; readonly to?: string }>('diffConfigVersions', {
    name: 'diff',
    about: 'compare two loaded versions, by rules and lines',
    arguments: [
      ['<from>', 'version, see config loads'],
      ['[to]', 'other version (default: the one in force)'],
    ],
    json: 'print a JSON object: files with their lines, rules before and after',
    notes: 'To compare files that are not loaded yet, see appscli diff.',
    examples: ['appscli config diff 0a1b2c3d4e5f'],
    call: async (admin, { from, to }) =>
      admin('diffConfigVersions', { from, to: to ?? (await admin('getConfig', {})).version ?? from }),
    show(context, found, { json }) {
      if (json || found.files.length > 0) return showReport(context, json, found, () => linesOf(found));
      say(context, `No differences between ${found.from} and ${found.to}.`);
      return EXIT_OK;
    },
  }),
];
