import { isObject } from '../read-json.ts';
import type { Json, StreamReader } from '../translation/adapter.ts';
import { brokenAnswer, notComplete, parseEvent } from '../translation/answer-faults.ts';
import type { Emit, ModelEvent } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { ChunkReader } from './chunk-reader.ts';

/** What ends a stream in this protocol. */
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
      } else if (name === 'error') chunks.fail(data);
      else chunks.read(parseEvent(data));
    },
    get finished() {
      return chunks.over || chunks.finished;
    },
    end(to) {
      emit = to;
      if (chunks.over) return;
      if (!chunks.finished) throw notComplete();
      chunks.end();
    },
  };
}

/** Reads an upstream's whole answer: it has in `message` what a stream has in deltas. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const events: ModelEvent[] = [];
  const chunks = new ChunkReader(notes, (event) => events.push(event));
  const list = Array.isArray(document.choices) ? document.choices.filter(isObject) : [];
  chunks.read({ ...document, choices: list.map((choice) => ({ ...choice, delta: undefined })) });
  if (!chunks.over && !list.some(({ message }) => isObject(message))) {
    throw brokenAnswer('choices.0.message is missing');
  }
  if (!chunks.over && !chunks.whole) throw brokenAnswer('it is not whole and does not say why');
  chunks.end();
  return events;
}
