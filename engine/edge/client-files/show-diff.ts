import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { printable } from '../../base/kit/text/printable.ts';
import type { Draft } from './clients.ts';

const CONTEXT_LINES = 3;

/** What stands in the place of a credential. */
const MASK = '<hidden>';

/** Keys whose value is a credential, in TOML and JSON; names of variables (`env_key`) and numbers of tokens are none. */
const CREDENTIAL =
  /((?:api[_-]?key|token|secret|password|credential|authorization|bearer|headers)["']?\s*[=:]\s*)("{3}[\s\S]*?"{3}|'{3}[\s\S]*?'{3}|"(?:[^"\\]|\\.)*"|'[^']*')/gi;

/** Headers as an object or an inline table, and as a table of TOML up to the next one; in a diff lines have a mark before them. */
const HEADERS = [/headers["']?\s*[=:]\s*\{[^}]*\}/gi, /^[ +-]?\[[^\]\n]*headers["']?\](?:\n(?![ +-]?\[|@@).*)*/gim];

/** A value of a header, behind its name. */
const HEADER_VALUE = /([\w"'.-]\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'[^']*')/g;

/** A text of a user's file as it may be shown: no credential, nothing a terminal acts upon. */
export function withoutCredentials(text: string, hides: string | undefined | readonly string[]): string {
  const hide = (_: string, key: string) => `${key}"${MASK}"`;
  const without_headers = HEADERS.reduce(
    (rest, headers) => rest.replace(headers, (found) => found.replace(HEADER_VALUE, hide)),
    text,
  );
  const masked = without_headers.replace(CREDENTIAL, hide);
  return printable(withoutTexts(masked, secretTexts([hides ?? []].flat())).replaceAll('\r\n', '\n'));
}

/** A shorter text is part of many words, which would be hidden in its place and tell what it is. */
const SECRET_LENGTH_MIN = 6;

/** Those of some texts that may be hidden wherever they stand: what a file has as a key may also be `x`. */
export function secretTexts(texts: readonly string[]): string[] {
  return texts.filter(({ length }) => length >= SECRET_LENGTH_MIN);
}

/** At once, so that the mask of one is no place for another; the longest first. */
function withoutTexts(text: string, hides: readonly string[]): string {
  if (hides.length === 0) return text;
  const longest_first = hides.toSorted((a, b) => b.length - a.length);
  return text.replace(new RegExp(longest_first.map(literally).join('|'), 'g'), MASK);
}

const literally = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** What a draft changes, as a unified diff in which no credential can be read. Only a credential that changes leaves a line. */
export function showDiff(
  { path, before, after }: Draft,
  hides: string | undefined | readonly string[],
  color: boolean,
): string {
  const from = before === undefined ? '/dev/null' : path;
  const patch = createTwoFilesPatch(from, path, before ?? '', after, '', '', {
    context: CONTEXT_LINES,
    headerOptions: FILE_HEADERS_ONLY,
  });
  const lines = withoutCredentials(patch, hides).trimEnd().split('\n');
  return `${(color ? lines.map(colored) : lines).join('\n')}\n`;
}

function colored(line: string): string {
  if (/^(?:---|\+\+\+) /.test(line)) return `\x1b[1m${line}\x1b[22m`;
  const number = line.startsWith('+') ? 32 : line.startsWith('-') ? 31 : line.startsWith('@@') ? 36 : undefined;
  return number === undefined ? line : `\x1b[${number}m${line}\x1b[39m`;
}
