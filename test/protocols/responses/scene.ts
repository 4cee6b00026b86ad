import { responsesProtocol } from '../../../engine/domain/protocols/responses/index.ts';
import type { AnswerContext, ModelEvent } from '../../../engine/domain/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
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
