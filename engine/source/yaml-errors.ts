// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
import type { DiagnosticCode } from './diagnostics/codes.ts';
import { firstWord, isSibling, lineAt, lineEnd, lineStart, oddLine } from './indentation.ts';

/** An error or warning of the YAML library. */
export interface YamlProblem {
  readonly code: string;
  readonly message: string;
  readonly pos: readonly [number, number];
}

/** A quoted text or bracketed collection, as far as the library read it; offsets into the text. */
export interface Span {
  readonly start: number;
  readonly end: number;
  readonly quoted: boolean;
}

/** What to say about a break in the YAML, and where; offsets into the text. */
interface Break {
  readonly code: DiagnosticCode;
  readonly start: number;
  readonly end: number;
  readonly message: string;
  readonly help?: string | undefined;
}

type Wording = readonly [message: string, help?: string];

/** What is said about a `*` that is no anchor's alias. */
export const ALIAS = '`*` starts an alias in YAML, and aliases are not part of this language';

const COMMENT = 'a comment starts with #';

const TAB: Wording = ['a tab is used for indentation', 'indent with spaces'];
const STRANGE_SPACE: Wording = ['this looks like a space, but is another character', 'indent with ordinary spaces'];
const DIRECTIVE: Wording = ['YAML directives are not part of this language', 'remove the line'];
const INDENTATION: Wording = [
  'the indentation does not fit the lines above',
  'start all keys of one mapping, and all dashes of one list, in the same column',
];

/** What to say about other breaks, by the library's code. */
const WORDING: Readonly<Record<string, Wording>> = {
  BAD_ALIAS: [ALIAS, 'quote it: "*"'],
  BLOCK_AS_IMPLICIT_KEY: [
    'a mapping starts in the middle of a line',
    'quote a value that contains `: `, or start the nested mapping on its own, deeper indented line',
  ],
  BLOCK_IN_FLOW: ['a comma is missing', 'inside { } and [ ] commas separate the items'],
  MULTILINE_IMPLICIT_KEY: [
    'this line is neither a key nor a value',
    'write `key: value`, with a space after the colon',
  ],
  MISSING_CHAR: ['this line is neither a key nor a value', 'write `key: value`, with a space after the colon'],
  BAD_SCALAR_START: ['a plain value cannot start with this character', 'quote the value'],
  BAD_DQ_ESCAPE: ['this escape sequence does not exist', 'double the backslash, or use single quotes'],
  KEY_OVER_1024_CHARS: ['the key is longer than 1024 characters'],
  RESOURCE_EXHAUSTION: ['the values are nested too deeply'],
  MULTIPLE_DOCS: ['the file holds more than one YAML document', 'split it into one file per document'],
  BAD_DIRECTIVE: DIRECTIVE,
  UNEXPECTED_TOKEN: ['YAML does not expect this here', 'check quotes, brackets and commas before it'],
};

/** Offset of the innermost bracket or quote that was opened before `offset` and never closed. */
function opening(spans: readonly Span[], text: string, offset: number, quoted: boolean): number | undefined {
  const open = spans.filter((span) => {
    if (span.quoted !== quoted || span.start >= offset) return false;
    return quoted || !/[\]}]/.test(text[span.end - 1] ?? '');
  });
  return open.toSorted((a, b) => b.start - a.start)[0]?.start;
}

/** Offset of a tab before the text of the line at `offset`. */
function tabInIndentation(text: string, offset: number): number | undefined {
  const start = lineStart(text, offset);
  const tab = /^[ \t]*/.exec(text.slice(start))?.[0].indexOf('\t') ?? -1;
  return tab < 0 ? undefined : start + tab;
}

