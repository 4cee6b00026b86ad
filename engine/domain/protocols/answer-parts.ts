import { StageError } from '../../base/contract/errors.ts';
import type { ResponseConverter } from '../../base/contract/stage.ts';
import { parseBounded } from '../../base/kit/json/bounded.ts';
import { isObject } from './read-json.ts';
import type { Json } from './translation/conversation.ts';

/** The longest answer, and the longest event of one, that is held to be converted, in bytes. */
export const HELD_BYTES_MAX = 8 * 1024 * 1024;

/** Collects a document; `convert` gets it at the end. Raises what `tooLong` makes for one that is longer than may be held. */
export function collectDocument(
  convert: (document: Buffer) => Buffer | string,
  tooLong: () => StageError,
): ResponseConverter {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    write(chunk) {
      size += chunk.length;
      if (size > HELD_BYTES_MAX) throw tooLong();
      chunks.push(chunk);
      return '';
    },
    end: () => convert(Buffer.concat(chunks, size)),
  };
}

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
