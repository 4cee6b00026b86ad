/** What a client finds in the bytes of a response. */
import { createParser } from 'eventsource-parser';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';

// biome-ignore lint/suspicious/noExplicitAny: a test asserts on whatever shape came
type Json = any;

/** One event as a client parses it. */
export interface ClientEvent {
  readonly name: string | undefined;
  readonly data: Json;
}

/** The events of a stream; `[DONE]` has the data `{}`. Fails when one is not JSON or the last has no end. */
export function eventsIn(text: string): ClientEvent[] {
  if (text !== '' && !text.endsWith('\n\n'))
    throw new Error(`the stream ends in the middle of an event: ${text.slice(-200)}`);
  const events: ClientEvent[] = [];
  const parser = createParser({
    onEvent: ({ event, data }) => {
      events.push({ name: event, data: data === '[DONE]' ? {} : JSON.parse(data) });
    },
    onError: (error) => {
      throw error;
    },
  });
  parser.feed(text);
  return events;
}

const TEXTS: Readonly<Record<Protocol, (data: Json) => string | undefined>> = {
  messages: ({ delta }) => delta?.text,
  chat: ({ choices }) => choices?.[0]?.delta.content,
  responses: ({ type, delta }) => (type === 'response.output_text.delta' ? delta : undefined),
};

const WHOLE_TEXTS: Readonly<Record<Protocol, (data: Json) => (string | undefined)[]>> = {
  messages: ({ content }) => content.map(({ text }: Json) => text),
  chat: ({ choices }) => [choices[0].message.content],
  responses: ({ output }) => output.flatMap(({ content }: Json) => (content ?? []).map(({ text }: Json) => text)),
};

/** The model's text, in a document or in the events of a stream. */
export function textIn(protocol: Protocol, response: Json | readonly ClientEvent[]): string {
  const texts = Array.isArray(response)
    ? response.map(({ data }) => TEXTS[protocol](data))
    : WHOLE_TEXTS[protocol](response);
  return texts.filter((text: string | undefined) => typeof text === 'string').join('');
}
