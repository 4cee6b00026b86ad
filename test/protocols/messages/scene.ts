import assert from 'node:assert/strict';
import SDK from '@anthropic-ai/sdk';
import { StageError } from '../../../engine/contract/errors.ts';
import { messagesProtocol } from '../../../engine/protocols/messages/index.ts';
import type { Conversation, Json, ModelEvent } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';
import { ANSWER_CONTEXT } from '../translation/answer-arbitraries.ts';

/** What the writers of answers are told of the request. */
export const ANSWER = { ...ANSWER_CONTEXT, request_id: '0190-aa-bb' };

/** The stream that a client gets for these events. */
export function streamOf(events: readonly ModelEvent[]): string {
  const writer = messagesProtocol.adapter.createWriter(ANSWER, new Notes());
  return events.map((event) => writer.write(event)).join('');
}

/** What the reader makes of an upstream's stream. */
export function readStream(events: readonly Json[], notes = new Notes()): ModelEvent[] {
  const reader = messagesProtocol.adapter.createReader(notes);
  const read: ModelEvent[] = [];
  for (const event of events) {
    reader.read({ name: String(event.type), data: JSON.stringify(event) }, (one) => read.push(one));
  }
  reader.end((one) => read.push(one));
  return read;
}

/** The official client, whose every request is answered with this stream. */
export function clientOf(stream: string): SDK {
  const fetch = async (): Promise<Response> =>
    new Response(stream, { headers: { 'content-type': 'text/event-stream', 'request-id': 'req_1' } });
  return new SDK({ apiKey: 'none', baseURL: 'http://gateway.test', maxRetries: 0, fetch });
}

/** Reads a request; `messages` and `max_tokens` need not be said. */
export function readAsked(body: Json, notes = new Notes()): Conversation {
  const messages = [{ role: 'user', content: 'Hello' }];
  return messagesProtocol.adapter.readRequest({ model: 'm', max_tokens: 100, messages, ...body }, notes);
}

/** Asserts that the body is refused with this code at this place. */
export function refusesAsked(body: Record<string, unknown>, code: string, param: string): void {
  assert.throws(
    () => readAsked(body),
    (error) => {
      assert.ok(error instanceof StageError);
      assert.deepEqual([error.code, error.details.param], [code, param], error.message);
      assert.ok(error.message.startsWith(`${param}: `), error.message);
      return true;
    },
  );
}

/** Writes a request; `model`, `turns` and the like need not be said. */
export function writeAsked(
  conversation: Partial<Conversation>,
  { notes = new Notes(), thinking = 'adaptive' }: { notes?: Notes; thinking?: 'none' | 'budget' | 'adaptive' } = {},
): Record<string, unknown> {
  const whole: Conversation = {
    model: 'm',
    instructions: [],
    turns: [{ role: 'user', parts: [{ kind: 'text', text: 'Hello' }] }],
    tools: [],
    stream: false,
    ...conversation,
  };
  return messagesProtocol.adapter.writeRequest(whole, { max_output_tokens: 8000, thinking, sampling: true }, notes);
}
