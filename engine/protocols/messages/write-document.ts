import type { AnswerContext } from '../translation/adapter.ts';
import type { ReasoningProof } from '../translation/conversation.ts';
import type { ModelEvent, ModelUsage, PartStart } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { proofToText } from '../translation/proof.ts';
import { argumentsObject } from './arguments.ts';
import { writeStopReason } from './stop-reasons.ts';
import { writeUsage } from './usage.ts';
import { writeHead } from './write-stream.ts';

interface Part {
  readonly start: PartStart;
  readonly texts: string[];
  proof?: ReasoningProof;
}

/** Writes a whole answer for a client. */
export function writeDocument(
  events: readonly ModelEvent[],
  answer: AnswerContext,
  notes: Notes,
): Record<string, unknown> {
  const parts = new Map<number, Part>();
  let head: { readonly id?: string; readonly model?: string } = {};
  let usage: ModelUsage = {};
  let ending: Extract<ModelEvent, { type: 'end' }> = { type: 'end', reason: 'finished' };
  for (const event of events) {
    if (event.type === 'start') head = event;
    if (event.type === 'part_start') parts.set(event.index, { start: event.part, texts: [] });
    if (event.type === 'part_delta') parts.get(event.index)?.texts.push(event.text);
    if (event.type === 'proof' && parts.has(event.index)) parts.get(event.index)!.proof = event.proof;
    if (event.type === 'end') ending = event;
    if (event.type === 'start' || event.type === 'end') usage = { ...usage, ...event.usage };
  }
  const has_refusal = [...parts.values()].some(({ start }) => start.kind === 'refusal');
  return {
    ...writeHead(head, answer),
    content: thinkingFirst(
      [...parts.values()].flatMap((part) => writeBlock(part, answer, notes)),
      answer,
    ),
    stop_reason: writeStopReason(ending.reason, has_refusal),
    stop_sequence: ending.stop_sequence ?? null,
    usage: writeUsage(usage),
  };
}

/** Some clients' next request must show a thought at the beginning of this answer. */
function thinkingFirst(content: Record<string, unknown>[], { thinks_first, made_by }: AnswerContext): unknown[] {
  if (thinks_first !== true || content.length === 0 || content[0]!.type === 'thinking') return content;
  return [{ type: 'thinking', thinking: '', signature: proofToText(undefined, made_by) }, ...content];
}

function writeBlock(
  { start, texts, proof }: Part,
  { made_by }: AnswerContext,
  notes: Notes,
): Record<string, unknown>[] {
  const text = texts.join('');
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
