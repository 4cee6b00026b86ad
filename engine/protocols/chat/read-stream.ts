import type { StreamReader } from '../translation/adapter.ts';
import { notComplete, parseEvent } from '../translation/answer-faults.ts';
import type { Emit } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { ChunkReader } from './chunk-reader.ts';

/** What ends a stream in this API. */
const DONE = '[DONE]';

/** Reads an upstream's stream. */
export function createReader(notes: Notes): StreamReader {
  let emit: Emit = () => undefined;
  const chunks = new ChunkReader(notes, (event) => emit(event));
  return {
    read({ name, data }, to) {
      emit = to;
      if (data.trim() === DONE) {
        if (chunks.whole) chunks.end();
      } else if (name === 'error') chunks.fail(parseEvent(data));
      else chunks.read(parseEvent(data));
    },
    end(to) {
      emit = to;
      if (chunks.over) return;
      if (!chunks.finished) throw notComplete();
      chunks.end();
    },
  };
}
