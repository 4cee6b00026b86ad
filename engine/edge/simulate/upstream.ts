/** An HTTP server that records requests exactly and responds by script, down to raw bytes and cut connections. @module */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createDoor, type Server, type Socket } from 'node:net';

/** A received request. */
export interface Received {
  readonly method: string;
  /** Path and query string, untouched. */
  readonly url: string;
  /** Alternating names and values as received. */
  readonly raw_headers: readonly string[];
  readonly headers: IncomingHttpHeaders;
  /** Bytes received so far; all if `complete`. */
  readonly body: Buffer;
  readonly complete: boolean;
  readonly sha256: string;
  /** Whether the caller disconnected before the end of the response. */
  readonly cancelled: boolean;
}

/** A request with its response. */
export interface Exchange {
  readonly received: Received;
  readonly res: ServerResponse;
  readonly socket: Socket;
}

/** Handler of a request; runs when its body is complete. */
export type Script = (exchange: Exchange) => void | Promise<void>;

export type ScriptedUpstream = Awaited<ReturnType<typeof openUpstream>>;

const MODEL_LIST = /\/models(?:\?|$)/;

function recordingOf({ method = '', url = '', rawHeaders: raw_headers, headers }: IncomingMessage) {
  const chunks: Buffer[] = [];
  return {
    ...{ method, url, raw_headers, headers, chunks },
    complete: false,
    cancelled: false,
    get body() {
      return Buffer.concat(chunks);
    },
    get sha256(): string {
      return createHash('sha256').update(this.body).digest('hex');
    },
  };
}

function fail(res: ServerResponse, error: unknown): void {
  if (!res.headersSent) res.writeHead(500, { 'content-type': 'text/plain' });
  res.end(`the script of the test failed: ${error}`);
}

/** Starts an upstream on the loopback address. `lists` takes the requests for the list of models. */
export async function openUpstream(script: Script, wanted_port = 0, lists?: Received[]) {
  const requests: Received[] = [];
  const server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
    const received = recordingOf(req);
    const is_list = received.method === 'GET' && MODEL_LIST.test(received.url);
    (is_list ? (lists ?? requests) : requests).push(received);
    res.on('close', () => {
      received.cancelled = !res.writableFinished;
    });
    req.on('data', (chunk: Buffer) => received.chunks.push(chunk));
    req.on('end', async () => {
      received.complete = true;
      try {
        await upstream.script({ received, res, socket: req.socket });
      } catch (error) {
        fail(res, error);
      }
    });
  });
  server.on('connection', (socket) => socket.on('error', () => {}));
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const doors: Server[] = [];
  const stop = async () => {
    for (const door of doors.splice(0)) door.close();
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  const port = await listen(wanted_port);
  const upstream = {
    url: `http://127.0.0.1:${port}`,
    /** Requests in order of arrival; set `length` to 0 to clear. */
    requests,
    script,
    /** Additional ports, stable across calls, to distinguish callers by the port they connect to. */
    async doors(count: number): Promise<readonly number[]> {
      while (doors.length < count) {
        const door = createDoor({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket));
        doors.push(door.listen(0, '127.0.0.1'));
        await once(door, 'listening');
      }
      return doors.slice(0, count).map((door) => (door.address() as AddressInfo).port);
    },
    /** Cuts every connection and refuses new ones until `resume`. */
    pause: stop,
    resume: () => listen(port),
    close: stop,
  };
  return upstream;
}

/** Headers of an event stream, as alternating names and values. */
export const EVENT_STREAM: readonly string[] = [
  'content-type',
  'text/event-stream; charset=utf-8',
  'cache-control',
  'no-cache',
];

/** A server-sent event named by its type. */
export function sse(data: { readonly type: string } & Readonly<Record<string, unknown>>): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}
