import type { AnswerContext } from '../translation/adapter.ts';
import type { ModelEvent } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { ResponsesWriter } from './write-stream.ts';

/** Writes a whole answer for a client: what the last event of its stream would say. */
export function writeDocument(
  events: readonly ModelEvent[],
  answer: AnswerContext,
  notes: Notes,
): Record<string, unknown> {
  const writer = new ResponsesWriter(answer, notes);
  for (const event of events) writer.write(event);
  return JSON.parse(writer.document) as Record<string, unknown>;
}
