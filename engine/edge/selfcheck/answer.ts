import type { Duplex } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { decompressor } from '../../base/kit/decompressor.ts';
import { parseBounded } from '../../base/kit/json/bounded.ts';
import { isJson, isPlain, mediaType } from '../../base/kit/media-type.ts';
import type { Arrival, Exchange } from '../../base/kit/net/exchange.ts';
import { growingBuffer } from '../../base/kit/net/growing-buffer.ts';
import { printableLine, printableWord } from '../../base/kit/text/printable.ts';

interface DecodedBody {
  readonly body: Buffer;
  /** When what of it could be read. */
  readonly arrivals: readonly Arrival[];
  /** `encoding`: it is not what `content-encoding` says, or that names one that is not known. */
  readonly fault?: 'encoding' | 'too_large';
}

/** Takes the compression off, piece by piece, so that it is seen which arrival made what readable. */
export async function decodeBody(
  { headers, body, arrivals }: Pick<Exchange, 'headers' | 'body' | 'arrivals'>,
  bytes_max: number,
): Promise<DecodedBody> {
  const encoding = headers['content-encoding'];
  if (isPlain(encoding) || body.length === 0) return { body, arrivals };
  const stream = decompressor(encoding ?? '');
  if (stream === undefined) return { body: Buffer.alloc(0), arrivals: [], fault: 'encoding' };
  const decoded = growingBuffer(bytes_max);
  const decoded_arrivals: Arrival[] = [];
  let bytes = 0;
  let fault: DecodedBody['fault'];
  stream.on('data', (chunk: Buffer) => {
    const taken = decoded.add(chunk);
    bytes += taken;
    if (taken === chunk.length) return;
    fault = 'too_large';
    stream.destroy();
  });
  stream.on('error', () => {
    fault ??= 'encoding';
  });
  let offset = 0;
  for (const arrival of arrivals) {
    await written(stream, body.subarray(offset, offset + arrival.bytes));
    offset += arrival.bytes;
    if (bytes > 0) decoded_arrivals.push({ at_ms: arrival.at_ms, bytes });
    bytes = 0;
    if (fault !== undefined) break;
  }
  stream.destroy();
  return { body: decoded.taken(), arrivals: decoded_arrivals, ...(fault === undefined ? {} : { fault }) };
}

/** Resolves when all that can be made of the piece was given out, or the stream has ended. */
function written(stream: Duplex, piece: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('close', done);
      resolve();
    };
    stream.once('close', done);
    stream.write(piece, done);
  });
}

/** An answer that can be read. */
export interface Answer {
  readonly status: number;
  readonly headers: Exchange['headers'];
  /** Without compression. */
  readonly body: Buffer;
  readonly text: string;
  readonly arrivals: readonly Arrival[];
  /** Its value, where it is JSON; `undefined` where it is none. */
  readonly json: unknown;
  readonly head_ms: number;
  readonly total_ms: number;
  /** Why there is no more of it; `undefined` where it is whole. */
  readonly fault: Exclude<Exchange['ending'], 'whole'> | DecodedBody['fault'] | undefined;
}

export type Fields = Readonly<Record<string, unknown>>;

/** What is wrong, and what to do about it. */
export interface Problem {
  readonly found: string;
  readonly remedy: string;
}

/** An event of a stream. */
export interface ReadEvent {
  /** Of its line `event:`; `undefined` without one. */
  readonly name: string | undefined;
  readonly data: string;
  /** Fields of its data; none where that is no JSON object. */
  readonly fields: Fields;
}

const BYTES_MAX = 8 * 1024 * 1024;
const EVENTS_MAX = 20_000;
const CHARS_MAX = 200;

