import { isObject } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import { notTheApi } from '../translation/answer-faults.ts';
import type { ModelEvent } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { MessagesReader } from './read-stream.ts';

/** Reads an upstream's whole answer: as the stream that would have brought it. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const { content, usage } = isObject(document) ? document : {};
  if (!Array.isArray(content)) throw notTheApi('it has no content');
  const events: ModelEvent[] = [];
  const reader = new MessagesReader(notes);
  const read = (event: Json): void => reader.take(event, (read_event) => events.push(read_event));
  read({ type: 'message_start', message: document });
  for (const [index, content_block] of content.entries()) {
    if (isObject(content_block) && Array.isArray(content_block.citations) && content_block.citations.length > 0) {
      notes.note('answer_citations');
    }
    read({ type: 'content_block_start', index, content_block });
    read({ type: 'content_block_stop', index });
  }
  read({ type: 'message_delta', delta: document, usage });
  read({ type: 'message_stop' });
  return events;
}
