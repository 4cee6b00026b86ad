// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
import type { DiagnosticCode } from './diagnostics/codes.ts';

/** An error or warning of the YAML library. */
export interface YamlProblem {
  readonly code: string;
  readonly message: string;
  readonly pos: readonly [number, number];
}

/** Offsets of a quoted text or bracketed collection, as far as the library parsed it. */
export interface Span {
  readonly start: number;
  readonly end: number;
  readonly quoted: boolean;
}

interface Break {
  readonly code: DiagnosticCode;
  readonly start: number;
  readonly end: number;
  readonly message: string;
  readonly help?: string | undefined;
}

type Wording = readonly [message: string, help?: string];

/** Message for a `*` without an anchor. */
export const ALIAS = '`*` starts a YAML alias, and configuration files cannot use aliases';

/** Message and help for a Unicode space, which YAML treats as a letter. */
export const STRANGE_SPACE = [
  'this character looks like a space, but is another one',
  'indent with ordinary spaces',
] as const;

const NO_KEY: Wording = ['this line is neither a key nor a value', 'write `key: value`, with a space after the colon'];
const INDENTATION: Wording = [
  'the indentation does not match the lines above',
  'start all keys of one mapping, and all dashes of one list, in the same column',
];

/** Messages of other errors, by the code of the library. */
const WORDING: Readonly<Record<string, Wording>> = {
  BAD_ALIAS: [ALIAS, 'quote it: "*"'],
  BLOCK_AS_IMPLICIT_KEY: [
    'a mapping starts in the middle of a line',
    'quote a value that contains `: `, or start the nested mapping on its own, deeper indented line',
  ],
  BLOCK_IN_FLOW: ['a comma is missing', 'inside { } and [ ] commas separate the items'],
  MULTILINE_IMPLICIT_KEY: NO_KEY,
  MISSING_CHAR: NO_KEY,
  BAD_SCALAR_START: ['an unquoted key or value cannot start with this character', 'quote the key or value'],
  BAD_DQ_ESCAPE: ['this escape sequence does not exist', 'double the backslash, or use single quotes'],
  RESOURCE_EXHAUSTION: ['the values are nested too deeply'],
  MULTIPLE_DOCS: ['the file contains more than one YAML document', 'split it into one file per document'],
  UNEXPECTED_TOKEN: ['YAML does not expect this here', 'check quotes, brackets and commas before it'],
};

/** Offsets at which the lines of a text begin. (`LineCounter` of yaml misses lines of text that is not valid YAML.) */
export function lineStarts(text: string): readonly number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** Line and column of an offset, counted from 1. */
export function positionAt(starts: readonly number[], offset: number) {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (starts[middle]! <= offset) low = middle;
    else high = middle - 1;
  }
  return { line: low + 1, column: offset - starts[low]! + 1 };
}

const lineStart = (text: string, offset: number): number => (offset <= 0 ? 0 : text.lastIndexOf('\n', offset - 1) + 1);

const lineEnd = (text: string, offset: number): number => {
  const end = text.indexOf('\n', offset);
  return end < 0 ? text.length : end;
};

const lineAt = (text: string, offset: number): string => text.slice(lineStart(text, offset), lineEnd(text, offset));

/** Offsets of the first word of the line at `offset`, or of the next line that has one. */
function firstWord(text: string, offset: number): readonly [start: number, end: number] {
  const blank = /^(?:[ \t]*\r?\n)+/.exec(text.slice(lineStart(text, offset)))?.[0].length ?? 0;
  const from = lineStart(text, offset) + blank;
  const [, space = '', word = ''] = /^([ \t]*)([^\s:]*)/.exec(text.slice(from)) ?? [];
  return [from + space.length, from + space.length + Math.max(1, word.length)];
}

/** Offset of the innermost bracket or quote that was opened before `offset` and never closed. */
function opening(spans: readonly Span[], text: string, offset: number, quoted: boolean): number {
  const open = spans.filter((span) => {
    if (span.quoted !== quoted || span.start >= offset) return false;
    return quoted || !/[\]}]/.test(text[span.end - 1] ?? '');
  });
  return open.toSorted((a, b) => b.start - a.start)[0]?.start ?? offset;
}

/** Mistakes that the line itself shows: what precedes them, their length, code and message. */
const ON_THE_LINE: readonly (readonly [RegExp, length: number, DiagnosticCode, Wording])[] = [
  [/^ *(?=\t)/, 1, 'C1008', ['a tab is used for indentation', 'indent with spaces']],
  [/^[ \t]*(?=[\u00a0\u2000-\u200b\u202f\u3000\ufeff])/, 1, 'C1008', STRANGE_SPACE],
  [/^[ \t]*(?=-[A-Za-z][\w-]*:(?:\s|$))/, 1, 'C1007', ['a space is missing after the dash', 'write `- `']],
];

