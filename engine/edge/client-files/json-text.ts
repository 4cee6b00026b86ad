import { findNodeAtOffset, type Node, type ParseError, parse, parseTree } from 'jsonc-parser';
import { BrokenFile, isTable, overlay, saysTheSame, type Values } from './broken-file.ts';

const BYTE_ORDER_MARK = '\uFEFF';

/**
 * A JSON text with these values set and the members at these paths removed; every other byte stays. A blank text becomes an
 * object. Raises BrokenFile unless the text is a JSON object.
 */
export function mergeJson(text: string, values: Values, drops: readonly (readonly string[])[] = []): string {
  const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
  const content = text.slice(mark.length);
  if (content.trim() === '') return `${mark}${JSON.stringify(values, null, 2)}\n`;
  parseObject(content);
  const root = parseTree(content)!.offset;
  const body = drops.reduce((rest, path) => withoutMember(rest, root, path), content);
  const found = parseObject(body);
  const wanted = overlay(found, values);
  if (saysTheSame(found, wanted)) return mark + body;
  const style = {
    newline: body.includes('\r\n') ? '\r\n' : '\n',
    indent: /\n([ \t]+)["}]/.exec(body)?.[1] ?? '  ',
  };
  const result = setAll(body, root, values, style);
  if (!saysTheSame(parseObject(result), wanted))
    throw new BrokenFile('its format cannot be changed safely; edit it by hand');
  return mark + result;
}

/** Parses a JSON object. Raises BrokenFile with the line for any other text. */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text.startsWith(BYTE_ORDER_MARK) ? text.slice(BYTE_ORDER_MARK.length) : text);
  } catch {
    throw new BrokenFile('invalid JSON; comments and trailing commas are not allowed', lineOfFault(text));
  }
  if (!isTable(value)) throw new BrokenFile('not a JSON object', 1);
  return value;
}

function lineOfFault(text: string): number | undefined {
  const errors: ParseError[] = [];
  try {
    parse(text, errors, { disallowComments: true });
  } catch {
    // The parser raises for deep nesting.
  }
  return errors[0] && text.trimEnd().slice(0, errors[0].offset).split('\n').length;
}

interface Style {
  readonly newline: string;
  readonly indent: string;
}

/** A member of an object, with its offsets. */
interface Member {
  readonly key: string;
  readonly start: number;
  readonly value: Node;
  readonly end: number;
}

function objectAt(text: string, start: number): { readonly members: readonly Member[]; readonly end: number } {
  const { children, length } = findNodeAtOffset(parseTree(text)!, start)!;
  const members = children!.map((node): Member => {
    const [key, value] = node.children!;
    return { key: key!.value as string, start: node.offset, value: value!, end: node.offset + node.length };
  });
  return { members, end: start + length };
}

/** Sets values in the object that begins at an offset of a valid text. */
function setAll(text: string, start: number, values: Values, style: Style): string {
  let result = text;
  for (const [key, value] of Object.entries(values)) {
    // Of duplicate keys the last is effective.
    const member = objectAt(result, start).members.findLast((each) => each.key === key);
    if (member === undefined) result = insert(result, start, key, value, style);
    else if (isTable(value)) result = setAll(result, member.value.offset, value, style);
    else result = result.slice(0, member.value.offset) + JSON.stringify(value) + result.slice(member.end);
  }
  return result;
}

/** A valid text without a member. Removes a parent that becomes empty. */
function withoutMember(text: string, start: number, [key, ...deeper]: readonly string[]): string {
  const { members, end } = objectAt(text, start);
  const index = members.findLastIndex((each) => each.key === key);
  const member = members[index];
  if (member === undefined) return text;
  if (deeper.length > 0) {
    if (member.value.type !== 'object') return text;
    const rest = withoutMember(text, member.value.offset, deeper);
    const is_empty = rest !== text && objectAt(rest, member.value.offset).members.length === 0;
    return is_empty ? withoutMember(rest, start, [key!]) : rest;
  }
  const [before, next] = [members[index - 1], members[index + 1]];
  const from = next === undefined ? (before?.end ?? start + 1) : member.start;
  const to = next?.start ?? (before === undefined ? end - 1 : member.end);
  // Remove duplicates of the key, too.
  return withoutMember(text.slice(0, from) + text.slice(to), start, [key!]);
}

function insert(text: string, start: number, key: string, value: unknown, style: Style): string {
  const { members, end } = objectAt(text, start);
  const last = members.at(-1);
  const base = indentAt(text, start);
  const many_lines = last === undefined || text.slice(start, last.start).includes('\n');
  const indent = last === undefined ? base + style.indent : indentAt(text, last.start);
  const json = many_lines ? JSON.stringify(value, null, style.indent) : JSON.stringify(value);
  const member = `${JSON.stringify(key)}: ${json.replaceAll('\n', style.newline + indent)}`;
  const lead = many_lines ? style.newline + indent : ' ';
  if (last !== undefined) return `${text.slice(0, last.end)},${lead}${member}${text.slice(last.end)}`;
  return `${text.slice(0, start + 1)}${lead}${member}${style.newline}${base}${text.slice(end - 1)}`;
}

/** White space at the beginning of the line of an offset. */
function indentAt(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset);
  return /^[ \t]*/.exec(line)![0];
}