function explain(problem: YamlProblem, all: readonly YamlProblem[], spans: readonly Span[], text: string): Break {
  const [start, end] = problem.pos;
  const at = (code: DiagnosticCode, from: number, to: number, [message, help]: Wording): Break => ({
    code,
    start: from,
    end: to,
    message,
    help,
  });
  const tab = tabInIndentation(text, start);
  if (problem.code === 'TAB_AS_INDENT' || tab !== undefined) return at('C1008', tab ?? start, (tab ?? start) + 1, TAB);
  const strange = strangeSpace(text, start);
  if (strange !== undefined) return at('C1008', strange, strange + 1, STRANGE_SPACE);
  const dash = tightDash(text, start);
  if (dash !== undefined) return at('C1007', dash, dash + 1, ['a space is missing after the dash', 'write `- `']);
  const comment = foreignComment(text, start) ?? foreignCommentAbove(text, start);
  if (comment !== undefined)
    return at('C1007', comment, comment + 2, [
      `\`${text.slice(comment, comment + 2)}\` does not start a comment`,
      COMMENT,
    ]);
  // In a flow mapping the braces of a placeholder are YAML's own.
  const placeholder = /(?<!["'])\$\{\{/.exec(lineAt(text, start));
  const placeholder_start = lineStart(text, start) + (placeholder?.index ?? 0);
  if (
    placeholder !== null &&
    (problem.code === 'UNEXPECTED_TOKEN' || (start > placeholder_start && start < placeholder_start + 3))
  ) {
    return at('C1007', placeholder_start, placeholder_start + 3, [
      'a placeholder inside { } or [ ] must be quoted',
      'write "${{ name }}"',
    ]);
  }
  if (/Missing closing/.test(problem.message)) {
    const from = opening(spans, text, start, true) ?? start;
    return at('C1007', from, from + 1, ['a quoted value is not closed', 'add the closing quote']);
  }
  if (/and end with/.test(problem.message)) {
    const from = opening(spans, text, start, false) ?? start;
    const closing = text[from] === '[' ? ']' : '}';
    return at('C1007', from, from + 1, ['a bracket is not closed', `add the closing \`${closing}\``]);
  }
  const deeper = all.find(({ code, pos }) => code === 'MULTILINE_IMPLICIT_KEY' && pos[0] === start);
  const is_indentation =
    problem.code === 'BAD_INDENT' ||
    /Sequence item without|block sequence/.test(problem.message) ||
    deeper !== undefined;
  if (is_indentation && problem.code !== 'MULTILINE_IMPLICIT_KEY') {
    const word = oddLine(text, firstWord(text, deeper === undefined ? start : deeper.pos[1] - 1));
    return at('C1007', word.start, word.end, INDENTATION);
  }
  const operator = operatorAt(text, start);
  if (operator !== undefined) {
    const [from, name] = operator;
    const wording: Wording = [`the operator \`${name}\` must be quoted`, `write "${name}": instead`];
    return at('C1007', from, from + name.length, wording);
  }
  const code = { MULTIPLE_DOCS: 'C1015', BAD_ALIAS: 'C1010' }[problem.code] ?? 'C1007';
  const other: Wording = [`YAML cannot be read here: ${problem.code.toLowerCase().replaceAll('_', ' ')}`];
  const wording = problem.code === 'UNEXPECTED_TOKEN' ? unexpected(text, start) : undefined;
  return at(code as DiagnosticCode, start, end, wording ?? WORDING[problem.code] ?? other);
}

/** Offset of `//`, `/*` or `--` where a comment would begin in another language: on the line at `offset`. */
function foreignComment(text: string, offset: number): number | undefined {
  const line = lineAt(text, offset);
  const [found, space = ''] = /^([ \t]*)--(?!-)/.exec(line) ?? /(^|[\s,])(?:\/\/|\/\*)(?=\s|$)/.exec(line) ?? [];
  if (found === undefined) return undefined;
  const before = line.slice(0, line.indexOf(found) + space.length);
  const is_quoted = ['"', "'"].some((quote) => before.split(quote).length % 2 === 0);
  return is_quoted || before.includes('#') ? undefined : lineStart(text, offset) + before.length;
}

/** Offset of a line of its own that is a comment in another language: YAML complains at the line below. */
function foreignCommentAbove(text: string, offset: number): number | undefined {
  const above = text.slice(0, lineStart(text, offset));
  const [lines, space = ''] =
    /(?<=^|\n)([ \t]*)(?:\/\/|\/\*)[^\n]*\n(?:[ \t]*(?:(?:\/\/|#|\*)[^\n]*)?\n)*$/.exec(above) ?? [];
  return lines === undefined ? undefined : above.length - lines.length + space.length;
}

/** Offset of a dash that a word follows at once, so that YAML takes both for a word. */
function tightDash(text: string, offset: number): number | undefined {
  const [line, space = ''] = /^([ \t]*)-[A-Za-z][\w-]*:(?:\s|$)/.exec(lineAt(text, offset)) ?? [];
  return line === undefined ? undefined : lineStart(text, offset) + space.length;
}

/** An operator that means something else to YAML, where it is a key; a break is found at it or just after it. */
function operatorAt(text: string, offset: number): readonly [start: number, name: string] | undefined {
  const start = lineStart(text, offset);
  const [, before = '', name] = /^(.*[{\s])(>=?|%)\s*:/.exec(lineAt(text, offset)) ?? [];
  const from = start + before.length;
  const is_there = name !== undefined && offset >= from && offset <= from + name.length;
  return is_there ? [from, name] : undefined;
}

/** What to say about a character YAML did not expect, by that character and the one before it. */
function unexpected(text: string, start: number): Wording | undefined {
  const [before = '', at = ''] = [text[start - 1], text[start]];
  if (before === "'" && /[\w]/.test(at))
    return ['text follows a closed quote', "inside '...' write '' for an apostrophe"];
  if (before === '"' && /[\w]/.test(at)) return ['text follows a closed quote', 'inside "..." write \\" for a quote'];
  if (at === ']' || at === '}') return ['this bracket closes nothing', 'remove it, or add the opening one'];
  if (at === ',') return ['there is nothing before this comma', 'remove it'];
  const line = text.slice(lineStart(text, start), start + 1);
  if (/^\s*(?:- +)*[\w-]+: +(?:-|[[{|>"'])/.test(line))
    return ['YAML does not expect this here', 'quote the whole value'];
  return undefined;
}

/** Offsets of the first line that a merge left behind. */
function conflict(text: string): Break | undefined {
  const match = /^(?:<{7}|={7}|>{7}|\|{7})(?:[ \t].*)?$/m.exec(text);
  if (match === null) return undefined;
  return {
    code: 'C1007',
    start: match.index,
    end: match.index + 7,
    message: 'a merge conflict is not resolved',
    help: 'keep one of the two sides and delete the lines <<<<<<<, ======= and >>>>>>>',
  };
}

/** Offset of a space that only looks like one, before the text of a line up to `offset`. */
function strangeSpace(text: string, offset: number): number | undefined {
  const match = /^[ \t]*[\u00a0\u2000-\u200b\u202f\u3000\ufeff]/m.exec(text.slice(0, lineEnd(text, offset)));
  return match === null ? undefined : match.index + match[0].length - 1;
}

/** An unquoted operator such as `!:` or `!==:` reads as a tag. */
function explainTag(text: string, [start, end]: readonly [number, number]): Break {
  const tag = text.slice(start, end);
  if (/^!(?:!|==?)?:?$/.test(tag)) {
    const operator = tag.replace(/:$/, '');
    const help = `YAML reads an unquoted \`!\` as a tag: write "${operator}": instead`;
    return { code: 'C1013', start, end, message: `the operator \`${operator}\` must be quoted`, help };
  }
  const message = 'explicit tags are not part of this language';
  return { code: 'C1012', start, end, message, help: 'remove the tag, or quote the text' };
}

/** @param more how many keys of the same mapping are there twice, too: then it is rather two mappings in one. */
function explainDuplicate(text: string, start: number, more: number): Break {
  const key = /^[^\s:,{}]+/.exec(text.slice(start))?.[0] ?? '';
  const message = `the key \`${key}\` is already used in this mapping`;
  const is_top = start === lineStart(text, start);
  const several = is_top
    ? 'further keys are repeated, too: was something pasted twice?'
    : `if a new item of a list begins here, write \`- ${key}:\``;
  const once =
    key === 'rule' || key === 'var'
      ? `combine conditions: { and: [{ ${key}: ... }, { ${key}: ... }] }`
      : 'keep one of them';
  const help = more === 0 ? once : several;
  return { code: 'C1009', start, end: start + key.length, message, help };
}

/**
 * What is wrong with a file as YAML: every repeated key and every tag, and the first of all other breaks, because one
 * slip makes the library complain about much that follows.
 */
export function yamlBreaks(problems: readonly YamlProblem[], spans: readonly Span[], text: string): readonly Break[] {
  const directive = /^(?:[ \t]*(?:#.*)?\r?\n)*%/.exec(text);
  if (directive !== null) {
    const start = directive[0].length - 1;
    return [{ code: 'C1007', start, end: start + 1, message: DIRECTIVE[0], help: DIRECTIVE[1]! }];
  }
  const left_behind = problems.length === 0 ? undefined : conflict(text);
  if (left_behind !== undefined) return [left_behind];
  // Where the library has run out of stack, what else it says depends on how far it got.
  const exhausted = problems.filter(({ code }) => code === 'RESOURCE_EXHAUSTION').slice(0, 1);
  const sorted = exhausted.length > 0 ? exhausted : problems.toSorted((a, b) => a.pos[0] - b.pos[0]);
  const breaks: Break[] = [];
  let first = true;
  const duplicates = sorted.filter(({ code }) => code === 'DUPLICATE_KEY').map(({ pos }) => pos[0]);
  for (const problem of sorted) {
    if (problem.code === 'DUPLICATE_KEY') {
      const others = duplicates.filter((start) => isSibling(text, problem.pos[0], start));
      if (others.every((start) => start > problem.pos[0]))
        breaks.push(explainDuplicate(text, problem.pos[0], others.length));
    } else if (problem.code === 'TAG_RESOLVE_FAILED') breaks.push(explainTag(text, problem.pos));
    else if (first) {
      first = false;
      breaks.push(explain(problem, sorted, spans, text));
    }
  }
  return breaks;
}
