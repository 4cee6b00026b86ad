import type { Json } from '../translation/adapter.ts';
import type { ModelEvent } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { ResponsesReader } from './read-stream.ts';

/** Reads an upstream's whole answer. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const events: ModelEvent[] = [];
  new ResponsesReader(notes).readDocument(document, (event) => events.push(event));
  return events;
}
