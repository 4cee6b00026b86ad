/**
 * Characters that a terminal acts upon instead of showing them, that hide, reorder or end the text around them, or that are
 * none: control, format (bidi, zero width, tags) and separator characters, halves of characters, and letters that look like
 * nothing. By category and not by list, so that what Unicode adds is in it.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]|\u034f/gu;
const MARK = '\uFFFD';

/** A text that is safe to show on a terminal: one mark in place of each character that is none to show, but tab and line feed. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (found) => (found === '\n' || found === '\t' ? found : MARK));
}

/** A text that is safe to show within one line: like `printable`, with spaces for tabs and line feeds. */
export function printableLine(text: string): string {
  return printable(text).replace(/[\t\n]/g, ' ');
}

/** Lines as one text, each of them on one line whatever it holds. */
export function printableLines(lines: readonly string[]): string {
  return `${lines.map(printableLine).join('\n')}\n`;
}

/** Whether a text can be shown within a line as it is; what names things should be such a text. */
export function isPrintableLine(text: string): boolean {
  return text.search(UNPRINTABLE) < 0;
}

/** A word within a line of words: in quotes where it could be taken for more than one. */
export function printableWord(text: string): string {
  const line = printableLine(text);
  return /^[^\s"']+$/.test(line) ? line : JSON.stringify(line);
}

/** JSON that is safe to show on a terminal: what is not printable is written as escapes, so that its value stays the same. */
export function jsonText(value: unknown, indent?: number): string {
  const escaped = (found: string) =>
    found === '\n'
      ? found
      : found.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  // Line feeds are those between values: within texts they are escaped already.
  return JSON.stringify(value, null, indent).replace(UNPRINTABLE, escaped);
}

const SEEN_OR_STYLE = new RegExp(String.raw`\x1b\[[\d;]*m|${UNPRINTABLE.source}`, 'gu');

/** Like `printable`, for a text that may hold escape sequences for colours and weights of our own. */
export function printableStyled(text: string): string {
  const shown = (found: string) => (found === '\n' || found === '\t' || found.length > 2 ? found : MARK);
  return text.replace(SEEN_OR_STYLE, shown);
}
