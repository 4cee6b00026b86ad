import type { AnswerContext } from '../translation/adapter.ts';
import type { ModelEvent, ModelUsage, PartStart } from '../translation/events.ts';
import { freeTextOf } from '../translation/features/free-text.ts';
import type { Notes } from '../translation/notes.ts';
import { writeTotals } from '../translation/usage.ts';
import { CHAT_TOTALS } from '../usage/totals.ts';
import { finishReason, nameAnswer } from './answer.ts';

interface Written {
  readonly part: PartStart;
  readonly texts: string[];
}

/** Writes a whole answer for a client. */
export function writeDocument(
  events: readonly ModelEvent[],
  answer: AnswerContext,
  notes: Notes,
): Record<string, unknown> {
  const parts: Written[] = [];
  const by_index = new Map<number, Written>();
  let named = nameAnswer({ type: 'start' }, answer);
  let usage: ModelUsage = {};
  let finish_reason = 'stop';
  for (const event of events) {
    if (event.type === 'start') {
      named = nameAnswer(event, answer);
      usage = { ...event.usage };
    } else if (event.type === 'part_start') {
      const written = { part: event.part, texts: [] };
      by_index.set(event.index, written);
      parts.push(written);
    } else if (event.type === 'part_delta') by_index.get(event.index)?.texts.push(event.text);
    else if (event.type === 'proof') notes.note('reasoning_proof');
    else if (event.type === 'end') {
      usage = { ...usage, ...event.usage };
      finish_reason = finishReason(event, hasRefusal(parts), notes);
    }
  }
  const told = writeTotals(usage, CHAT_TOTALS);
  return {
    id: named.id,
    object: 'chat.completion',
    created: answer.created_at,
    model: named.model,
    choices: [{ index: 0, message: writeMessage(parts, answer), logprobs: null, finish_reason }],
    ...(told !== undefined && { usage: told }),
  };
}

const hasRefusal = (parts: readonly Written[]): boolean => parts.some(({ part }) => part.kind === 'refusal');

function writeMessage(parts: readonly Written[], { free_text_tools }: AnswerContext): Record<string, unknown> {
  const textOf = (kind: PartStart['kind']): string =>
    parts.flatMap(({ part, texts }) => (part.kind === kind ? texts : [])).join('');
  const reasoning = textOf('reasoning');
  const calls = parts.flatMap(({ part, texts }) =>
    part.kind === 'tool_call' ? [writeCall(part.id, part.name, texts.join(''), free_text_tools.has(part.name))] : [],
  );
  return {
    role: 'assistant',
    content: textOf('text') || (calls.length > 0 || hasRefusal(parts) ? null : ''),
    refusal: textOf('refusal') || null,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function writeCall(id: string, name: string, text: string, plain: boolean): unknown {
  if (plain) return { id, type: 'custom', custom: { name, input: freeTextOf(text) } };
  return { id, type: 'function', function: { name, arguments: text === '' ? '{}' : text } };
}
