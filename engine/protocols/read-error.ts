import { createParser } from 'eventsource-parser';
import { tryParseBounded } from '../kit/json/bounded.ts';
import { type ErrorWords, NAME_MAX } from './error-meanings.ts';
import { isObject } from './read-json.ts';
import type { Json } from './translation/adapter.ts';

/** The error of an upstream, whatever shape it came in. */
export interface ReadError extends ErrorWords {
  /** The reason, in the upstream's words; empty where it gives none. A long one ends with an ellipsis. */
  readonly message: string;
  /** What the error says of itself beside its reason. */
  readonly type?: string;
  readonly code?: string;
  readonly param?: string;
  /** An HTTP status that stands in the error. */
  readonly status?: number;
}

/** The longest reason that stands where a protocol has its message, in UTF-16 units, and elsewhere. */
const MESSAGE_MAX = 8000;
const FOREIGN_TEXT_MAX = 1000;

/** How far into an error is looked, and at how many of its parts. */
const DEPTH_MAX = 8;
const ITEMS_MAX = 10;

/** Texts from here on are not parsed: no error is so long. */
const PARSED_MAX = 262_144;

/** Keys of the reason, the one that says most first. */
const REASONS = [
  'message',
  'Message',
  'msg',
  'error_description',
  'error_message',
  'errorMessage',
  'error_msg',
  'status_msg',
  'faultstring',
  'detail',
  'errors',
  'details',
  'error',
  'title',
  'description',
  'reason',
  'raw',
];

/** Keys of an error inside the error: what a provider told whoever passes it on. */
const INNER = ['metadata', 'innererror', 'inner_error', 'upstream_error', 'provider_error', 'cause'];

/** Keys of names, the most precise first. */
const NAMES = [
  'code',
  'error_code',
  'errorCode',
  'Code',
  'type',
  '__type',
  'error_type',
  'Type',
  'status',
  'reason',
  'error',
];

const STATUSES = ['status', 'code', 'status_code', 'statusCode', 'error_code'];

