import { parse } from '@decimalturn/toml-patch';
import type { Scalar } from './broken-file.ts';

/** A table of a file with the keys it lacks. */
export interface Missing {
  readonly path: readonly string[];
  readonly keys: readonly (readonly [key: string, value: Scalar])[];
}

/** A table of a file: where its header stands (-1 for the root) and the line after its last. */
interface Section {
  /** `undefined` for a list of tables. */
  readonly path: string | undefined;
  readonly header: number;
  readonly end: number;
}

/**
 * Puts keys that are missing into a TOML text, as lines: at the end of the table they belong to, or in a new table at the
 * end of the text. Knows tables by their headers only, and takes a line of a multi-line text for one that looks like it:
 * the caller parses the result.
 */
export function insertKeys(text: string, missing: readonly Missing[]): string {
  const newline = text.includes('\r\n') ? '\r\n' : '\n';
  // Each line keeps the line break it has.
  let lines = text === '' ? [] : text.split(/(?<=\n)/);
  if (!(lines.at(-1) ?? '\n').endsWith('\n')) lines.push(`${lines.pop()!}${newline}`);
  for (const { path, keys } of missing) lines = withKeys(lines, path, keys, newline);
  return lines.join('');
}

function withKeys(lines: readonly string[], path: readonly string[], keys: Missing['keys'], newline: string): string[] {
  const format = (indent: string) =>
    keys.map(([key, value]) => `${indent}${formatKey(key)} = ${formatValue(value)}${newline}`);
  const section = sectionsOf(lines).find((each) => each.path === JSON.stringify(path));
  if (section === undefined) {
    const gap = lines.length > 0 && lines.at(-1)!.trim() !== '' ? [newline] : [];
    return [...lines, ...gap, `[${path.map(formatKey).join('.')}]${newline}`, ...format('')];
  }
  const own = lines.slice(section.header + 1, section.end);
  const last = own.findLastIndex(isContent);
  if (last < 0 && section.header < 0) return atTheTop(lines, own, format(''), newline);
  const indent = /^[ \t]*/.exec(own.find(isContent) ?? '')![0];
  const at = section.header + 1 + last + 1;
  return [...lines.slice(0, at), ...format(indent), ...lines.slice(at)];
}

/** Keys of a root that has none: below the comment that heads the file, which an empty line ends. */
function atTheTop(
  lines: readonly string[],
  own: readonly string[],
  keys: readonly string[],
  newline: string,
): string[] {
  const is_all = own.length === lines.length;
  const blank = own.findIndex((line) => line.trim() === '');
  const at = is_all ? lines.length : blank + 1;
  const before = lines.slice(0, at);
  const after = lines.slice(at);
  return [...before, ...keys, ...(after.length > 0 && after[0]!.trim() !== '' ? [newline] : []), ...after];
}

/**
 * The line of a key or of the header of a table in a TOML text, counted from 1; `undefined` where it stands neither below the
 * header of its table nor in its own, as in an inline table. Like `insertKeys` it goes by the form of lines.
 */
export function lineInToml(text: string, path: readonly string[]): number | undefined {
  const lines = text.split(/(?<=\n)/);
  const sections = sectionsOf(lines);
  const own = sections.find((section) => section.path === JSON.stringify(path));
  if (own !== undefined && own.header >= 0) return own.header + 1;
  const table = sections.find((section) => section.path === JSON.stringify(path.slice(0, -1)));
  const [key = ''] = path.slice(-1);
  const forms = [key, JSON.stringify(key), `'${key}'`];
  const line = lines
    .slice((table?.header ?? 0) + 1, table?.end ?? 0)
    .findIndex((each) => forms.includes(/^\s*([\w-]+|"[^"]*"|'[^']*')\s*=/.exec(each)?.[1] ?? ''));
  return table === undefined || line < 0 ? undefined : table.header + 1 + line + 1;
}

function isContent(line: string): boolean {
  return !/^\s*(?:#|$)/.test(line);
}

function sectionsOf(lines: readonly string[]): Section[] {
  const headers = lines.flatMap((line, index) => (/^\s*\[.*\]\s*(?:#[^\n]*\n?)?$/.test(line) ? [index] : []));
  return [-1, ...headers].map((header, i) => ({
    path: header < 0 ? '[]' : pathOf(lines[header]!),
    header,
    end: headers[i] ?? lines.length,
  }));
}

/** The path that a header names, as JSON; `undefined` for what is no header of a table. */
function pathOf(header: string): string | undefined {
  const path: string[] = [];
  try {
    let table = parse(header) as Record<string, unknown>;
    for (let [key] = Object.keys(table); key !== undefined; [key] = Object.keys(table)) {
      path.push(key);
      const inner = table[key];
      if (Array.isArray(inner)) return undefined;
      table = inner as Record<string, unknown>;
    }
  } catch {
    return undefined;
  }
  return JSON.stringify(path);
}

function formatKey(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : formatValue(key);
}

function formatValue(value: Scalar): string {
  if (typeof value === 'object') return `[${value.map(formatValue).join(', ')}]`;
  // The escapes of a JSON text are those of a TOML text, but for DEL, which JSON leaves as it is.
  return JSON.stringify(value).replaceAll('\x7f', '\\u007f');
}
