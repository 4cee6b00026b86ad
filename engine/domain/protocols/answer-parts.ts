import { StageError } from '../../base/contract/errors.ts';
import type { ResponseConverter } from '../../base/contract/stage.ts';
import { parseBounded } from '../../base/kit/json/bounded.ts';
import { isObject } from './read-json.ts';
import type { Json } from './translation/conversation.ts';

/** Bound on a response, and on one event, that is buffered for conversion, in bytes. */
export const BUFFERED_BYTES_MAX = 8 * 1024 * 1024;

/** Buffers a document; `convert` gets it at the end. Raises the error of `tooLong` above the bound. */
export function collectDocument(
  convert: (document: Buffer) => Buffer | string,
  tooLong: () => StageError,
): ResponseConverter {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    write(chunk) {
      size += chunk.length;
      if (size > BUFFERED_BYTES_MAX) throw tooLong();
      chunks.push(chunk);
      return '';
    },
    end: () => convert(Buffer.concat(chunks, size)),
  };
}

/** The error for a response that violates the upstream's protocol. */
export function brokenAnswer(what: string): StageError {
  return new StageError('upstream_invalid', `The upstream response violates its protocol: ${what}.`);
}

/** The error for a stream that ends too early. */
export function notComplete(): StageError {
  return new StageError('upstream_failed', 'The upstream ended its response before it was complete.');
}

/** The object in an event of a stream. Raises upstream_invalid. */
export function parseEvent(data: string): Json {
  let event: unknown;
  try {
    event = parseBounded(data);
  } catch (error) {
    if (error instanceof RangeError) throw brokenAnswer('an event is too large or too deeply nested');
    throw brokenAnswer('an event is not JSON');
  }
  if (!isObject(event)) throw brokenAnswer('an event is not a JSON object');
  return event;
}
