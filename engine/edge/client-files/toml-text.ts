import { parse, patch } from '@decimalturn/toml-patch';
import { BrokenFile, isTable, overlay, type Scalar, saysTheSame, type Values } from './broken-file.ts';

const BYTE_ORDER_MARK = '\uFEFF';

/** Sets values and removes paths; keeps comments, order and format, or raises BrokenFile. */
export function mergeToml(text: string, values: Values, drops: readonly (readonly string[])[] = []): string {
  const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
  const body = withoutKeys(text.slice(mark.length), drops);
  const found = parseToml(body);
  const wanted = overlay(found, values);
  if (saysTheSame(found, wanted)) return mark + body;
  const candidates = [
    // The library puts new keys after the next table's comment. Inserted lines do not, but support only tables with a header.
    () => insertKeys(patch(body, overlayKnown(found, values)), missing(found, values)),
    () => patch(body, wanted),
  ];
  for (const make of candidates) {
    const result = attempt(make);
    if (result !== undefined && says(result, wanted) && keepsComments(body, result)) return mark + result;
  }
  throw cannotChange();
}

function cannotChange(): BrokenFile {
  return new BrokenFile('its format cannot be changed without a loss; add the keys by hand');
}

/** A text without some keys. Also removes tables that become empty, and comments that belong to removed keys. */
function withoutKeys(text: string, drops: readonly (readonly string[])[]): string {
  const found = parseToml(text);
  const wanted = drops.reduce(withoutKey, found);
  if (wanted === found) return text;
  const result = attempt(() => patch(text, wanted));
  if (result === undefined || !says(result, wanted)) throw cannotChange();
  return result;
}

function withoutKey(found: Record<string, unknown>, [key, ...deeper]: readonly string[]): Record<string, unknown> {
  if (key === undefined || !Object.hasOwn(found, key)) return found;
  const { [key]: value, ...rest } = found;
  if (deeper.length === 0) return rest;
  if (!isTable(value)) return found;
  const inner = withoutKey(value, deeper);
  if (inner === value) return found;
  return Object.keys(inner).length === 0 ? rest : { ...found, [key]: inner };
}

/** Most parts of a dotted key: the library takes minutes for thousands. */
const KEY_PARTS_MAX = 32;
const LONG_KEY = new RegExp(String.raw`(?:["'\w-]{1,100}[ \t]{0,20}\.[ \t]{0,20}){${KEY_PARTS_MAX}}`);

/** Parses a TOML text. Raises BrokenFile with the line for invalid TOML. */
export function parseToml(text: string): Record<string, unknown> {
  if (LONG_KEY.test(text)) throw new BrokenFile(`it has a dotted key of more than ${KEY_PARTS_MAX} parts`);
  try {
    return parse(text.startsWith(BYTE_ORDER_MARK) ? text.slice(BYTE_ORDER_MARK.length) : text) as Record<
      string,
      unknown
    >;
  } catch (error) {
    const { message, line } = error as Error & { readonly line?: number };
    throw new BrokenFile(`invalid TOML: ${line === undefined ? 'nested too deeply' : reasonOf(message)}`, line);
  }
}

/** The library's error message without quotes of the file, which may be secret. */
function reasonOf(message: string): string {
  // The lines before the last quote the file, and so do quoted words, unless they are brackets or the like.
  const reason = message
    .split('\n')
    .at(-1)!
    .replace(/ ?"(.*)"/, (quoted, text: string) => (/^[^\w\s]{1,2}$/.test(text) ? quoted : ''));
  return /^Invalid (?:integer|float)$/.test(reason) ? 'a text needs quotes around it' : reason;
}

function attempt(make: () => string): string | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

function says(text: string, wanted: unknown): boolean {
  try {
    return saysTheSame(parse(text), wanted);
  } catch {
    return false;
  }
}

function keepsComments(before: string, after: string): boolean {
  const count = (text: string) => {
    const counts = new Map<string, number>();
    for (const line of text.split(/\r?\n/)) {
      const comment = /^\s*(#.*)$/.exec(line)?.[1];
      if (comment !== undefined) counts.set(comment, (counts.get(comment) ?? 0) + 1);
    }
    return counts;
  };
  const kept = count(after);
  return [...count(before)].every(([comment, times]) => (kept.get(comment) ?? 0) >= times);
}

function overlayKnown(found: Readonly<Record<string, unknown>>, values: Values): Record<string, unknown> {
  const result = { ...found };
  for (const [key, value] of Object.entries(values)) {
    if (!Object.hasOwn(found, key)) continue;
    const inner = found[key];
    result[key] = isTable(value) && isTable(inner) ? overlayKnown(inner, value) : value;
  }
  return result;
}

function missing(found: unknown, values: Values, path: readonly string[] = []): Missing[] {
  const table = isTable(found) ? found : {};
  const keys = Object.entries(values).filter(
    (entry): entry is [string, Scalar] => !isTable(entry[1]) && !Object.hasOwn(table, entry[0]),
  );
  const inner = Object.entries(values).flatMap(([key, value]) =>
    isTable(value) ? missing(Object.hasOwn(table, key) ? table[key] : undefined, value, [...path, key]) : [],
  );
  return [...(keys.length > 0 ? [{ path, keys }] : []), ...inner];
}

/** A table with the keys to add. */
export interface Missing {
  readonly path: readonly string[];
  readonly keys: readonly (readonly [key: string, value: Scalar])[];
}

interface Section {
  readonly path: string | undefined;
  readonly header: number;
  readonly end: number;
}

/** Inserts missing keys as lines. Finds tables by header lines only, so the caller must verify the result. */
function insertKeys(text: string, missing: readonly Missing[]): string {
  const newline = text.includes('\r\n') ? '\r\n' : '\n';
  // Each line keeps its own line break.
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

/** Adds keys to an empty root: below the leading comment of the file, which ends at an empty line. */
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

/** The line of a key or table header, from 1; `undefined` in an inline table. Relies on the form of lines. */
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
  // JSON and TOML share escapes, except for DEL, which JSON does not escape.
  return JSON.stringify(value).replaceAll('\x7f', '\\u007f');
}