/** A text that is cut where it is too long, between two characters. */
function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…`;
}

function nameIn(fields: Json, key: string): string | undefined {
  const value = fields[key];
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' && value.length <= NAME_MAX ? value : undefined;
}

function statusIn(fields: Json): number | undefined {
  const found = STATUSES.map((key) => nameIn(fields, key)).find((text) => /^[45]\d\d$/.test(text ?? ''));
  return found === undefined ? undefined : Number(found);
}

/** The JSON of a text: the whole of it, or that of the first event of a stream. */
function parse(text: string): unknown {
  const json = /^(?:data|event|id)?:/.test(text) ? (/^data:(.*)$/m.exec(text)?.[1] ?? '') : text;
  if (json.length > PARSED_MAX || !/^\s*[{["]/.test(json)) return undefined;
  return tryParseBounded(json);
}

const MARKUP = /^<(?:[!?]|[a-z][\w:-]{0,40}[\s/>])/i;

/** What a page or an XML document says: its message, else its title. */
function textOfMarkup(text: string): string {
  const found = /<(?:\w{1,20}:)?message>([^<]{1,8000})</i.exec(text) ?? /<title[^>]{0,200}>([^<]{1,1000})</i.exec(text);
  return found === null ? '' : found[1]!.replace(/\s+/g, ' ').trim();
}

/** The error below an envelope; `undefined` where the object itself is the error. */
function envelopedIn(fields: Json): unknown {
  const { response, Response } = fields;
  const found = [fields.error, isObject(response) ? response.error : undefined, fields.fault, fields.base_resp];
  if (isObject(Response)) found.push(Response.Error);
  return found.find((value) => typeof value === 'object' && value !== null);
}

/** What is told by key, such as which field is wrong and why, where an error has none of the usual keys. */
function textsByKey(value: unknown, path: readonly string[] = []): string[] {
  if (path.length > DEPTH_MAX) return [];
  if (typeof value === 'string') return value.trim() === '' || path.length === 0 ? [] : [`${path.join('.')}: ${value}`];
  if (Array.isArray(value)) return value.slice(0, ITEMS_MAX).flatMap((item) => textsByKey(item, path));
  if (!isObject(value)) return [];
  const told = Object.entries(value).filter(([key]) => !NAMES.includes(key) && !/^object$|^param$|id$/i.test(key));
  return told.slice(0, ITEMS_MAX).flatMap(([key, item]) => textsByKey(item, [...path, cut(key, NAME_MAX)]));
}

/** One look at an error: collects its names and texts while it looks for the reason. */
class Reading {
  readonly names: string[] = [];
  readonly texts: string[] = [];
  status: number | undefined;
  /** The object that the reason was found in. */
  source: Json | undefined;

  /** The reason in a value; empty where there is none. */
  reason(value: unknown, depth = 0): string {
    if (depth > DEPTH_MAX) return '';
    if (typeof value === 'string') return this.#inText(value, depth);
    if (Array.isArray(value)) return this.#inList(value, depth);
    return isObject(value) ? this.#inObject(value, depth) : '';
  }

  #inText(text: string, depth: number): string {
    const trimmed = text.trim();
    const parsed = parse(trimmed);
    const inside = parsed === undefined ? '' : this.reason(parsed, depth + 1);
    if (inside !== '') return inside;
    const said = MARKUP.test(trimmed) ? textOfMarkup(trimmed) : trimmed === '' ? '' : text;
    if (said !== '') this.texts.push(said);
    return said;
  }

  #inList(list: readonly unknown[], depth: number): string {
    const reasons = list.slice(0, ITEMS_MAX).map((item) => this.reason(item, depth + 1));
    return [...new Set(reasons)].filter((reason) => reason !== '').join('; ');
  }

  #inObject(fields: Json, depth: number): string {
    for (const key of NAMES) {
      const name = fields[key];
      if (typeof name === 'string' && name !== '' && name !== 'error') this.names.push(name);
    }
    this.status ??= statusIn(fields);
    // Clouds of one vendor say there what is wrong, as a name beside the words.
    if (Array.isArray(fields.details))
      for (const item of fields.details.slice(0, ITEMS_MAX))
        if (isObject(item) && typeof item.reason === 'string') this.names.push(item.reason);
    const enveloped = envelopedIn(fields);
    if (enveloped !== undefined) {
      const told = this.reason(enveloped, depth + 1);
      if (told !== '') return told;
      if (isObject(enveloped)) this.source ??= enveloped;
    }
    const told = this.#told(fields, depth);
    const inner = INNER.map((key) => this.reason(fields[key], depth + 1)).find((reason) => reason !== '') ?? '';
    if (told === '' || inner === '') return told === '' ? inner : told;
    return told.includes(inner) ? told : `${told}: ${inner}`;
  }

  #told(fields: Json, depth: number): string {
    for (const key of REASONS) {
      if (key === 'error' && typeof fields.error !== 'string') continue;
      const said = this.reason(fields[key], depth + 1);
      if (said === '') continue;
      this.source ??= fields;
      // A list of what is wrong with a body says where (FastAPI).
      const { loc } = fields;
      return Array.isArray(loc) && key === 'msg'
        ? `${cut(loc.slice(0, ITEMS_MAX).join('.'), NAME_MAX)}: ${said}`
        : said;
    }
    return '';
  }
}

/** Whether the reason stands where protocols have their message. */
function isInPlace(body: unknown, source: Json | undefined): boolean {
  if (!isObject(body) || source === undefined || typeof source.message !== 'string') return false;
  return source === body.error || (isObject(body.response) && source === body.response.error);
}

const DETAILS = ['error', 'errors', 'detail', 'details'];

const pick = (fields: Json, keys: readonly string[]): Json =>
  Object.fromEntries(Object.entries(fields).filter(([key]) => keys.includes(key)));

/** Reads an error of an upstream: the body of a response as JSON or as text, or an event. Anything is taken. */
export function readError(received: unknown): ReadError {
  const body = typeof received === 'string' ? (parse(received.trim()) ?? received) : received;
  const reading = new Reading();
  const found = reading.reason(body);
  const reason = found !== '' || !isObject(body) ? found : textsByKey(pick(body, DETAILS)).join('; ');
  const { names, texts, status } = reading;
  const source = reading.source ?? (isObject(body) ? body : {});
  // Names of what is wrong with one field are none of the error.
  const is_item = source.loc !== undefined;
  const type = source.type === 'error' || is_item ? undefined : nameIn(source, 'type');
  const code = is_item ? undefined : nameIn(source, 'code');
  const param = nameIn(source, 'param');
  return {
    message: cut(reason, isInPlace(body, reading.source) ? MESSAGE_MAX : FOREIGN_TEXT_MAX),
    names,
    texts,
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
    ...(param !== undefined && { param }),
    ...(status !== undefined && { status }),
  };
}

/** Keys that begin no answer of any protocol, but an error. */
const ONLY_IN_ERRORS = ['detail', 'errors', 'message', 'Message', 'msg'];
const ONLY_IN_ANSWERS = ['choices', 'content', 'output', 'object', 'type', 'id', 'usage', 'model'];

const hasEntries = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length > 0;

/** Whether a JSON object that came where an answer belongs is an error. */
export function isError(value: Json): boolean {
  if (value.object === 'error' || value.type === 'error') return true;
  const { error, response } = value;
  if (typeof error === 'string' ? error !== '' : hasEntries(error)) return true;
  if (isObject(response) && isObject(response.error)) return true;
  // MiniMax sends an answer without choices, and its error beside them.
  if (isObject(value.base_resp) && !Array.isArray(value.choices)) {
    const { status_code } = value.base_resp;
    if (typeof status_code === 'number' && status_code !== 0) return true;
  }
  if (ONLY_IN_ANSWERS.some((key) => value[key] !== undefined)) return false;
  return ONLY_IN_ERRORS.some((key) => (typeof value[key] === 'string' ? value[key] !== '' : hasEntries(value[key])));
}

/** The beginning of a JSON document that may be an error and nothing else. */
export const BEGINS_AS_ERROR =
  /^\s*\{\s*"(?:error"\s*:\s*[{"[]|(?:type|object)"\s*:\s*"(?:error|response\.failed)"|(?:detail|errors|[mM]essage|msg|code|error_code|status_code|success|base_resp)"\s*:)/;

/**
 * The error of a choice of chat completions, in an envelope of its own; `undefined` where there is none. It stands beside the word for
 * the end, or in the message (OpenRouter).
 */
export function errorOfChoice({ error, message, delta }: Json): Json | undefined {
  const places = [error, isObject(message) ? message.error : undefined, isObject(delta) ? delta.error : undefined];
  return places.map((one) => ({ error: one })).find(isError);
}

/** What the error in a JSON text says; `undefined` where there is none. */
export function errorIn(json: string): ReadError | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  if (isError(value)) return readError(value);
  const choices = Array.isArray(value.choices) ? value.choices.filter(isObject) : [];
  const choice = choices.find(({ index = 0 }) => index === 0);
  const inside = choice && errorOfChoice(choice);
  return inside && readError(inside);
}

/** Whether an event can be an error: most are not, and need not be parsed to know it. */
export function mayBeError(name: string | undefined, data: string): boolean {
  if (name !== undefined && name !== 'message') return name === 'error' || name === 'response.failed';
  return BEGINS_AS_ERROR.test(data.slice(0, 64));
}

/** The error that an event of a stream reports; `undefined` for one that is part of an answer. */
export function errorOfEvent(name: string, data: string): ReadError | undefined {
  if (name === 'error') return readError(data);
  return data.includes('"error"') || BEGINS_AS_ERROR.test(data.slice(0, 64)) ? errorIn(data) : undefined;
}

/** Whether the last of some events of a stream is an error: with it, the client has its end. */
export function endsWithError(events: string): boolean {
  let is_error = false;
  const parser = createParser({
    onEvent: ({ event = '', data }) => {
      is_error = errorOfEvent(event, data) !== undefined;
    },
  });
  parser.feed(events);
  return is_error;
}
