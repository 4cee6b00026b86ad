import type { AnswerContext } from '../translation/adapter.ts';
import type { ModelEvent, StopReason } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';

/** What the protocol calls each reason for stopping. */
const FINISH_REASONS: Readonly<Record<StopReason, string>> = {
  finished: 'stop',
  stop_sequence: 'stop',
  paused: 'stop',
  max_tokens: 'length',
  context_window: 'length',
  tool_calls: 'tool_calls',
  content_filter: 'content_filter',
  refusal: 'content_filter',
};

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
  return end.reason === 'refusal' && told_refusal ? 'stop' : FINISH_REASONS[end.reason];
}
