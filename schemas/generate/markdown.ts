import type { JsonSchema } from '../../engine/api.ts';
import { ERRORS, type ErrorCode, type ErrorSpec } from '../../engine/base/contract/errors.ts';
import { FACTS, type FactKind, type FactPath } from '../../engine/base/contract/facts.ts';
import { PROTOCOLS, type Protocol } from '../../engine/base/contract/protocol.ts';
import { OPERATORS, type Operator, type OperatorSpec } from '../../engine/base/rules/operators.ts';
import { DEFINITIONS } from '../../engine/domain/protocols/definitions.ts';

/** Words for the kinds of facts and attributes. */
export const KINDS: Readonly<Record<FactKind | 'double', string>> = {
  string: 'text',
  number: 'number',
  double: 'number with fractions',
  boolean: 'true or false',
  strings: 'list of texts',
  object: 'mapping',
};

/** What a fact can be: its kind, or its values where they are a closed set. */
export function factType(path: FactPath): string {
  const { kind, values }: { kind: FactKind; values?: readonly string[] } = FACTS[path];
  return values === undefined ? KINDS[kind] : values.join(', ');
}

/** How an operator is written: `{ glob: [a, b] }`. */
export function operatorSignature(name: Operator): string {
  const { operands }: OperatorSpec = OPERATORS[name];
  const [min, max] = operands;
  const letters = [...'abcdefgh'];
  const shown = letters.slice(0, Math.max(min, 1));
  const more =
    max > shown.length ? [Number.isFinite(max) ? `${letters.slice(shown.length, max).join(', ')}?` : '...'] : [];
  const key = /^\w+$/.test(name) ? name : `"${name}"`;
  return max === 1 ? `{ ${key}: a }` : `{ ${key}: [${[...shown, ...more].join(', ')}] }`;
}

/** What a fact is, in one sentence with its type. */
export function factMeaning(path: FactPath): string {
  return `${FACTS[path].meaning} (${factType(path)}).`;
}

/** When an error is raised, and its status. */
export function errorMeaning(code: ErrorCode): string {
  const { status, meaning }: ErrorSpec = ERRORS[code];
  return `${status}: ${meaning}.`;
}

/**
 * A choice of documented values: an editor shows each with what it means, and of the one that is there only that. Their
 * descriptions must differ, otherwise yaml-language-server shows them all.
 */
export function choice(meanings: Readonly<Record<string, string>>): { readonly anyOf: readonly JsonSchema[] } {
  return { anyOf: Object.entries(meanings).map(([value, description]) => ({ const: value, description })) };
}

/** What people call some protocols; `every` where they are all there are. */
export function protocolNames(protocols: readonly Protocol[], every: string, join = ', '): string {
  if (protocols.length === PROTOCOLS.length) return every;
  return protocols.map((protocol) => DEFINITIONS[protocol].name).join(join);
}

/** A meaning as a sentence of its own. */
export const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Plain text with code in backticks, so that nothing else in it means something to Markdown. */
export function prose(text: string): string {
  return text
    .split(/(`[^`]+`)/)
    .map((part, i) => (i % 2 === 1 ? part : part.replaceAll('<', '&lt;').replaceAll('*', '\\*')))
    .join('');
}

function cell(text: string): string {
  return prose(text).replaceAll('|', '\\|').replaceAll('\n', ' ');
}

/**
 * A table, with columns padded up to `pad_to` characters so that the source can be read too; columns without any text are
 * left out.
 */
export function table(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  { pad_to = Number.POSITIVE_INFINITY } = {},
): string {
  const kept = titles.map((_, column) => rows.some((row) => row[column] !== ''));
  const lines = [titles, ...rows].map((row) => row.filter((_, column) => kept[column]).map(cell));
  const longest = lines[0]!.map((_, column) => Math.max(3, ...lines.map((line) => line[column]!.length)));
  const widths = longest.map((length) => (length > pad_to ? 3 : length));
  const join = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const padded = lines.map((line) => join(line.map((text, column) => text.padEnd(widths[column]!))));
  return [padded[0], join(widths.map((width) => '-'.repeat(width))), ...padded.slice(1)].join('\n');
}

/** A table of rows, by what stands in each column. */
export function tableOf<Row>(
  rows: readonly Row[],
  columns: Readonly<Record<string, (row: Row) => string>>,
  options: { readonly pad_to?: number } = {},
): string {
  const cells = rows.map((row) => Object.values(columns).map((cellOf) => cellOf(row)));
  return table(Object.keys(columns), cells, options);
}

/** Text in the type of code. */
export function code(text: string): string {
  return text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``;
}

/** A list of names in the type of code; empty for none. */
export function codes(names: readonly string[]): string {
  return names.map(code).join(', ');
}

/** A block of code. */
export function block(language: string, text: string): string {
  return `\`\`\`${language}\n${text.trimEnd()}\n\`\`\``;
}

/** The name a heading can be linked to with, as GitHub makes it. */
export function anchor(heading: string): string {
  return `#${heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')}`;
}

/** A page: a title, then parts with an empty line between them. */
export function page(title: string, parts: readonly string[]): string {
  const note = '<!-- Generated by `npm run generate`. Change the definitions instead. -->';
  return `${[note, `# ${title}`, ...parts].join('\n\n')}\n`;
}
