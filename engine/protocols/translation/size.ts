import { type JsonBounds, JsonScan } from '../../kit/json/scan.ts';
import { isObject } from '../read-json.ts';
import type { Json } from './adapter.ts';
import type { Notes } from './notes.ts';

/** The most messages, parts and tools of a request: each takes microseconds in which nobody else is served. */
const PIECES_MAX = 100_000;

/** The most values in all arguments of calls that are JSON inside a text. */
const ARGUMENTS: JsonBounds = { depth: 128, values: 100_000 };

/** Where the pieces of a request stand, in any of the protocols. */
const LISTS = ['system', 'messages', 'input', 'tools'] as const;

/**
 * Refuses a request of more pieces than can be translated in a moment. Schemas and arguments are objects, not lists, and
 * don't count, but arguments that are a text, which no bound on the body has counted. Raises not_translatable.
 */
export function refuseTooMany(body: Json, notes: Notes): void {
  let pieces = 0;
  let values = 0;
  for (const key of LISTS) {
    const lists = [body[key]];
    while (lists.length > 0) {
      const list = lists.pop();
      if (!Array.isArray(list)) continue;
      pieces += list.length;
      if (pieces > PIECES_MAX) notes.refuse('too_many_pieces', key);
      for (const piece of list) {
        if (!isObject(piece)) continue;
        for (const field in piece) lists.push(piece[field]);
        values += valuesOf(piece.arguments) + valuesOf(isObject(piece.function) ? piece.function.arguments : undefined);
        if (values > ARGUMENTS.values) notes.refuse('too_many_pieces', key);
      }
    }
  }
}

function valuesOf(args: unknown): number {
  if (typeof args !== 'string') return 0;
  const scan = new JsonScan(Buffer.from(args), ARGUMENTS);
  scan.step(Infinity);
  return scan.fault?.kind === 'values' ? Infinity : scan.values;
}