function explain(problem: YamlProblem, all: readonly YamlProblem[], spans: readonly Span[], text: string): Break {
  const [start, end] = problem.pos;
  const at = (code: DiagnosticCode, from: number, to: number, [message, help]: Wording): Break => ({
    code,
    start: from,
    end: to,
    message,
    help,
  });
  const [line, line_start] = [lineAt(text, start), lineStart(text, start)];
  for (const [pattern, length, code, wording] of ON_THE_LINE) {
    const before = pattern.exec(line)?.[0].length;
    if (before !== undefined) return at(code, line_start + before, line_start + before + length, wording);
  }
  // In a flow mapping the braces of a placeholder are YAML's own.
  const placeholder = line_start + line.search(/(?<!["'])\$\{\{/);
  if (
    placeholder >= line_start &&
    (problem.code === 'UNEXPECTED_TOKEN' || (start > placeholder && start < placeholder + 3))
  ) {
    const wording = ['a placeholder inside { } or [ ] must be quoted', 'write "${{ name }}"'] as const;
    return at('C1007', placeholder, placeholder + 3, wording);
  }
  if (/Missing closing/.test(problem.message)) {
    const from = opening(spans, text, start, true);
    return at('C1007', from, from + 1, ['a quoted value is not closed', 'add the closing quote']);
  }
  if (/and end with/.test(problem.message)) {
    const from = opening(spans, text, start, false);
    const closing = text[from] === '[' ? ']' : '}';
    return at('C1007', from, from + 1, ['a bracket is not closed', `add the closing \`${closing}\``]);
  }
  const deeper = all.find(({ code, pos }) => code === 'MULTILINE_IMPLICIT_KEY' && pos[0] === start);
  const is_indentation =
    problem.code === 'BAD_INDENT' ||
    /Sequence item without|block sequence/.test(problem.message) ||
    deeper !== undefined;
  if (is_indentation && problem.code !== 'MULTILINE_IMPLICIT_KEY') {
    return at('C1007', ...firstWord(text, deeper === undefined ? start : deeper.pos[1] - 1), INDENTATION);
  }
  const code = problem.code === 'BAD_ALIAS' ? 'C1010' : 'C1007';
  const other: Wording = [`YAML cannot be read here: ${problem.code.toLowerCase().replaceAll('_', ' ')}`];
  return at(code, start, end, WORDING[problem.code] ?? other);
}

/** An unquoted operator such as `!:` or `!==:` reads as a tag. */
function explainTag(text: string, [start, end]: readonly [number, number]): Break {
  const tag = text.slice(start, end);
  if (/^!(?:!|==?)?:?$/.test(tag)) {
    const operator = tag.replace(/:$/, '');
    const help = `YAML reads an unquoted \`!\` as a tag: write "${operator}": instead`;
    return { code: 'C1013', start, end, message: `the operator \`${operator}\` must be quoted`, help };
  }
  const message = 'configuration files cannot use explicit tags';
  return { code: 'C1012', start, end, message, help: 'remove the tag, or quote the value if `!` belongs to it' };
}

function explainDuplicate(text: string, start: number): Break {
  const key = /^[^\s:,{}]+/.exec(text.slice(start))?.[0] ?? '';
  const message = `the key \`${key}\` is already used in this mapping`;
  const help =
    key === 'rule' || key === 'var'
      ? `combine conditions: { and: [{ ${key}: ... }, { ${key}: ... }] }`
      : start === lineStart(text, start)
        ? 'keep one of them'
        : `keep one of them; if a new item of a list begins here, write \`- ${key}:\``;
  return { code: 'C1009', start, end: start + key.length, message, help };
}

/** The YAML errors of a file: repeated keys, tags, and the first other error. Further ones usually follow from the first. */
export function yamlBreaks(problems: readonly YamlProblem[], spans: readonly Span[], text: string): readonly Break[] {
  // After a stack overflow, the other errors depend on how far the library got.
  const exhausted = problems.filter(({ code }) => code === 'RESOURCE_EXHAUSTION').slice(0, 1);
  const sorted = exhausted.length > 0 ? exhausted : problems.toSorted((a, b) => a.pos[0] - b.pos[0]);
  const breaks: Break[] = [];
  let first = true;
  for (const problem of sorted) {
    if (problem.code === 'DUPLICATE_KEY') breaks.push(explainDuplicate(text, problem.pos[0]));
    else if (problem.code === 'TAG_RESOLVE_FAILED') breaks.push(explainTag(text, problem.pos));
    else if (first) {
      first = false;
      breaks.push(explain(problem, sorted, spans, text));
    }
  }
  return breaks;
}
