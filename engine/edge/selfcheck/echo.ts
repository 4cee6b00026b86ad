import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, isIPv6 } from 'node:net';
import { hostname } from 'node:os';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { COUNT_PATH, MAIN_PROTOCOL, PROTOCOL_PATHS, type Protocol } from '../../base/contract/protocol.ts';
import { decompressor } from '../../base/kit/decompressor.ts';
import { tryParseBounded } from '../../base/kit/json/bounded.ts';
import { type Fields, isFields } from '../../base/kit/json/fields.ts';
import { explainListenError } from '../../base/kit/net/listen-error.ts';
import { readAll } from '../../base/kit/read-all.ts';
import { DEFINITIONS } from '../../domain/protocols/definitions.ts';
import type { AnswerContext, ModelEvent, ModelUsage } from '../../domain/protocols/translation/conversation.ts';
import { Notes } from '../../domain/protocols/translation/rules.ts';

/** Largest body, as in the real APIs. */
export const BODY_BYTES_MAX = 32 * 1024 * 1024;
const HEADER_BYTES_MAX = 64 * 1024;
const CONNECTIONS_MAX = 200;
const REQUEST_MS_MAX = 120_000;
const PAUSE_MS_MAX = 5000;
const BREAK_MS = 50;

const endOf = (path: string): string => path.slice('/v1'.length);

/** Suffixes of served paths; a base URL may add any prefix. */
const PATHS: readonly (readonly [end: string, protocol: Protocol])[] = [
  ...(Object.entries(PROTOCOL_PATHS) as [Protocol, string][]).map(([name, path]) => [endOf(path), name] as const),
  [endOf(COUNT_PATH), MAIN_PROTOCOL],
];

/** The model that the echo upstream lists by default. */
export const ECHO_MODEL = 'selfcheck-echo';

