import { isObject } from '../../read-json.ts';
import type { Notes } from '../notes.ts';

/** The most parts of a schema that are looked at; a larger one is taken not to meet. */
const PARTS_MAX = 10_000;

/**
 * Whether upstreams of chat completions and Responses take this schema as strict: each object in it is closed and requires
 * all of its keys. Not recursive, as a schema may nest very deep.
 */
export function meetsStrict(schema: unknown): boolean {
  const rest: unknown[] = [schema];
  for (let seen = 0; rest.length > 0; seen += 1) {
    if (seen > PARTS_MAX) return false;
    const part = rest.pop();
    if (Array.isArray(part)) rest.push(...part.slice(0, PARTS_MAX));
    if (!isObject(part)) continue;
    if (isOpen(part)) return false;
    rest.push(...Object.values(part).slice(0, PARTS_MAX));
  }
  return true;
}

/** Whether the model can be held to this schema; noted where it cannot. */
export function canBeStrict(schema: unknown, notes: Notes): boolean {
  const meets = meetsStrict(schema);
  if (!meets) notes.note('strict_schema');
  return meets;
}

function isOpen({ type, properties, required, additionalProperties }: Readonly<Record<string, unknown>>): boolean {
  if (type !== 'object' && !isObject(properties)) return false;
  const named = new Set(Array.isArray(required) ? required : []);
  return additionalProperties !== false || !Object.keys(properties ?? {}).every((key) => named.has(key));
}
