import { findNodeAtLocation, type Node, type ParseError, parse, parseTree } from 'jsonc-parser';
import { BrokenFile, isTable, overlay, saysTheSame, type Values } from './broken-file.ts';

const BYTE_ORDER_MARK = '\uFEFF';

/** A JSON text with values set and paths removed; every other byte stays. Raises BrokenFile unless it is an object. */
export function mergeJson(text: string, values: Values, drops: readonly (readonly string[])[] = []): string {
  const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
  const content = text.slice(mark.length);
  if (content.trim() === '') return `${mark}${JSON.stringify(values, null, 2)}\n`;
  parseObject(content);
  const body = drops.reduce(withoutMember, content);
  const found = parseObject(body);
  const wanted = overlay(found, values);
  if (saysTheSame(found, wanted)) return mark + body;
  const style = {
    newline: body.includes('\r\n') ? '\r\n' : '\n',
    indent: /\n([ \t]+)["}]/.exec(body)?.[1] ?? '  ',
  };
  const result = setAll(body, [], values, style);
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

const endOf = ({ offset, length }: Node) => offset + length;

function setAll(text: string, path: readonly string[], values: Values, style: Style): string {
  let result = text;
  for (const [key, value] of Object.entries(values)) {
    const place = [...path, key];
    const found = findNodeAtLocation(parseTree(result)!, place);
    if (found === undefined) result = insert(result, place, value, style);
    else if (isTable(value)) result = setAll(result, place, value, style);
    else result = result.slice(0, found.offset) + JSON.stringify(value) + result.slice(endOf(found));
  }
  return result;
}

/** A valid text without the member at a path, also where it is repeated. Removes a parent that becomes empty. */
function withoutMember(text: string, path: readonly string[]): string {
  const member = findNodeAtLocation(parseTree(text)!, [...path])?.parent;
  if (member === undefined) return text;
  const object = member.parent!;
  const members = object.children!;
  const index = members.indexOf(member);
  const [before, next] = [members[index - 1], members[index + 1]];
  const start = before === undefined ? object.offset + 1 : endOf(before);
  const from = next === undefined ? start : member.offset;
  const to = next?.offset ?? (before === undefined ? endOf(object) - 1 : endOf(member));
  const is_empty = members.length === 1 && path.length > 1;
  return withoutMember(text.slice(0, from) + text.slice(to), is_empty ? path.slice(0, -1) : path);
}

function insert(text: string, path: readonly string[], value: unknown, style: Style): string {
  const object = findNodeAtLocation(parseTree(text)!, path.slice(0, -1))!;
  const last = object.children!.at(-1);
  const base = indentAt(text, object.offset);
  const many_lines = last === undefined || text.slice(object.offset, last.offset).includes('\n');
  const indent = last === undefined ? base + style.indent : indentAt(text, last.offset);
  const json = many_lines ? JSON.stringify(value, null, style.indent) : JSON.stringify(value);
  const member = `${JSON.stringify(path.at(-1))}: ${json.replaceAll('\n', style.newline + indent)}`;
  const lead = many_lines ? style.newline + indent : ' ';
  if (last !== undefined) return `${text.slice(0, endOf(last))},${lead}${member}${text.slice(endOf(last))}`;
  return `${text.slice(0, object.offset + 1)}${lead}${member}${style.newline}${base}${text.slice(endOf(object) - 1)}`;
}

function indentAt(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset);
  return /^[ \t]*/.exec(line)![0];
}
