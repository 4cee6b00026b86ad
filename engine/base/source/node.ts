import { looksSecret } from './diagnostics/secrets.ts';

/** Position in a configuration file; line and column count from 1. */
export interface SourcePosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The `use:` entries that led to a node, outermost first. */
export type Chain = readonly { readonly file: string; readonly line: number }[];

/** Position and length of a node in its file, as marked by a diagnostic. */
export interface Mark extends SourcePosition {
  /** Length of the marked text on that line, in characters. */
  readonly length: number;
  readonly pointer: string;
  readonly chain?: Chain;
}

/** A string, number, boolean or null. */
export interface ScalarNode {
  readonly kind: 'scalar';
  readonly value: string | number | boolean | null;
  readonly mark: Mark;
  /** Offsets of the text in its file, start and end. */
  readonly range: readonly [number, number];
}

/** A YAML sequence. */
export interface ListNode {
  readonly kind: 'list';
  readonly items: readonly Node[];
  readonly mark: Mark;
}

/** One key of a mapping. */
export interface Entry {
  readonly key: string;
  readonly key_mark: Mark;
  readonly value: Node;
}

/** A YAML mapping; keys are unique strings. */
export interface MapNode {
  readonly kind: 'map';
  readonly entries: readonly Entry[];
  readonly mark: Mark;
}

/** A configuration value with its position. */
export type Node = ScalarNode | ListNode | MapNode;

/** The entry of `key`; `undefined` if `node` is no mapping or lacks the key. */
export function entryOf(node: Node | undefined, key: string): Entry | undefined {
  if (node?.kind !== 'map') return undefined;
  return node.entries.find((entry) => entry.key === key);
}

/** The value at a path of keys; `undefined` if a key is missing or a parent is no mapping. */
export function childOf(node: Node | undefined, ...keys: readonly string[]): Node | undefined {
  return keys.reduce<Node | undefined>((owner, key) => entryOf(owner, key)?.value, node);
}

/** The items of a list; empty for other nodes. */
export function itemsOf(node: Node | undefined): readonly Node[] {
  return node?.kind === 'list' ? node.items : [];
}

/** The entries of a mapping; empty for other nodes. */
export function entriesOf(node: Node | undefined): readonly Entry[] {
  return node?.kind === 'map' ? node.entries : [];
}

/** The scalars at a path of keys; `*` stands for each item of a list. */
export function scalarsAt(node: Node | undefined, keys: readonly string[]): readonly ScalarNode[] {
  const [key, ...rest] = keys;
  if (key === '*') return itemsOf(node).flatMap((item) => scalarsAt(item, rest));
  if (key !== undefined) return scalarsAt(childOf(node, key), rest);
  return node?.kind === 'scalar' ? [node] : [];
}

/** A copy with the items of a list, or the values of a mapping, mapped by `change`. */
export function mapValues<T extends Node>(node: T, change: (value: Node) => Node): T {
  if (node.kind === 'scalar') return node;
  if (node.kind === 'list') return { ...node, items: node.items.map(change) };
  return { ...node, entries: node.entries.map((entry) => ({ ...entry, value: change(entry.value) })) };
}

/** A copy with one node in place of another. */
export function replaceNode<T extends Node>(node: T, old: Node, fresh: Node): T {
  return node === old ? (fresh as T) : mapValues(node, (value) => replaceNode(value, old, fresh));
}

/** The text of a non-empty string; `undefined` for anything else. */
export function textOf(node: Node | undefined): string | undefined {
  if (node?.kind !== 'scalar' || typeof node.value !== 'string' || node.value === '') return undefined;
  return node.value;
}

/** One token of a JSON pointer, escaped (RFC 6901). */
export function pointerToken(key: string | number): string {
  return `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** The tokens of a JSON pointer. */
export function pointerTokens(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The mapping or list of a plain value that contains the target of a JSON pointer, and the target's key. */
export function holderAt(root: unknown, pointer: string): readonly [owner: Record<string, unknown>, key: string] {
  const tokens = pointerTokens(pointer);
  const key = tokens.pop()!;
  const owner = tokens.reduce(
    (inner, token) => inner[token] as Record<string, unknown>,
    root as Record<string, unknown>,
  );
  return [owner, key];
}

/** The node at a JSON pointer, or its nearest existing ancestor. */
export function nodeAt(root: Node, pointer: string): Node {
  let node = root;
  for (const token of pointerTokens(pointer)) {
    const next = node.kind === 'list' ? node.items[Number(token)] : childOf(node, token);
    if (next === undefined) return node;
    node = next;
  }
  return node;
}

/** The plain value without positions: a fresh copy that a validator may fill with defaults. */
export function toValue(node: Node): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(toValue);
  const value: Record<string, unknown> = {};
  for (const entry of node.entries) {
    // A plain assignment to `__proto__` would set the prototype instead of a key.
    Object.defineProperty(value, entry.key, {
      value: toValue(entry.value),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return value;
}

/** A copy with each mark mapped by `change`. */
export function remark(node: Node, change: (mark: Mark) => Mark): Node {
  const mark = change(node.mark);
  if (node.kind === 'scalar') return { ...node, mark };
  if (node.kind === 'list') return { ...node, mark, items: node.items.map((item) => remark(item, change)) };
  return {
    ...node,
    mark,
    entries: node.entries.map(({ key, key_mark, value }) => ({
      key,
      key_mark: change(key_mark),
      value: remark(value, change),
    })),
  };
}

/** Every scalar below a node, itself included. */
export function scalarsOf(node: Node): readonly ScalarNode[] {
  if (node.kind === 'scalar') return [node];
  return (node.kind === 'list' ? node.items : node.entries.map((entry) => entry.value)).flatMap(scalarsOf);
}

/** Whether a node exists at this pointer; `nodeAt` would return the nearest parent. */
export function isWritten(root: Node, pointer: string): boolean {
  if (pointer === '') return true;
  const parent = nodeAt(root, pointer.slice(0, pointer.lastIndexOf('/')));
  return nodeAt(root, pointer) !== parent;
}

const SHOWN_CHARACTERS = 60;

/** A value as shown in a diagnostic; likely secrets are hidden. */
export function describe(node: Node): string {
  if (node.kind === 'list') return node.items.length === 0 ? 'an empty list' : 'a list';
  if (node.kind === 'map') return node.entries.length === 0 ? 'an empty mapping' : 'a mapping';
  const { value } = node;
  if (value === null) return 'nothing';
  if (typeof value !== 'string') return String(value);
  if (value === '') return 'an empty string';
  return `the string ${quote(value)}`;
}

/** A text in double quotes, shortened; stars in place of a likely secret. */
export function quote(text: string): string {
  if (looksSecret(text)) return '"***"';
  return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text);
}

/** A key as shown in a diagnostic; stars in place of a likely secret. */
export function keyName(key: string): string {
  return looksSecret(key) ? '`***`' : `\`${key}\``;
}
