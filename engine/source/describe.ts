import { looksSecret } from './diagnostics/secrets.ts';
import type { Node } from './node.ts';

const SHOWN_CHARACTERS = 60;

/** A value in the words of a diagnostic; what looks like a secret is not repeated. */
export function describe(node: Node): string {
  if (node.kind === 'list') return node.items.length === 0 ? 'an empty list' : 'a list';
  if (node.kind === 'map') return node.entries.length === 0 ? 'an empty mapping' : 'a mapping';
  const { value } = node;
  if (value === null) return 'nothing';
  if (typeof value !== 'string') return String(value);
  if (value === '') return 'an empty text';
  return `the text ${quote(value)}`;
}

/** A text in double quotes, shortened; stars in place of what looks like a secret. */
export function quote(text: string): string {
  if (looksSecret(text)) return '"***"';
  return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text);
}

/** A key as a diagnostic names it; stars in place of what looks like a secret. */
export function keyName(key: string): string {
  return looksSecret(key) ? '`***`' : `\`${key}\``;
}
