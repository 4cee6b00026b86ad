/** Unsafe to show: control, format and separator characters, lone surrogates, blank letters; by category of Unicode. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]|\u034f/gu;
const MARK = '\uFFFD';

/** A text that is safe on a terminal: unsafe characters, except tab and line feed, are replaced by a mark. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (found) => (found === '\n' || found === '\t' ? found : MARK));
}

/** Like `printable`, on one line: tabs and line feeds become spaces. */
export function printableLine(text: string): string {
  return printable(text).replace(/[\t\n]/g, ' ');
}

/** Joins lines into a text, each on exactly one line. */
export function printableLines(lines: readonly string[]): string {
  return `${lines.map(printableLine).join('\n')}\n`;
}

/** Whether a text is safe on one line unchanged; required of names. */
export function isPrintableLine(text: string): boolean {
  return text.search(UNPRINTABLE) < 0;
}

/** A word of a line, quoted if it contains spaces or quotes. */
export function printableWord(text: string): string {
  const line = printableLine(text);
  return /^[^\s"']+$/.test(line) ? line : JSON.stringify(line);
}

/** JSON that is safe on a terminal: unsafe characters are escaped, so that the value stays the same. */
export function jsonText(value: unknown, indent?: number): string {
  const escaped = (found: string) =>
    found === '\n'
      ? found
      : found.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  // Remaining line feeds are between values; within texts they are already escaped.
  return JSON.stringify(value, null, indent).replace(UNPRINTABLE, escaped);
}

const SEEN_OR_STYLE = new RegExp(String.raw`\x1b\[[\d;]*m|${UNPRINTABLE.source}`, 'gu');

/** Like `printable`, but keeps escape sequences for colours and weights. */
export function printableStyled(text: string): string {
  const shown = (found: string) => (found === '\n' || found === '\t' || found.length > 2 ? found : MARK);
  return text.replace(SEEN_OR_STYLE, shown);
}
