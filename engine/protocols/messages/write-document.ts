import type { AnswerContext } from '../translation/adapter.ts';
import { gatherAnswer, type ModelEvent, type WholePart } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { proofToText } from '../translation/proof.ts';
import { argumentsObject } from './arguments.ts';
import { writeUsage } from './usage.ts';
import { writeHead, writeStopReason } from './write-stream.ts';

/** Writes a whole answer for a client. */
export function writeDocument(
  events: readonly ModelEvent[],
  answer: AnswerContext,
  notes: Notes,
): Record<string, unknown> {
  const { start, parts, end, usage } = gatherAnswer(events);
  const content = statesFirst(parts).flatMap((part) => writeBlock(part, answer, notes));
  return {
    ...writeHead(start, answer),
    content: thinkingFirst(content, answer),
    stop_reason: writeStopReason(
      end.reason,
      parts.some((part) => part.start.kind === 'refusal'),
    ),
    stop_sequence: end.stop_sequence ?? null,
    usage: writeUsage(usage),
  };
}

const isState = ({ start, text, proof }: WholePart): boolean =>
  start.kind === 'reasoning' && text === '' && proof?.kind === 'state';

/** State without words behind the last text goes before it, as some clients take the last block for the answer. */
function statesFirst(parts: readonly WholePart[]): readonly WholePart[] {
  if (parts.some(({ start }) => start.kind === 'tool_call')) return parts;
  const end = parts.findLastIndex((part) => !isState(part)) + 1;
  const at = parts.findLastIndex(({ start }, index) => index < end && start.kind === 'reasoning') + 1;
  return [...parts.slice(0, at), ...parts.slice(end), ...parts.slice(at, end)];
}

/** Some clients' next request must show a thought at the beginning of this answer. */
function thinkingFirst(content: Record<string, unknown>[], { thinks_first, made_by }: AnswerContext): unknown[] {
  if (thinks_first !== true || content.length === 0 || content[0]!.type === 'thinking') return content;
  return [{ type: 'thinking', thinking: '', signature: proofToText(undefined, made_by) }, ...content];
}

function writeBlock(
  { start, text, proof }: WholePart,
  { made_by }: AnswerContext,
  notes: Notes,
): Record<string, unknown>[] {
  switch (start.kind) {
    case 'text':
    case 'refusal':
      return text === '' ? [] : [{ type: 'text', text }];
    case 'reasoning':
      if (text === '' && proof === undefined) return [];
      return [{ type: 'thinking', thinking: text, signature: proofToText(proof, made_by) }];
    case 'tool_call':
      return [{ type: 'tool_use', id: start.id, name: start.name, input: inputOf(text, notes) }];
  }
}

function inputOf(text: string, notes: Notes): Record<string, unknown> {
  const input = argumentsObject(text);
  if (input !== undefined) return input;
  notes.note('answer_arguments');
  return { arguments: text };
}
