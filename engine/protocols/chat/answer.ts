import { writtenReason } from '../stop-reasons.ts';
import type { AnswerContext } from '../translation/adapter.ts';
import type { ModelEvent } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';

/** Identifier and model of an answer: the upstream's, or made of the request's. */
export function nameAnswer(
  event: ModelEvent & { type: 'start' },
  answer: AnswerContext,
): { id: string; model: string } {
  return {
    id: event.id ?? `chatcmpl_${answer.request_id.replaceAll('-', '')}`,
    model: event.model ?? answer.model,
  };
}

/** `finish_reason` for the end of an answer. A refusal that was told in its own field is an ordinary end. */
export function finishReason(end: ModelEvent & { type: 'end' }, told_refusal: boolean, notes: Notes): string {
  if (end.reason === 'stop_sequence' || end.stop_sequence !== undefined) notes.note('stop_sequence_found');
  if (end.reason === 'paused') notes.note('paused_turn');
  return writtenReason('chat', end.reason === 'refusal' && told_refusal ? 'finished' : end.reason);
}
