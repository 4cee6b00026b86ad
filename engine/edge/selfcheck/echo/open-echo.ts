import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, isIPv6 } from 'node:net';
import { hostname } from 'node:os';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { Protocol } from '../../../base/contract/protocol.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { decompressor } from '../../../base/kit/decompressor.ts';
import { parseBounded } from '../../../base/kit/json/bounded.ts';
import { readAll } from '../../../base/kit/read-all.ts';
import { echoError, VOICES } from './answers.ts';

/** The largest body that is taken, as large as the APIs take. */
export const BODY_BYTES_MAX = 32 * 1024 * 1024;
const HEADER_BYTES_MAX = 64 * 1024;
const CONNECTIONS_MAX = 200;
const REQUEST_MS_MAX = 120_000;
const PAUSE_MS_MAX = 5000;
const BREAK_MS = 50;

/** Ends of the paths that are served; a base URL may put anything before them. */
const PATHS: readonly (readonly [end: string, protocol: Protocol])[] = [
  ['/messages', 'messages'],
  ['/messages/count_tokens', 'messages'],
  ['/chat/completions', 'chat'],
  ['/responses', 'responses'],
];

/** The model that the echo upstream lists where nobody says otherwise. */
export const ECHO_MODEL = 'selfcheck-echo';

/** Starts the echo upstream. Raises StartError where it can't listen. */
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
    throw whyNot(error as NodeJS.ErrnoException, `${isIPv6(host) ? `[${host}]` : host}:${port}`, option);
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

function whyNot(error: NodeJS.ErrnoException, listen: string, option: string): StartError {
  const why: Readonly<Record<string, string>> = {
    EADDRINUSE: 'is in use by another program; name another port',
    EACCES: 'may not be listened on by this user; name a port from 1024 up',
  };
  const reason =
    why[error.code ?? ''] ??
    `can't be listened on (${error.code ?? 'unknown error'}); name an address of this machine and a free port`;
  const what = option === '--echo' ? 'the echo upstream' : 'the mock';
  return new StartError(`${what}: ${listen} ${reason}, such as ${option} 127.0.0.1:4010`, { cause: error });
}

/** How other machines call a host that is listened on; this machine's name where it is all of its addresses. */
function hostToName(host: string): string {
  if (host === '0.0.0.0' || host === '::') return hostname();
  return isIPv6(host) ? `[${host}]` : host;
}

async function serve(req: IncomingMessage, res: ServerResponse, inbox: Inbox, usual: EchoAnswer): Promise<void> {
  const path = pathOf(req);
  const served = PATHS.find(([end]) => path.endsWith(end));
  if (served === undefined) return send(res, 404, echoError('messages', 'not_found_error', 'There is nothing here.'));
  const [end, protocol] = served;
  const raw = await readBody(req, inbox);
  if (raw === undefined) return refuseLarge(req, res, protocol);
  const body = await decoded(raw, req.headers['content-encoding'], inbox);
  const request = { method: 'POST', path: req.url!, raw_headers: req.rawHeaders, headers: req.headers, body, protocol };
  const { answer: wished = usual, is_kept } = inbox.accept(request);
  try {
    await answer(res, request, { wished, end });
  } finally {
    if (!is_kept) inbox.give(body.length);
  }
}

/** The body, with room taken for it; `undefined` where it is too large or there is no room. */
async function readBody(req: IncomingMessage, inbox: Inbox): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      if (size + chunk.length > BODY_BYTES_MAX || !inbox.take(chunk.length)) {
        inbox.give(size);
        return undefined;
      }
      size += chunk.length;
      chunks.push(chunk);
    }
  } catch (error) {
    inbox.give(size);
    throw error;
  }
  return Buffer.concat(chunks);
}

/** A body without its compression; as it came where that can't be taken off within bounds. */
async function decoded(body: Buffer, encoding: string | undefined, inbox: Inbox): Promise<Buffer> {
  const stream = encoding === undefined ? undefined : decompressor(encoding);
  if (stream === undefined) return body;
  stream.end(body);
  const plain = await readAll(stream, BODY_BYTES_MAX, () => new RangeError('too large')).catch(() => body);
  return inbox.take(plain.length - body.length) ? plain : body;
}

const pathOf = ({ url = '' }: IncomingMessage): string => url.split('?', 1)[0]!;

async function answerLookup(req: IncomingMessage, res: ServerResponse, list: string): Promise<void> {
  const { method } = req;
  const path = pathOf(req);
  if (path.endsWith('/models')) send(res, 200, list);
  else if (path.endsWith('/responses')) send(res, 426, echoError('responses', 'not_supported', 'No WebSocket here.'));
  else if (PATHS.some(([end]) => path.endsWith(end)))
    send(res, 405, echoError('messages', 'invalid_request_error', 'This takes POST.'));
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
  // Closed with bytes unread, the connection would be reset, and the answer lost to who is still sending.
  req.resume();
  send(
    res,
    413,
    echoError(protocol, 'request_too_large', 'The echo upstream of a self-check takes no more than this.'),
  );
}

