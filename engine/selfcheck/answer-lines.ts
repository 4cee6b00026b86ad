import { mediaType } from '../kit/media-type.ts';
import { printableLine, printableWord } from '../kit/text/printable.ts';
import { type Answer, fieldsOf } from './read-answer.ts';
import type { Ask } from './subject.ts';

const CHARS_MAX = 200;

/** Text of an answer within a line: printable, with single spaces, and cut where it is long. */
export function shortText(text: string, chars_max = CHARS_MAX): string {
  const line = printableLine(
    text
      .slice(0, 4 * chars_max)
      .replace(/\s+/g, ' ')
      .trim(),
  );
  return line.length <= chars_max ? line : `${line.slice(0, chars_max - 3).trimEnd()}...`;
}

/** What a check sent, in a line without credentials. */
export function sentLine({ method, path, json, token }: Ask, note?: string): string {
  const notes = [note, token === null ? 'without a token' : undefined, token ? 'with a wrong token' : undefined];
  const words = notes.filter((word) => word !== undefined).map((word) => `, ${word}`);
  return `${method ?? (json === undefined ? 'GET' : 'POST')} ${shortText(path)}${words.join('')}`;
}

/** What came back, in a line: status, type, size, time, and the beginning of a text that is an error or no JSON. */
export function cameLine(answer: Answer): string {
  const type = mediaType(answer.headers['content-type']);
  const parts = [
    `status ${answer.status}`,
    type === '' ? 'no content type' : printableWord(shortText(type, 60)),
    `${answer.body.length} bytes`,
    `${Math.round(answer.total_ms)} ms`,
  ];
  const error = errorText(answer.json);
  const beginning = answer.json === undefined && type !== 'text/event-stream' ? shortText(answer.text, 80) : '';
  const text = error ?? beginning;
  return `${parts.join(', ')}${text === '' ? '' : `: ${text}`}`;
}

/** Type and message of an error in JSON, in the form of whatever API; `undefined` for what is no error. */
export function errorText(json: unknown): string | undefined {
  const fields = fieldsOf(json);
  const error = typeof fields.error === 'string' ? { message: fields.error } : fieldsOf(fields.error);
  const type = [error.type, error.code, fields.code].find((word) => typeof word === 'string');
  const texts = [error.message, fields.message, fields.detail, fields.title, fields.error_description];
  const message = texts.find((text) => typeof text === 'string') ?? (fields.error === undefined ? undefined : '');
  if (message === undefined) return undefined;
  return shortText([type, message].filter((part) => part !== undefined && part !== '').join(': ')) || 'an error';
}

/** What a JSON value is, in a few words: the names of its fields, and never their values. */
export function describeJson(json: unknown): string {
  if (Array.isArray(json)) return `a JSON list of ${json.length}`;
  if (typeof json !== 'object' || json === null) return `the JSON value ${shortText(JSON.stringify(json) ?? '', 40)}`;
  const names = Object.keys(json);
  if (names.length === 0) return 'an empty JSON object';
  const shown = names.slice(0, 6).map((name) => printableWord(shortText(name, 30)));
  return `JSON with ${shown.join(', ')}${names.length > shown.length ? ` and ${names.length - shown.length} more` : ''}`;
}
