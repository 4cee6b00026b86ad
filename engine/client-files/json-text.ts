import { BrokenFile, isTable, overlay, saysTheSame, type Values } from './broken-file.ts';

const BYTE_ORDER_MARK = '\uFEFF';

/** Where a member of an object stands in a text; offsets. */
interface Member {
  readonly key: string;
  readonly start: number;
  readonly value_start: number;
  readonly value_end: number;
}

/**
 * A JSON text with these values in its object and without the members at these paths; every other byte stays. A text of
 * nothing but white space becomes an object. Raises BrokenFile for a text that is no JSON object.
 */
export function mergeJson(text: string, values: Values, drops: readonly (readonly string[])[] = []): string {
  const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
  const given = text.slice(mark.length);
  if (given.trim() === '') return `${mark}${JSON.stringify(values, null, 2)}\n`;
  parseObject(given);
  const body = drops.reduce((rest, path) => withoutMember(rest, skipSpace(rest, 0), path), given);
  const found = parseObject(body);
  const wanted = overlay(found, values);
  if (saysTheSame(found, wanted)) return mark + body;
  const style = {
    newline: body.includes('\r\n') ? '\r\n' : '\n',
    indent: /\n([ \t]+)["}]/.exec(body)?.[1] ?? '  ',
  };
  const result = setAll(body, skipSpace(body, 0), values, style);
  if (!saysTheSame(parseObject(result), wanted)) throw new BrokenFile('its form cannot be changed safely');
  return mark + result;
}

/** What a JSON text says. Raises BrokenFile, with the line, for one that is no JSON object. */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const { message } = error as Error;
    const offset = /at position (\d+)/.exec(message)?.[1];
    const line = offset === undefined ? text.trimEnd().split('\n').length : lineAt(text, Number(offset));
    throw new BrokenFile('it is not JSON; comments and commas before a closing bracket are not allowed', line);
  }
  if (!isTable(value)) throw new BrokenFile('it is JSON, but not an object in braces', 1);
  return value;
}

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}

interface Style {
  readonly newline: string;
  readonly indent: string;
}

/** Sets values in the object that begins at an offset of a valid text. */
function setAll(text: string, start: number, values: Values, style: Style): string {
  let result = text;
  for (const [key, value] of Object.entries(values)) {
    // The last of several is the one that counts.
    const member = membersOf(result, start).findLast((each) => each.key === key);
    if (member === undefined) result = insert(result, start, key, value, style);
    else if (isTable(value)) result = setAll(result, member.value_start, value, style);
    else result = result.slice(0, member.value_start) + JSON.stringify(value) + result.slice(member.value_end);
  }
  return result;
}

/** A valid text without a member; one that held nothing else goes with it. */
function withoutMember(text: string, start: number, [key, ...deeper]: readonly string[]): string {
  const members = membersOf(text, start);
  const index = members.findLastIndex((each) => each.key === key);
  const member = members[index];
  if (member === undefined) return text;
  if (deeper.length > 0) {
    if (text[member.value_start] !== '{') return text;
    const rest = withoutMember(text, member.value_start, deeper);
    return rest === text || membersOf(rest, member.value_start).length > 0 ? rest : withoutMember(rest, start, [key!]);
  }
  const [before, next] = [members[index - 1], members[index + 1]];
  const from = next === undefined ? (before?.value_end ?? start + 1) : member.start;
  const to = next?.start ?? (before === undefined ? skipSpace(text, member.value_end) : member.value_end);
  // A key may stand there more than once.
  return withoutMember(text.slice(0, from) + text.slice(to), start, [key!]);
}

function insert(text: string, start: number, key: string, value: unknown, style: Style): string {
  const members = membersOf(text, start);
  const last = members.at(-1);
  const base = indentAt(text, start);
  const many_lines = last === undefined || text.slice(start, last.start).includes('\n');
  const indent = last === undefined ? base + style.indent : indentAt(text, last.start);
  const json = many_lines ? JSON.stringify(value, null, style.indent) : JSON.stringify(value);
  const member = `${JSON.stringify(key)}: ${json.replaceAll('\n', style.newline + indent)}`;
  const lead = many_lines ? style.newline + indent : ' ';
  if (last !== undefined) return `${text.slice(0, last.value_end)},${lead}${member}${text.slice(last.value_end)}`;
  const end = skipSpace(text, start + 1);
  return `${text.slice(0, start + 1)}${lead}${member}${style.newline}${base}${text.slice(end)}`;
}

/** White space at the beginning of the line of an offset. */
function indentAt(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset);
  return /^[ \t]*/.exec(line)![0];
}

function membersOf(text: string, start: number): Member[] {
  const members: Member[] = [];
  let at = skipSpace(text, start + 1);
  while (text[at] === '"') {
    const key_end = endOfString(text, at);
    const value_start = skipSpace(text, skipSpace(text, key_end) + 1);
    const value_end = endOfValue(text, value_start);
    members.push({ key: JSON.parse(text.slice(at, key_end)) as string, start: at, value_start, value_end });
    at = skipSpace(text, value_end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return members;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at++;
  return at;
}

function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function endOfValue(text: string, from: number): number {
  let depth = 0;
  let at = from;
  do {
    const char = text[at]!;
    if (char === '"') {
      at = endOfString(text, at);
      continue;
    }
    if (char === '{' || char === '[') depth++;
    if (char === '}' || char === ']') depth--;
    at++;
    if (depth === 0 && !/[[\]{}]/.test(char)) while (at < text.length && !/[\s,\]}]/.test(text[at]!)) at++;
  } while (depth > 0);
  return at;
}