/** Takes the compression off an answer and reads its JSON, if it is any; whatever came, it does not raise. */
export async function readAnswer(exchange: Exchange): Promise<Answer> {
  const { status, headers, head_ms, total_ms, ending } = exchange;
  const { body, arrivals, fault } = await decodeBody(exchange, BYTES_MAX);
  const text = body.toString('utf8');
  return {
    ...{ status, headers, head_ms, total_ms, body, text, arrivals },
    json: /^\s*[{["\w-]/.test(text) ? jsonOf(text) : undefined,
    fault: fault ?? (ending === 'whole' ? undefined : ending),
  };
}

function jsonOf(text: string): unknown {
  try {
    return parseBounded(text);
  } catch {
    return undefined;
  }
}

/** A JSON object's own fields; none where the value is anything else. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

/** The events of a stream; some twenty thousand of them at most. */
export function readEvents(text: string): ReadEvent[] {
  const events: ReadEvent[] = [];
  const parser = createParser({
    onEvent({ event, data }) {
      if (events.length < EVENTS_MAX) events.push({ name: event, data, fields: fieldsOf(jsonOf(data)) });
    },
  });
  parser.feed(text);
  return events;
}

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

/** What came back, in a line: status, type, size, time, and the beginning of a text that is an error or no JSON. */
export function cameLine(answer: Answer): string {
  const type = mediaType(answer.headers['content-type']);
  const parts = [
    `status ${answer.status}`,
    type === '' ? 'no content type' : printableWord(shortText(type, 60)),
    `${answer.body.length} bytes`,
    `${Math.round(answer.total_ms)} ms`,
  ];
  const beginning = answer.json === undefined && type !== 'text/event-stream' ? shortText(answer.text, 80) : '';
  const text = errorText(answer.json) ?? beginning;
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

const FAULTS: Readonly<Record<NonNullable<Answer['fault']>, Problem>> = {
  cut: {
    found: 'an answer that broke off',
    remedy: 'look at the logs and the time limits of the gateway and of proxies (nginx: proxy_read_timeout 600s)',
  },
  too_late: {
    found: 'an answer that did not end in time',
    remedy: 'look into the logs of the gateway: does its upstream answer, and is something on the way holding it back?',
  },
  too_large: {
    found: 'an answer that is larger than any of this API',
    remedy: 'is the address that of the gateway?',
  },
  encoding: {
    found: 'an answer whose compression can not be taken off',
    remedy: 'something on the way changed the body or its content-encoding: it has to pass both as they are',
  },
};

const LET_THROUGH = 'have it let /v1/ through to the gateway as it is: clients bring a token of their own';

/** What a page or a text with this status means, and what to do; where nothing is said, something answers in place of the gateway. */
const REMEDIES: Readonly<Record<number, string>> = {
  401: `if a proxy or sign-in in front refused it, ${LET_THROUGH}`,
  403: `if a proxy or firewall in front refused it, ${LET_THROUGH}`,
  404: 'nothing is served there: is the address that of the gateway, and does a proxy in front pass all of /v1/ on?',
  405: 'nothing is served there: is the address that of the gateway, and does a proxy in front pass all of /v1/ on?',
  407: 'a proxy on the way out wants a password: give it with HTTPS_PROXY, or name the gateway in NO_PROXY',
  413: 'a proxy in front refuses large requests: have it pass 32 MB (nginx: client_max_body_size 32m)',
  500: 'look into the logs of the gateway: an error has to be told as JSON',
  502: 'a proxy in front gets no answer from the gateway: is that running, and at the address that the proxy forwards to?',
  503: 'a proxy in front has nothing behind it that it may ask: is the gateway running, and does its health check pass?',
  504: 'a proxy in front did not wait for the answer: have it wait ten minutes (nginx: proxy_read_timeout 600s)',
};

const IN_PLACE = `does a sign-in, a proxy or a web application answer in place of the gateway? Is the address right? If it is, ${LET_THROUGH}`;

/** What came in place of JSON, as a noun: a redirect, a page, a text, half an answer. `undefined` for whole JSON that is no redirect. */
export function foreignAnswer({ status, headers, text, json, fault }: Answer): Problem | undefined {
  if (status >= 300 && status < 400 && status !== 304) return redirect(status, headers.location);
  if (fault !== undefined) return { ...FAULTS[fault], found: `${FAULTS[fault].found} (status ${status})` };
  if (json !== undefined) return undefined;
  const remedy = REMEDIES[status] ?? IN_PLACE;
  if (text.trim() === '') return { found: `an empty answer (status ${status})`, remedy };
  if (/^\s*[{[]/.test(text) && isJson(headers['content-type'])) {
    const cut = 'something on the way cut or changed the body: look at limits and filters of proxies';
    return { found: `JSON that can not be read (status ${status}): ${shortText(text, 60)}`, remedy: cut };
  }
  if (!/^\s*</.test(text)) {
    return { found: `text that is no JSON (status ${status}): ${shortText(text, 80)}`, remedy };
  }
  const title = shortText(/<(?:title|h1)[^>]{0,200}>([^<]{1,400})/i.exec(text.slice(0, 100_000))?.[1] ?? '', 80);
  return { found: `${title === '' ? 'a web page' : `the web page "${title}"`} (status ${status})`, remedy };
}

function redirect(status: number, location: string | undefined): Problem {
  // A query may hold what nobody else should see, and so may a user's name.
  const address = location?.replace(/[?#].*$/s, '').replace(/^(\w+:)?\/\/[^/]*@/, '$1//');
  const to = address === undefined ? 'that does not say where to' : `to ${shortText(address, 120)}`;
  return {
    found: `a redirect (status ${status}) ${to}`,
    remedy: `clients follow no redirects: where that is the address of the gateway, give it to them; where people sign in there, ${LET_THROUGH}`,
  };
}
