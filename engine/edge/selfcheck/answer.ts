import type { Duplex } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { decompressor } from '../../base/kit/decompressor.ts';
import { tryParseBounded } from '../../base/kit/json/bounded.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { isJson, isPlain, mediaType } from '../../base/kit/media-type.ts';
import type { Arrival, Exchange } from '../../base/kit/net/exchange.ts';
import { growingBuffer } from '../../base/kit/net/growing-buffer.ts';
import { printableLine, printableWord } from '../../base/kit/text/printable.ts';
import type { ReadEvent } from '../../domain/protocols/probe.ts';

interface DecodedBody {
  readonly body: Buffer;
  readonly arrivals: readonly Arrival[];
  /** `encoding`: the body does not match `content-encoding`, or the encoding is unknown. */
  readonly fault?: 'encoding' | 'too_large';
}

/** Decompresses a body chunk by chunk, to attribute decoded bytes to arrivals. */
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

/** A decoded response. */
export interface Answer {
  readonly status: number;
  readonly headers: Exchange['headers'];
  readonly body: Buffer;
  readonly text: string;
  readonly arrivals: readonly Arrival[];
  readonly json: unknown;
  readonly head_ms: number;
  readonly total_ms: number;
  readonly fault: Exclude<Exchange['ending'], 'whole'> | DecodedBody['fault'] | undefined;
}

/** A problem and its remedy. */
export interface Problem {
  readonly found: string;
  readonly remedy: string;
}

const BYTES_MAX = 8 * 1024 * 1024;
const EVENTS_MAX = 20_000;
const CHARS_MAX = 200;

/** Decompresses a response and parses it as JSON. Never raises. */
export async function readAnswer(exchange: Exchange): Promise<Answer> {
  const { status, headers, head_ms, total_ms, ending } = exchange;
  const { body, arrivals, fault } = await decodeBody(exchange, BYTES_MAX);
  const text = body.toString('utf8');
  return {
    ...{ status, headers, head_ms, total_ms, body, text, arrivals },
    json: /^\s*[{["\w-]/.test(text) ? tryParseBounded(text) : undefined,
    fault: fault ?? (ending === 'whole' ? undefined : ending),
  };
}

/** The events of a stream, 20,000 at most. */
export function readEvents(text: string): ReadEvent[] {
  const events: ReadEvent[] = [];
  const parser = createParser({
    onEvent({ event, data }) {
      if (events.length < EVENTS_MAX) events.push({ name: event, data, fields: fieldsOf(tryParseBounded(data)) });
    },
  });
  parser.feed(text);
  return events;
}

/** A text from a response on one line: printable, with single spaces, truncated. */
export function shortText(text: string, chars_max = CHARS_MAX): string {
  const line = printableLine(
    text
      .slice(0, 4 * chars_max)
      .replace(/\s+/g, ' ')
      .trim(),
  );
  return line.length <= chars_max ? line : `${line.slice(0, chars_max - 3).trimEnd()}...`;
}

/** Summary of a response on one line: status, type, size, time, and the error or the beginning of a text. */
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

/** Type and message of a JSON error of any API; `undefined` if it is not an error. */
export function errorText(json: unknown): string | undefined {
  const fields = fieldsOf(json);
  const error = typeof fields.error === 'string' ? { message: fields.error } : fieldsOf(fields.error);
  const type = [error.type, error.code, fields.code].find((word) => typeof word === 'string');
  const texts = [error.message, fields.message, fields.detail, fields.title, fields.error_description];
  const message = texts.find((text) => typeof text === 'string') ?? (fields.error === undefined ? undefined : '');
  if (message === undefined) return undefined;
  return shortText([type, message].filter((part) => part !== undefined && part !== '').join(': ')) || 'an error';
}

/** Describes a JSON value by the names of its fields, without their values. */
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
    found: 'a response that broke off',
    remedy: 'see the logs and timeouts of the gateway and of proxies (nginx: proxy_read_timeout 600s)',
  },
  too_late: {
    found: 'a response that did not end in time',
    remedy: 'see the logs of the gateway: is its upstream slow, or does a proxy buffer the response?',
  },
  too_large: {
    found: 'a response larger than any of this API',
    remedy: 'check the address of the gateway',
  },
  encoding: {
    found: 'a response that cannot be decompressed',
    remedy: 'a proxy changed the body or its content-encoding: it must forward both unchanged',
  },
};

const LET_THROUGH = 'exempt /v1/ from it: clients send their own token to the gateway';

/** Remedies for a page or text with this status. Any other status means that another server responds. */
const REMEDIES: Readonly<Record<number, string>> = {
  401: `if a proxy or sign-in in front rejected it, ${LET_THROUGH}`,
  403: `if a proxy or firewall in front rejected it, ${LET_THROUGH}`,
  404: 'check the address of the gateway, and that proxies in front forward all of /v1/',
  405: 'check the address of the gateway, and that proxies in front forward all of /v1/',
  407: 'an outgoing proxy requires a password: set it in HTTPS_PROXY, or add the gateway to NO_PROXY',
  413: 'a proxy in front rejects large requests: raise its limit to 32 MB (nginx: client_max_body_size 32m)',
  500: 'see the logs of the gateway: it must return errors as JSON',
  502: 'a proxy in front gets no response from the gateway: check that it runs, and the target address of the proxy',
  503: 'a proxy in front has no healthy gateway: check that it runs, and that its health check passes',
  504: 'a proxy in front timed out: raise its timeout to ten minutes (nginx: proxy_read_timeout 600s)',
};

const IN_PLACE = `a sign-in, a proxy or a web application responds instead of the gateway: check the address; if it is right, ${LET_THROUGH}`;

/** Describes a non-API response, as a noun: a redirect, a page, a text, an incomplete response. `undefined` for complete JSON. */
export function nonApiResponse({ status, headers, text, json, fault }: Answer): Problem | undefined {
  if (status >= 300 && status < 400 && status !== 304) return redirect(status, headers.location);
  if (fault !== undefined) return { ...FAULTS[fault], found: `${FAULTS[fault].found} (status ${status})` };
  if (json !== undefined) return undefined;
  const remedy = REMEDIES[status] ?? IN_PLACE;
  if (text.trim() === '') return { found: `an empty response (status ${status})`, remedy };
  if (/^\s*[{[]/.test(text) && isJson(headers['content-type'])) {
    const cut = 'a proxy truncated or changed the body: check its limits and filters';
    return { found: `invalid JSON (status ${status}): ${shortText(text, 60)}`, remedy: cut };
  }
  if (!/^\s*</.test(text)) {
    return { found: `text instead of JSON (status ${status}): ${shortText(text, 80)}`, remedy };
  }
  const title = shortText(/<(?:title|h1)[^>]{0,200}>([^<]{1,400})/i.exec(text.slice(0, 100_000))?.[1] ?? '', 80);
  return { found: `${title === '' ? 'a web page' : `the web page "${title}"`} (status ${status})`, remedy };
}

function redirect(status: number, location: string | undefined): Problem {
  // A query or user name may be a secret.
  const address = location?.replace(/[?#].*$/s, '').replace(/^(\w+:)?\/\/[^/]*@/, '$1//');
  const to = address === undefined ? 'without a location' : `to ${shortText(address, 120)}`;
  return {
    found: `a redirect (status ${status}) ${to}`,
    remedy: `clients follow no redirects: if the target is the gateway, use its address; if it is a sign-in page, ${LET_THROUGH}`,
  };
}
