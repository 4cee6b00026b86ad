import type { AnswerContext } from '../translation/adapter.ts';
import { gatherAnswer, type ModelEvent, type PartStart, type WholePart } from '../translation/events.ts';
import { freeTextOf } from '../translation/features/free-text.ts';
import type { Notes } from '../translation/notes.ts';
import { CHAT_TOTALS, writeTotals } from '../translation/usage.ts';
import { finishReason, nameAnswer } from './answer.ts';

/** Writes a whole answer for a client. */
export function writeDocument(
  events: readonly ModelEvent[],
  answer: AnswerContext,
  notes: Notes,
): Record<string, unknown> {
  const { start, parts, end, usage } = gatherAnswer(events);
  if (events.some(({ type }) => type === 'proof')) notes.note('reasoning_proof');
  const { id, model } = nameAnswer(start, answer);
  const finish_reason = finishReason(end, hasRefusal(parts), notes);
  const told = writeTotals(usage, CHAT_TOTALS);
  return {
    id,
    object: 'chat.completion',
    created: answer.created_at,
    model,
    choices: [{ index: 0, message: writeMessage(parts, answer), logprobs: null, finish_reason }],
    ...(told !== undefined && { usage: told }),
  };
}

const hasRefusal = (parts: readonly WholePart[]): boolean => parts.some(({ start }) => start.kind === 'refusal');

function writeMessage(parts: readonly WholePart[], { free_text_tools }: AnswerContext): Record<string, unknown> {
  const textOf = (kind: PartStart['kind']): string =>
    parts.flatMap(({ start, text }) => (start.kind === kind ? text : [])).join('');
  const reasoning = textOf('reasoning');
  const calls = parts.flatMap(({ start, text }) =>
    start.kind === 'tool_call' ? writeCall(start.id, start.name, text, free_text_tools.has(start.name)) : [],
  );
  return {
    role: 'assistant',
    content: textOf('text') || (calls.length > 0 || hasRefusal(parts) ? null : ''),
    refusal: textOf('refusal') || null,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function writeCall(id: string, name: string, text: string, plain: boolean): object {
  if (plain) return { id, type: 'custom', custom: { name, input: freeTextOf(text) } };
  return { id, type: 'function', function: { name, arguments: text === '' ? '{}' : text } };
}