async function answer(
  res: ServerResponse,
  { body, protocol }: EchoedRequest,
  { wished, end }: { readonly wished: EchoAnswer; readonly end: string },
): Promise<void> {
  const { error } = wished;
  if (error !== undefined) return send(res, error.status, error.body, error.headers);
  const asked = fieldsOf(body);
  if (asked === undefined)
    return send(res, 400, echoError(protocol, 'invalid_request_error', 'The body is not a JSON object.'));
  const counts_only = end.endsWith('/count_tokens');
  const fault = requestFault(protocol, asked, counts_only);
  if (fault !== undefined) return send(res, 400, echoError(protocol, 'invalid_request_error', fault));
  if (counts_only) return send(res, 200, JSON.stringify({ input_tokens: Math.ceil(body.length / 4) }));
  const wanted = { model: String(asked.model), answer: wished };
  if (asked.stream !== true) return send(res, 200, JSON.stringify(VOICES[protocol].document(wanted)));
  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  await pipeline(Readable.from(paced(VOICES[protocol].events(wanted), wished)), res);
}

/** Raises in the middle of a stream that is to break off, which closes the connection. */
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
  // What was written must have left before the connection is closed.
  await pause(BREAK_MS);
  throw new Error('a self-check asked for a stream that breaks off');
}

function fieldsOf(body: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value = parseBounded(body.toString());
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function send(res: ServerResponse, status: number, body: string, headers: Readonly<Record<string, string>> = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers });
  res.end(body);
}

/** A request as it arrived at the echo upstream. */
export interface EchoedRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Names and values in turns, as they were sent. */
  readonly raw_headers: readonly string[];
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
  readonly protocol: Protocol;
}

/** What the echo upstream is to answer to a request. */
export interface EchoAnswer {
  /** In place of a usual answer: this status, these headers and this body. */
  readonly error?: {
    readonly status: number;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body: string;
  };
  /** What the model says; a short sentence where it is left out. */
  readonly text?: string;
  /** Between one event of a stream and the next; none where it is left out. */
  readonly pause_ms?: number;
  /** How many pieces of text a stream has. */
  readonly pieces?: number;
  /** Fields of `usage`, over those it has as a rule. */
  readonly usage?: Readonly<Record<string, unknown>>;
  /** Events of a stream of the Messages API that stand before its last one, as text. */
  readonly extra_events?: string;
  /** Whether a stream breaks off in its middle: the connection is closed before its last events. */
  readonly breaks_off?: boolean;
}

/** A text that requests are told apart by, and what came with it. */
export interface Expected {
  /** To be put into a prompt. */
  readonly text: string;
  /** The first request that held the text. */
  received(): EchoedRequest | undefined;
  /** How many held it: a gateway may send one again. */
  count(): number;
}

/**
 * An upstream of our own that a gateway can be pointed at: it speaks all three protocols, costs nothing, and keeps what
 * reaches it. Requests are told apart by a text in them.
 */
export interface Echo {
  readonly url: string;
  /** Makes a text to be put into the prompt; a request that holds it is kept for it, and answered as told. */
  expect(answer?: EchoAnswer): Expected;
  close(): Promise<void>;
}

/** Where the echo upstream listens. */
export interface EchoPlace {
  /** This machine only, where it is left out. */
  readonly host?: string;
  /** A free one, where it is left out. */
  readonly port?: number;
  /** What it answers to requests that hold no text it was told about. */
  readonly says?: string;
  /** The models that it lists; it answers to every other as well. `ECHO_MODEL` alone where it is left out. */
  readonly models?: readonly string[];
  /** The option of the command line that names the place; `--echo` where it is left out. */
  readonly option?: string;
}

/** Requests that are waited for or kept at once; the oldest make room. */
const EXPECTED_MAX = 100;

/** Room for bodies in memory, those of requests under way and those that are kept. */
const HELD_BYTES_MAX = 64 * 1024 * 1024;

interface Awaited extends Expected {
  readonly answer: EchoAnswer;
  request: EchoedRequest | undefined;
  seen: number;
}

/** What is waited for, and the first request that came for each. Holds a bounded number of bytes. */
class Inbox {
  #held_bytes = 0;
  readonly #awaited: Awaited[] = [];

  /** @param answer to the requests that hold the text. */
  expect(answer: EchoAnswer): Expected {
    const forgotten = this.#awaited.length < EXPECTED_MAX ? undefined : this.#awaited.shift();
    if (forgotten?.request !== undefined) this.give(forgotten.request.body.length);
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

  /** Takes room for bytes of a body; false where there is none. */
  take(bytes: number): boolean {
    if (this.#held_bytes + bytes > HELD_BYTES_MAX) return false;
    this.#held_bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held_bytes -= bytes;
  }

  /** Keeps a request where it is waited for, and says what it is answered and whether it was kept. */
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

/** A word that nobody else says, and that no filter takes for a secret: consonants and vowels in turns. */
function wordOf(length: number): string {
  const letters = ['bdfgklmnprstvz', 'aeiou'] as const;
  return Array.from({ length }, (_, index) => letters[index % 2]!.charAt(randomInt(letters[index % 2]!.length))).join(
    '',
  );
}

type Fields = Readonly<Record<string, unknown>>;

const isText = (value: unknown) => typeof value === 'string' && value !== '';
const isCount = (value: unknown) => Number.isInteger(value) && Number(value) > 0;
const isFilledList = (value: unknown) => Array.isArray(value) && value.length > 0;

/** What is wrong with a request, as a provider would say it; `undefined` for a good one. Unknown fields are no fault. */
function requestFault(protocol: Protocol, fields: Fields, counts_only: boolean): string | undefined {
  const { model, messages, max_tokens, input } = fields;
  if (!isText(model)) return 'model: Field required';
  if (protocol === 'responses')
    return isText(input) || isFilledList(input) ? undefined : 'input: expected a string or a list of items';
  if (!isFilledList(messages)) return 'messages: Input should be a valid list';
  if (protocol === 'messages' && !counts_only && !isCount(max_tokens)) return 'max_tokens: Field required';
  return undefined;
}
