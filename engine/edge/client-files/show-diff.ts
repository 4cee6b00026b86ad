import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { printable } from '../../base/kit/text/printable.ts';
import type { Draft } from './clients.ts';

const CONTEXT_LINES = 3;

const MASK = '<hidden>';

/** Keys with a credential as value, in TOML and JSON. Does not match variable names (`env_key`) and token counts. */
const CREDENTIAL =
  /((?:api[_-]?key|token|secret|password|credential|authorization|bearer|headers)["']?\s*[=:]\s*)("{3}[\s\S]*?"{3}|'{3}[\s\S]*?'{3}|"(?:[^"\\]|\\.)*"|'[^']*')/gi;

/** Headers as an object, an inline table or a TOML table; lines of a diff begin with a marker. */
const HEADERS = [/headers["']?\s*[=:]\s*\{[^}]*\}/gi, /^[ +-]?\[[^\]\n]*headers["']?\](?:\n(?![ +-]?\[|@@).*)*/gim];

const HEADER_VALUE = /([\w"'.-]\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'[^']*')/g;

/** A file's text for display: credentials masked, control characters removed. */
export function withoutCredentials(text: string, hides: string | undefined | readonly string[]): string {
  const hide = (_: string, key: string) => `${key}"${MASK}"`;
  const without_headers = HEADERS.reduce(
    (rest, headers) => rest.replace(headers, (found) => found.replace(HEADER_VALUE, hide)),
    text,
  );
  const masked = without_headers.replace(CREDENTIAL, hide);
  return printable(withoutTexts(masked, secretTexts([hides ?? []].flat())).replaceAll('\r\n', '\n'));
}

/** A shorter secret is part of many words; masking those would reveal it. */
const SECRET_LENGTH_MIN = 6;

/** The texts that are long enough to mask everywhere: a configured key may be as short as `x`. */
export function secretTexts(texts: readonly string[]): string[] {
  return texts.filter(({ length }) => length >= SECRET_LENGTH_MIN);
}

function withoutTexts(text: string, hides: readonly string[]): string {
  if (hides.length === 0) return text;
  const longest_first = hides.toSorted((a, b) => b.length - a.length);
  return text.replace(new RegExp(longest_first.map(literally).join('|'), 'g'), MASK);
}

const literally = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** A draft as a unified diff with masked credentials. A changed credential still shows as a changed line. */
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
