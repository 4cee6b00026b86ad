import { parseBounded } from '../../../base/kit/json/bounded.ts';
import { isObject } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';

/** JSON.parse and JSON with what Node has and the types do not: the text of a number, and numbers written as such text. */
type ExactJson = {
  parse(text: string, revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown;
  rawJSON(text: string): unknown;
};

/** Texts with a number that may be more precise than a number of JavaScript can be. */
const LONG_NUMBER = /\d{16}|\d[eE]/;

/**
 * Arguments of a tool call as an object; `undefined` where they are none, or have too many values or levels. The empty text is an object
 * without fields. To be written with JSON.stringify only: long numbers are kept as they were written.
 */
export function argumentsObject(text: string): Json | undefined {
  if (text.trim() === '') return {};
  try {
    const plain = parseBounded(text);
    const value = LONG_NUMBER.test(text) ? parseExactly(text) : plain;
    return isObject(value) ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}

function parseExactly(text: string): unknown {
  const json = JSON as unknown as ExactJson;
  return json.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && String(value) !== source ? json.rawJSON(source) : value,
  );
}
