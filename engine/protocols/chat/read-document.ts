import { isObject } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import { notTheApi } from '../translation/answer-faults.ts';
import type { ModelEvent } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { ChunkReader } from './chunk-reader.ts';

/** Reads an upstream's whole answer: it has in `message` what a stream has in deltas. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const events: ModelEvent[] = [];
  const chunks = new ChunkReader(notes, (event) => events.push(event));
  const list = Array.isArray(document.choices) ? document.choices.filter(isObject) : [];
  chunks.read({ ...document, choices: list.map((choice) => ({ ...choice, delta: undefined })) });
  if (!chunks.over && !list.some(({ message }) => isObject(message))) {
    throw notTheApi('choices.0.message is missing');
  }
  chunks.end();
  return events;
}
