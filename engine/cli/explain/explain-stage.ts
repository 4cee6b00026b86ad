import { ERRORS } from '../../contract/errors.ts';
import type { StageDefinition } from '../../contract/stage.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { schemaRows } from './format-schema.ts';

const LABEL_WIDTH = 15;

/** A label with text beside it, broken to fit. */
export function labelled(label: string, text: string, line_width: number): string[] {
  const first = `  ${label}`.padEnd(LABEL_WIDTH);
  return wrapText(text, line_width, first.endsWith(' ') ? first : `${first} `, ' '.repeat(LABEL_WIDTH));
}

function facts(label: string, names: readonly string[], line_width: number): string[] {
  return names.length === 0 ? [] : labelled(label, names.join(', '), line_width);
}

function options(stage: StageDefinition, line_width: number): string[] {
  const rows = schemaRows(stage.options);
  if (rows.length === 0) return ['It has no options.'];
  return [
    'Options',
    ...rows.flatMap(({ path, type, required, default: value, description }) => {
      const more = required ? '; required' : value === undefined ? '' : `; ${value} where absent`;
      return ['', ...labelled(path, `${type}${more}`, line_width), ...labelled('', description, line_width)];
    }),
  ];
}

/** Where a stage stands in a pipeline. */
export function stagePlace({ place, terminal }: StageDefinition): string {
  if (place === 'finally') return 'under finally, after the response';
  return terminal ? 'under stages, last: it always answers' : 'under stages';
}

/** Error codes a stage may raise, in few words where it may raise any. */
export function raisedCodes({ raises }: StageDefinition): readonly string[] {
  return raises.length === Object.keys(ERRORS).length ? ['any error code'] : raises;
}

/** A stage as its definition describes it. */
export function describeStage(stage: StageDefinition, line_width: number): string[] {
  return [
    `stage ${stage.name}, version ${stage.version}`,
    '',
    ...wrapText(stage.summary, line_width),
    '',
    ...labelled('stands', stagePlace(stage), line_width),
    ...facts('below', stage.below, line_width),
    ...facts('reads', stage.reads, line_width),
    ...facts('reads if set', stage.readsIfSet, line_width),
    ...facts('writes', stage.writes, line_width),
    ...facts('raises', raisedCodes(stage), line_width),
    ...facts('needs', stage.needs, line_width),
    '',
    ...options(stage, line_width),
    ...stage.examples.flatMap(({ title, yaml }) => [
      '',
      `Example: ${title}`,
      '',
      ...yaml.split('\n').map((line) => `  ${line}`),
    ]),
  ];
}