/** Starts the echo upstream. Raises StartError if it cannot listen. */
export async function openEcho(place: EchoPlace = {}): Promise<Echo> {
  const { host = '127.0.0.1', port = 0, says, models = [ECHO_MODEL], option = '--echo' } = place;
  const list = JSON.stringify(modelList(models));
  const inbox = new Inbox();
  const usual = says === undefined ? {} : { text: says };
  const server = createServer(
    { maxHeaderSize: HEADER_BYTES_MAX, requestTimeout: REQUEST_MS_MAX, noDelay: true },
    (req, res) => {
      const serving = req.method === 'POST' ? serve(req, res, inbox, usual) : answerLookup(req, res, list);
      serving.catch(() => res.destroy());
    },
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.on('connection', (socket) => socket.on('error', () => {}));
  try {
    server.listen(port, host);
    await once(server, 'listening');
  } catch (error) {
    const listen = `${isIPv6(host) ? `[${host}]` : host}:${port}`;
    throw explainListenError(error as NodeJS.ErrnoException, listen, option);
  }
  return {
    url: `http://${hostToName(host)}:${(server.address() as AddressInfo).port}`,
    expect: (answer = {}) => inbox.expect(answer),
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The host name for other machines: this machine's name if it listens on all addresses. */
function hostToName(host: string): string {
  if (host === '0.0.0.0' || host === '::') return hostname();
  return isIPv6(host) ? `[${host}]` : host;
}

async function serve(req: IncomingMessage, res: ServerResponse, inbox: Inbox, usual: EchoAnswer): Promise<void> {
  const path = pathOf(req);
  const served = PATHS.find(([end]) => path.endsWith(end));
  if (served === undefined) return sendError(res, MAIN_PROTOCOL, 404, 'not_found_error', 'There is nothing here.');
  const [end, protocol] = served;
  let taken = 0;
  const take = (bytes: number) => {
    const fits = inbox.take(bytes);
    if (fits) taken += bytes;
    return fits;
  };
  let is_kept = false;
  try {
    const raw = await readBody(req, take);
    if (raw === undefined) return refuseLarge(req, res, protocol);
    const body = await decoded(raw, req.headers['content-encoding'], take);
    const { url: path = '', rawHeaders: raw_headers, headers } = req;
    const request = { method: 'POST', path, raw_headers, headers, body, protocol };
    const accepted = inbox.accept(request);
    ({ is_kept } = accepted);
    await answer(res, request, { scripted: accepted.answer ?? usual, end });
  } finally {
    if (!is_kept) inbox.take(-taken);
  }
}

type Take = (bytes: number) => boolean;

async function readBody(req: IncomingMessage, take: Take): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_BYTES_MAX || !take(chunk.length)) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function decoded(body: Buffer, encoding: string | undefined, take: Take): Promise<Buffer> {
  const stream = encoding === undefined ? undefined : decompressor(encoding);
  if (stream === undefined) return body;
  stream.end(body);
  const plain = await readAll(stream, BODY_BYTES_MAX, () => new RangeError('too large')).catch(() => body);
  return take(plain.length - body.length) ? plain : body;
}

const pathOf = ({ url = '' }: IncomingMessage): string => url.split('?', 1)[0]!;

async function answerLookup(req: IncomingMessage, res: ServerResponse, list: string): Promise<void> {
  const { method, headers } = req;
  const path = pathOf(req);
  const [, served] = PATHS.find(([end]) => path.endsWith(end)) ?? [];
  if (path.endsWith('/models')) send(res, 200, list);
  else if (served !== undefined && headers.upgrade !== undefined)
    sendError(res, served, 426, 'not_supported', 'No WebSocket here.');
  else if (served !== undefined) sendError(res, served, 405, 'invalid_request_error', 'This takes POST.');
  else send(res, path === '/' ? 200 : 404, method === 'HEAD' ? '' : '{"upstream":"echo of a self-check"}');
}

function modelList(ids: readonly string[]) {
  const data = ids.map((id) => ({
    ...{ id, type: 'model', object: 'model', display_name: id, owned_by: 'mock' },
    ...{ created: 0, created_at: '2026-01-01T00:00:00Z' },
  }));
  return { object: 'list', data, has_more: false, first_id: ids[0] ?? null, last_id: ids.at(-1) ?? null };
}

function refuseLarge(req: IncomingMessage, res: ServerResponse, protocol: Protocol): void {
  // Unread bytes would reset the connection, and the client would lose the response.
  req.resume();
  sendError(res, protocol, 413, 'request_too_large', 'The echo upstream of a self-check accepts no larger body.');
}

async function answer(
  res: ServerResponse,
  { body, protocol }: EchoedRequest,
  { scripted, end }: { readonly scripted: EchoAnswer; readonly end: string },
): Promise<void> {
  const { error } = scripted;
  if (error !== undefined) return send(res, error.status, error.body, error.headers);
  const fields = tryParseBounded(body.toString());
  if (!isFields(fields))
    return sendError(res, protocol, 400, 'invalid_request_error', 'The body is not a JSON object.');
  const counts_only = end.endsWith('/count_tokens');
  const fault = requestFault(protocol, fields, counts_only);
  if (fault !== undefined) return sendError(res, protocol, 400, 'invalid_request_error', fault);
  if (counts_only) return send(res, 200, JSON.stringify({ input_tokens: Math.ceil(body.length / 4) }));
  const wanted = { model: String(fields.model), answer: scripted };
  if (fields.stream !== true) return send(res, 200, echoDocument(protocol, wanted));
  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  await pipeline(Readable.from(paced(echoEvents(protocol, wanted), scripted)), res);
}

/** Yields events at the configured pace. For `breaks_off` it raises mid-stream, which closes the connection. */
async function* paced(
  events: readonly string[],
  { pause_ms = 0, breaks_off = false }: EchoAnswer,
): AsyncGenerator<string> {
  const last = breaks_off ? Math.ceil(events.length / 2) : events.length;
  for (const [index, event] of events.slice(0, last).entries()) {
    if (index > 0 && pause_ms > 0) await pause(Math.min(pause_ms, PAUSE_MS_MAX));
    yield event;
  }
  if (!breaks_off) return;
  // Written bytes must leave before the connection closes.
  await pause(BREAK_MS);
  throw new Error('a self-check requested a stream that breaks off');
}

function send(res: ServerResponse, status: number, body: string, headers: Readonly<Record<string, string>> = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers });
  res.end(body);
}

function sendError(res: ServerResponse, protocol: Protocol, status: number, type: string, message: string): void {
  const problem = { status, type, message, context_overflow: false };
  send(res, status, JSON.stringify(DEFINITIONS[protocol].errors.write(problem, 'selfcheck')));
}

export interface EchoedRequest {
  readonly method: string;
  readonly path: string;
  readonly raw_headers: readonly string[];
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
  readonly protocol: Protocol;
}

export interface EchoAnswer {
  readonly error?: {
    readonly status: number;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body: string;
  };
  readonly text?: string;
  readonly pause_ms?: number;
  readonly pieces?: number;
  readonly usage?: ModelUsage;
  readonly extra_events?: string;
  readonly breaks_off?: boolean;
}

/** A marker text that identifies requests, and the requests that contained it. */
export interface Expected {
  readonly text: string;
  received(): EchoedRequest | undefined;
  count(): number;
}

/** A mock upstream for a gateway: speaks all protocols, costs nothing, and records requests by a marker text. */
export interface Echo {
  readonly url: string;
  /** Creates a marker for a prompt. The first request with it is recorded; all get the scripted response. */
  expect(answer?: EchoAnswer): Expected;
  close(): Promise<void>;
}

