/**
 * What tests of the chat completions adapter share: reading and writing with the notes that were made.
 * @module
 */

import { chatProtocol } from '../../../engine/protocols/chat/index.ts';
import type {
  AnswerContext,
  Conversation,
  ModelEvent,
  UpstreamTarget,
} from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';
import { ANSWER_CONTEXT } from '../translation/answer-arbitraries.ts';

/** A thinking model. */
export const TARGET: UpstreamTarget = { max_output_tokens: 100_000, thinking: 'adaptive', sampling: true };

/** The smallest request. */
export const ASK = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };

/** An answer's context, with changes. */
export function context(changes: Partial<AnswerContext> = {}): AnswerContext {
  return { ...ANSWER_CONTEXT, request_id: '0198-abcd', include_usage: true, ...changes };
}

/** Reads a request that is the smallest one with these fields. */
export function readAsk(fields: Record<string, unknown>): { conversation: Conversation; notes: readonly string[] } {
  const notes = new Notes();
  const conversation = chatProtocol.adapter.readRequest({ ...ASK, ...fields }, notes);
  return { conversation, notes: notes.names };
}

/** Writes a conversation that is the smallest one with these fields. */
export function writeAsk(
  fields: Partial<Conversation>,
  target = TARGET,
): { body: Record<string, unknown>; notes: readonly string[] } {
  const notes = new Notes();
  const smallest: Conversation = {
    model: 'm',
    instructions: [],
    turns: [{ role: 'user', parts: [{ kind: 'text', text: 'Hi' }] }],
    tools: [],
    stream: false,
  };
  return { body: chatProtocol.adapter.writeRequest({ ...smallest, ...fields }, target, notes), notes: notes.names };
}

/** Reads the data of a stream's events to its end. */
export function readData(data: readonly string[]): { events: ModelEvent[]; notes: readonly string[] } {
  const notes = new Notes();
  const reader = chatProtocol.adapter.createReader(notes);
  const events: ModelEvent[] = [];
  const emit = (event: ModelEvent) => events.push(event);
  for (const text of data) reader.read({ name: 'message', data: text }, emit);
  reader.end(emit);
  return { events, notes: notes.names };
}

/** A chunk with this delta. */
export function chunk(delta: unknown, more: Record<string, unknown> = {}): string {
  const choice = { index: 0, delta, finish_reason: null, ...more };
  return JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'up', choices: [choice] });
}

/** A last chunk. */
export const finish = (finish_reason: string): string => chunk({}, { finish_reason });

/** Reads a stream of these deltas that ends as it should. */
export function readDeltas(...deltas: unknown[]): ModelEvent[] {
  return readData([...deltas.map((delta) => chunk(delta)), finish('stop'), '[DONE]']).events;
}

/** Writes a stream. */
export function writeStream(
  events: readonly ModelEvent[],
  answer = context(),
): { text: string; notes: readonly string[] } {
  const notes = new Notes();
  const writer = chatProtocol.adapter.createWriter(answer, notes);
  return { text: events.map((event) => writer.write(event)).join(''), notes: notes.names };
}

/** Data of the events in a stream's text. */
export function dataOf(stream: string): string[] {
  return stream.split('\n\n').flatMap((event) => (event.startsWith('data: ') ? [event.slice('data: '.length)] : []));
}
