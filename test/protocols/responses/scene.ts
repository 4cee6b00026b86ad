import type { StageError } from '../../../engine/contract/errors.ts';
import { responsesProtocol } from '../../../engine/protocols/responses/index.ts';
import type { AnswerContext, ModelEvent } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';
import { raisedBy } from '../../support/raised.ts';
import { ANSWER_CONTEXT } from '../translation/answer-arbitraries.ts';

/** The events in the text of a stream. */
export function eventsOf(stream: string): { name: string; data: string }[] {
  return stream
    .split('\n\n')
    .filter((block) => block.startsWith('event: '))
    .map((block) => {
      const [event, data] = block.split('\n') as [string, string];
      return { name: event.slice('event: '.length), data: data.slice('data: '.length) };
    });
}

/** The stream of an answer as a client gets it. */
export function streamOf(
  events: readonly ModelEvent[],
  more: Partial<AnswerContext> = {},
  notes = new Notes(),
): string {
  const writer = responsesProtocol.adapter.createWriter({ ...ANSWER_CONTEXT, ...more }, notes);
  return events.map((event) => writer.write(event)).join('');
}

/** What the reader makes of the events of an upstream. */
export function readEvents(sent: readonly Record<string, unknown>[], notes = new Notes()): ModelEvent[] {
  const reader = responsesProtocol.adapter.createReader(notes);
  const events: ModelEvent[] = [];
  for (const event of sent) {
    reader.read({ name: String(event.type), data: JSON.stringify(event) }, (next) => events.push(next));
  }
  reader.end((next) => events.push(next));
  return events;
}

/** What a request with these fields means, and the names of what it loses. */
export function readRequest(body: Record<string, unknown>) {
  const notes = new Notes();
  const conversation = responsesProtocol.adapter.readRequest({ model: 'm', input: 'hi', ...body }, notes);
  return { ...conversation, names: notes.names };
}

/** Why a request with these fields is not taken. */
export const refusalOf = (body: Record<string, unknown>): StageError => raisedBy(() => readRequest(body));
