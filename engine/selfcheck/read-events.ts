import { createParser } from 'eventsource-parser';
import { parseBounded } from '../kit/json/bounded.ts';
import { fieldsOf } from './read-answer.ts';

/** An event of a stream. */
export interface ReadEvent {
  /** Of its line `event:`; `undefined` without one. */
  readonly name: string | undefined;
  readonly data: string;
  /** Fields of its data; none where that is no JSON object. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly is_json: boolean;
}

const EVENTS_MAX = 20_000;

/** The events of a stream; some twenty thousand of them at most. */
export function readEvents(text: string): ReadEvent[] {
  const events: ReadEvent[] = [];
  const parser = createParser({
    onEvent({ event, data }) {
      if (events.length < EVENTS_MAX) events.push({ name: event, data, ...read(data) });
    },
  });
  parser.feed(text);
  return events;
}

function read(data: string): Pick<ReadEvent, 'fields' | 'is_json'> {
  try {
    return { fields: fieldsOf(parseBounded(data)), is_json: true };
  } catch {
    return { fields: {}, is_json: false };
  }
}
