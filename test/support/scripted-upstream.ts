/**
 * A Messages upstream for tests: a real HTTP server that records exactly what it received and answers as told, down to
 * raw bytes and cut connections.
 * @module
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { until } from './until.ts';

/** A request as it arrived. */
export interface Received {
  readonly method: string;
  /** Path and query string, untouched. */
  readonly url: string;
  /** Names and values in turn, spelled and ordered as received. */
  readonly raw_headers: readonly string[];
  readonly headers: IncomingHttpHeaders;
  /** The bytes so far; all of them when `complete`. */
  readonly body: Buffer;
  readonly complete: boolean;
  /** Hex SHA-256 of `body`. */
  readonly sha256: string;
  /** Whether the caller went away before the response ended. */
  readonly cancelled: boolean;
}

/** One request and the means to answer it. */
export interface Exchange {
  readonly received: Received;
  readonly res: ServerResponse;
  readonly socket: Socket;
}

/** What the upstream does with a request; runs when its body is complete. */
export type Script = (exchange: Exchange) => void | Promise<void>;

/** The running upstream. */
export interface ScriptedUpstream {
  readonly url: string;
  /** Every request, in order of arrival; `clear` it by setting `length` to 0. */
  readonly requests: Received[];
  /** What happens to the next requests. */
  script: Script;
  /** Whether `script` runs at the head of a request instead of the end of its body. */
  early: boolean;
  /** The only request so far; fails when there were none or several. */
  only(): Received;
  /** The last request, once there are at least `count`. */
  arrived(count: number): Promise<Received>;
  /** Cuts every connection and refuses new ones until `resume`. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  close(): Promise<void>;
}

class Recording implements Received {
  readonly method: string;
  readonly url: string;
  readonly raw_headers: readonly string[];
  readonly headers: IncomingHttpHeaders;
  readonly chunks: Buffer[] = [];
  complete = false;
  cancelled = false;

  constructor(req: IncomingMessage) {
    this.method = req.method ?? '';
    this.url = req.url ?? '';
    this.raw_headers = req.rawHeaders;
    this.headers = req.headers;
  }

  get body(): Buffer {
    return Buffer.concat(this.chunks);
  }

  get sha256(): string {
    return createHash('sha256').update(this.body).digest('hex');
  }
}

function fail(res: ServerResponse, error: unknown): void {
  if (!res.headersSent) res.writeHead(500, { 'content-type': 'text/plain' });
  res.end(`the script of the test failed: ${error}`);
}

/** Starts an upstream on a free port of the loopback address. */
export async function startUpstream(script: Script = answerJson(message())): Promise<ScriptedUpstream> {
  const requests: Received[] = [];
  const server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
    const received = new Recording(req);
    requests.push(received);
    res.on('close', () => {
      received.cancelled = !res.writableFinished;
    });
    const answer = async () => upstream.script({ received, res, socket: req.socket });
    const at_head = upstream.early;
    req.on('data', (chunk: Buffer) => received.chunks.push(chunk));
    req.on('end', () => {
      received.complete = true;
      if (!at_head) answer().catch((error) => fail(res, error));
    });
    if (at_head) answer().catch((error) => fail(res, error));
  });
  server.on('connection', (socket) => socket.on('error', () => {}));
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const stop = async () => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  const port = await listen(0);
  const upstream: ScriptedUpstream = {
    url: `http://127.0.0.1:${port}`,
    requests,
    script,
    early: false,
    only() {
      if (requests.length !== 1) throw new Error(`the upstream saw ${requests.length} requests instead of one`);
      return requests[0]!;
    },
    arrived: async (count) => {
      await until(`the upstream has seen ${count} requests`, () => requests.length >= count);
      return requests[requests.length - 1]!;
    },
    pause: stop,
    resume: async () => {
      await listen(port);
    },
    close: stop,
  };
  return upstream;
}

/** Headers as names and values in turn (repetition and spelling kept), or as a record. */
export type ReplyHeaders = readonly string[] | Readonly<Record<string, string>>;

function headList(headers: ReplyHeaders): string[] {
  return Array.isArray(headers) ? [...headers] : Object.entries(headers).flat();
}

/** Answers these bytes with these headers and nothing else but the framing. */
export function answerBytes(status: number, headers: ReplyHeaders, body: Buffer | string): Script {
  return ({ res }) => {
    const bytes = Buffer.from(body as string);
    res.writeHead(status, [...headList(headers), 'content-length', String(bytes.length)]);
    res.end(bytes);
  };
}

/** Answers JSON. */
export function answerJson(value: unknown, status = 200, headers: Record<string, string> = {}): Script {
  return answerBytes(
    status,
    { 'content-type': 'application/json', 'request-id': 'req_scripted', ...headers },
    JSON.stringify(value),
  );
}

/** Answers a stream, one write per chunk, each in a turn of its own. */
export function answerChunks(chunks: readonly (string | Buffer)[], headers: ReplyHeaders = EVENT_STREAM): Script {
  return async ({ res }) => {
    res.writeHead(200, headList(headers));
    for (const chunk of chunks) {
      res.write(chunk);
      await new Promise((resolve) => setImmediate(resolve));
    }
    res.end();
  };
}

/** Writes these bytes to the connection as they are, then closes it. */
export function answerRaw(bytes: string): Script {
  return ({ socket }) => {
    socket.end(bytes);
  };
}

/** Never answers. */
export const hang: Script = () => {};

/** Resets the connection instead of answering. */
export const reset: Script = ({ socket }) => {
  socket.resetAndDestroy();
};

export const EVENT_STREAM: readonly string[] = [
  'content-type',
  'text/event-stream; charset=utf-8',
  'cache-control',
  'no-cache',
];

/** Usage as the Messages API reports it, with every kind of cache token. */
export const USAGE = {
  input_tokens: 100,
  cache_creation_input_tokens: 30,
  cache_read_input_tokens: 2000,
  cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
  output_tokens: 40,
  service_tier: 'standard',
};

/** A complete Messages response. */
export function message(usage: object = USAGE): object {
  return {
    id: 'msg_scripted',
    type: 'message',
    role: 'assistant',
    model: 'upstream-model',
    content: [{ type: 'text', text: 'Hello there.' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage,
  };
}

/** One server-sent event of the Messages API. */
export function sse(data: { type: string } & Record<string, unknown>): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** The events of a Messages stream that says `words` and reports `usage`. */
export function messageEvents(words: readonly string[] = ['Hello ', 'there.'], usage: object = USAGE): string[] {
  const delta = (text: string) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
  return [
    { type: 'message_start', message: { ...message({ ...usage, output_tokens: 1 }), content: [], stop_reason: null } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'ping' },
    ...words.map(delta),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 40 } },
    { type: 'message_stop' },
  ].map(sse);
}