/** Where the echo upstream listens. */
export interface EchoPlace {
  readonly host?: string;
  readonly port?: number;
  readonly says?: string;
  readonly models?: readonly string[];
  /** The command-line option to name in errors; `--echo` by default. */
  readonly option?: string;
}

const EXPECTED_MAX = 100;

const BUFFERED_BYTES_MAX = 64 * 1024 * 1024;

interface Awaited extends Expected {
  readonly answer: EchoAnswer;
  request: EchoedRequest | undefined;
  seen: number;
}

class Inbox {
  #buffered_bytes = 0;
  readonly #awaited: Awaited[] = [];

  expect(answer: EchoAnswer): Expected {
    const forgotten = this.#awaited.length < EXPECTED_MAX ? undefined : this.#awaited.shift();
    if (forgotten?.request !== undefined) this.take(-forgotten.request.body.length);
    const awaited: Awaited = {
      text: `selfcheck ${wordOf(14)}`,
      answer,
      request: undefined,
      seen: 0,
      received: () => awaited.request,
      count: () => awaited.seen,
    };
    this.#awaited.push(awaited);
    return awaited;
  }

  /** Counts more buffered bytes, or fewer; `false` for more than there may be. */
  take(bytes: number): boolean {
    if (bytes > 0 && this.#buffered_bytes + bytes > BUFFERED_BYTES_MAX) return false;
    this.#buffered_bytes += bytes;
    return true;
  }

  /** Records the first request with a marker. Returns the scripted response, and whether it was recorded. */
  accept(request: EchoedRequest): { readonly answer: EchoAnswer | undefined; readonly is_kept: boolean } {
    const awaited = this.#awaited.find(({ text }) => request.body.includes(text));
    const is_kept = awaited !== undefined && awaited.request === undefined;
    if (awaited !== undefined) {
      awaited.seen++;
      awaited.request ??= request;
    }
    return { answer: awaited?.answer, is_kept };
  }
}

/** A unique word that no filter mistakes for a secret: alternating consonants and vowels. */
function wordOf(length: number): string {
  const letters = ['bdfgklmnprstvz', 'aeiou'] as const;
  return Array.from({ length }, (_, index) => letters[index % 2]!.charAt(randomInt(letters[index % 2]!.length))).join(
    '',
  );
}

/** The validation error of a request, worded like a provider's; `undefined` if it is valid. */
function requestFault(protocol: Protocol, fields: Fields, counts_only: boolean): string | undefined {
  const { model } = fields;
  if (typeof model !== 'string' || model === '') return 'model: Field required';
  return DEFINITIONS[protocol].probe.requestFault(fields, counts_only);
}

interface Wanted {
  readonly model: string;
  readonly answer: EchoAnswer;
}

const TEXT = 'This is the echo upstream of a self-check.';
const PIECES = 4;
const PIECES_MAX = 200;
const USAGE: ModelUsage = { input: 11, output: 5, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 };

function piecesOf({ text = TEXT, pieces = PIECES }: EchoAnswer): string[] {
  const count = Math.min(Math.max(1, pieces), PIECES_MAX);
  const length = Math.max(1, Math.ceil(text.length / count));
  return Array.from({ length: count }, (_, index) => text.slice(index * length, (index + 1) * length)).filter(
    (piece, index) => piece !== '' || index === 0,
  );
}

function modelEvents({ model, answer }: Wanted): ModelEvent[] {
  const usage = { ...USAGE, ...answer.usage };
  return [
    { type: 'start', model, usage: { ...usage, output: 1 } },
    { type: 'part_start', index: 0, part: { kind: 'text' } },
    ...piecesOf(answer).map((text): ModelEvent => ({ type: 'part_delta', index: 0, text })),
    { type: 'part_end', index: 0 },
    { type: 'end', reason: 'finished', usage },
  ];
}

const contextOf = (protocol: Protocol, { model }: Wanted): AnswerContext => ({
  request_id: 'selfcheck',
  made_by: { protocol, upstream: 'echo' },
  model,
  created_at: 1_790_000_000,
  include_usage: true,
  free_text_tools: new Set(),
  echo: {},
});

function echoDocument(protocol: Protocol, wanted: Wanted): string {
  const { adapter } = DEFINITIONS[protocol];
  return JSON.stringify(adapter.writeDocument(modelEvents(wanted), contextOf(protocol, wanted), new Notes()));
}

function echoEvents(protocol: Protocol, wanted: Wanted): string[] {
  const writer = DEFINITIONS[protocol].adapter.createWriter(contextOf(protocol, wanted), new Notes());
  const { extra_events = '' } = wanted.answer;
  return modelEvents(wanted)
    .map((event) => (event.type === 'end' ? extra_events : '') + writer.write(event))
    .join('')
    .split(/(?<=\n\n)/);
}
