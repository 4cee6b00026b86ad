import { StageError } from '../../contract/errors.ts';
import { parseBounded } from '../../kit/json/bounded.ts';
import { isObject } from '../read-json.ts';
import type { Json } from './adapter.ts';

/** The error for an answer that is not what the upstream's protocol says. */
export function brokenAnswer(what: string): StageError {
  return new StageError('upstream_invalid', `The upstream's answer breaks its protocol: ${what}.`);
}

/** The error for a stream that ends before the answer does. */
export function notComplete(): StageError {
  return new StageError('upstream_failed', 'The upstream ended its answer before it was complete.');
}

/** The object in an event of a stream. Raises upstream_invalid. */
export function parseEvent(data: string): Json {
  let event: unknown;
  try {
    event = parseBounded(data);
  } catch (error) {
    if (error instanceof RangeError) throw brokenAnswer('an event has too many values or levels');
    throw brokenAnswer('an event is not JSON');
  }
  if (!isObject(event)) throw brokenAnswer('an event is not a JSON object');
  return event;
}
