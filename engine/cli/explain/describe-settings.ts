import { jsonText } from '../../kit/text/printable.ts';
import type { SourcePosition } from '../../source/node.ts';
import { type MapNode, type Node, pointerToken, toValue } from '../../source/node.ts';

/** How a position is written, such as `policies/standard.yaml:7`. */
export type TellPosition = (position: SourcePosition) => string;

interface Line {
  readonly text: string;
  /** Absent for the head of a mapping or list, whose parts have positions of their own. */
  readonly from?: string;
}

/** A column further to the right leaves no room for positions. */
const MAX_TEXT_WIDTH = 52;

/** Settings as lines of YAML, each with the position it comes from as a comment: beside it, or above it where the line is too long. */
export function describeSettings(settings: MapNode, tell: TellPosition, line_width: number): string[] {
  if (settings.entries.length === 0) return ['{}'];
  const lines = linesOf(settings, '', tell);
  const fitting = lines.filter(({ text }) => text.length <= MAX_TEXT_WIDTH);
  const width = fitting.reduce((widest, { text }) => Math.max(widest, text.length), 0);
  return lines.flatMap(({ text, from }) => {
    if (from === undefined) return [text];
    const line = `${text.padEnd(width)}  # ${from}`;
    if (line.length <= line_width) return [line];
    const indent = text.slice(0, text.length - text.trimStart().length);
    return [`${indent}# ${from}`, text];
  });
}

function linesOf(owner: MapNode, indent: string, tell: TellPosition): Line[] {
  return owner.entries.flatMap(({ key, key_mark, value }): Line[] => {
    const head = `${indent}${inYaml(key)}:`;
    if (value.kind === 'map' && value.entries.length > 0)
      return [{ text: head }, ...linesOf(value, `${indent}  `, tell)];
    if (value.kind === 'list' && value.items.length > 0) {
      const items = value.items.map((item) => ({ text: `${indent}  - ${flow(item)}`, from: tell(item.mark) }));
      return [{ text: head }, ...items];
    }
    return [{ text: `${head} ${flow(value)}`, from: tell(key_mark) }];
  });
}

function flow(node: Node): string {
  const value = toValue(node);
  return typeof value === 'string' ? inYaml(value) : jsonText(value);
}

/** A text that YAML reads as this text, without quotes where it needs none. */
function inYaml(text: string): string {
  const is_plain = /^[A-Za-z_][\w./@-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(text);
  return is_plain ? text : jsonText(text);
}

/** The position of every part that is neither a mapping nor the list it stands in, by JSON pointer. */
export function originsOf(settings: MapNode, tell: TellPosition, pointer = ''): Record<string, string> {
  const origins = settings.entries.flatMap(({ key, key_mark, value }): [string, string][] => {
    const at = pointer + pointerToken(key);
    if (value.kind === 'map' && value.entries.length > 0) return Object.entries(originsOf(value, tell, at));
    if (value.kind !== 'list' || value.items.length === 0) return [[at, tell(key_mark)]];
    return value.items.map((item, index) => [at + pointerToken(index), tell(item.mark)]);
  });
  return Object.fromEntries(origins);
}
