import type { Fields } from '../../base/kit/json/fields.ts';
import { isObject } from './read-json.ts';

/** An event of a stream; `fields` are those of its data, if that is a JSON object. */
export interface ReadEvent {
  readonly name: string | undefined;
  readonly data: string;
  readonly fields: Fields;
}

/** What `appscli selfcheck` sends to gateways in a protocol, and what it expects back. */
export interface ProtocolProbe {
  /** The clients that speak it, in a sentence. */
  readonly clients: string;
  /** A short request, without its model. */
  request(prompt: string, most: number): Fields;
  /** The body of a request with what gateways tend to change. */
  body(input: ProbeInput): string;
  /** A field of the wrong type. */
  readonly wrong: Fields;
  /** Fields of a request for a stream, beside `stream`. */
  readonly stream_fields: Fields;
  readonly error_form: string;
  errorFaults(json: unknown): string[];
  wholeFaults(json: Fields): string[];
  streamFaults(events: readonly ReadEvent[]): string[];
  /** Whether every event of a stream has a name. */
  readonly has_event_names: boolean;
  /** Fields of the usage. */
  readonly counts: readonly [input: string, output: string];
  /** The error of a request that an upstream rejects; `undefined` if it is valid. Unknown fields are allowed. */
  requestFault(fields: Fields, counts_only: boolean): string | undefined;
}

/** What a probe of bodies contains. */
export interface ProbeInput {
  readonly model: string;
  readonly text: string;
  readonly prefix: string;
}

export const isText = (value: unknown): boolean => typeof value === 'string' && value.trim() !== '';

export const isFilledList = (value: unknown): boolean => Array.isArray(value) && value.length > 0;

export const when = (is_fault: boolean, fault: string): string[] => (is_fault ? [fault] : []);

/** A short request with messages, of Messages and chat completions. */
export const messagesRequest = (content: string, max_tokens: number): Fields => ({
  max_tokens,
  messages: [{ role: 'user', content }],
});

/** What both envelopes of errors have. */
export function errorFaults(json: unknown): string[] {
  const error = isObject(json) ? json.error : undefined;
  const { message, type } = isObject(error) ? error : {};
  return [...when(!isText(message), 'error.message is missing'), ...when(!isText(type), 'error.type is missing')];
}

export const UNKNOWN = { list: ['b', 'a'], deep: { z: null, a: 1 } };

export const TOOL = {
  name: 'zebra',
  description: 'A tool.',
  parameters: { type: 'object', properties: { z: { type: 'string' }, a: { type: 'integer' } }, required: ['z'] },
};
