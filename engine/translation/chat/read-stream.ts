import { StageError } from '../../errors.ts';
import type { StreamReader } from '../adapter.ts';
import type { ModelEvent } from '../events.ts';
import type { Notes } from '../notes.ts';
import { isObject } from '../read-json.ts';
import { ChunkReader } from './chunk-reader.ts';

/** What ends a stream in this API. */
const DONE = '[DONE]';

/** Reads an upstream's stream. */
export function createReader(notes: Notes): StreamReader {
  let emit: (event: ModelEvent) => void = () => undefined;
  const chunks = new ChunkReader(notes, (event) => emit(event));
  return {
    read({ data }, to) {
      emit = to;
      if (data.trim() !== DONE) chunks.read(parseChunk(data));
      else if (chunks.finished) chunks.end();
    },
    end(to) {
      emit = to;
      if (chunks.over) return;
      if (!chunks.finished) {
        throw new StageError('upstream_failed', 'The upstream ended its answer before it was complete.');
      }
      chunks.end();
    },
  };
}

function parseChunk(data: string): Readonly<Record<string, unknown>> {
  let chunk: unknown;
  try {
    chunk = JSON.parse(data);
  } catch (cause) {
    throw new StageError('upstream_invalid', 'The upstream sent an event that is not JSON.', { cause });
  }
  if (!isObject(chunk))
    throw new StageError('upstream_invalid', 'The upstream sent an event that is not a JSON object.');
  return chunk;
}
