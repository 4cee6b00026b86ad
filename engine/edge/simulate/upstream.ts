/**
 * An upstream that plays a script: a real HTTP server on the loopback address that records exactly what it received and
 * answers as told, down to raw bytes and cut connections.
 * @module
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createDoor, type Server, type Socket } from 'node:net';

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
  /** Ports that lead to it besides that of `url`, the same at every call, so that callers can be told apart before they ask. */
  doors(count: number): Promise<readonly number[]>;
  /** Cuts every connection and refuses new ones until `resume`. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  close(): Promise<void>;
}

const MODEL_LIST = /\/models(?:\?|$)/;

/** A request while it arrives. */
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

/**
 * Starts an upstream on the loopback address; on a free port unless told. Whoever gives `lists` finds requests for the list of its
 * models there, and not among the others.
 */
export async function openUpstream(script: Script, wanted_port = 0, lists?: Received[]): Promise<ScriptedUpstream> {
  const requests: Received[] = [];
  const waiting: { readonly count: number; resolve(received: Received): void }[] = [];
  const announce = () => {
    for (const waiter of waiting.splice(0)) {
      if (requests.length >= waiter.count) waiter.resolve(requests.at(-1)!);
      else waiting.push(waiter);
    }
  };
  const server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
    const received = recordingOf(req);
    const is_list = received.method === 'GET' && MODEL_LIST.test(received.url);
    (is_list ? (lists ?? requests) : requests).push(received);
    announce();
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
  const upstream: ScriptedUpstream = {
    url: `http://127.0.0.1:${port}`,
    requests,
    script,
    early: false,
    only() {
      if (requests.length !== 1) throw new Error(`the upstream saw ${requests.length} requests instead of one`);
      return requests[0]!;
    },
    arrived: (count) =>
      new Promise((resolve) => {
        waiting.push({ count, resolve });
        announce();
      }),
    async doors(count) {
      while (doors.length < count) {
        const door = createDoor({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket));
        doors.push(door.listen(0, '127.0.0.1'));
        await once(door, 'listening');
      }
      return doors.slice(0, count).map((door) => (door.address() as AddressInfo).port);
    },
    pause: stop,
    resume: async () => {
      await listen(port);
    },
    close: stop,
  };
  return upstream;
}

/** Head of a stream of server-sent events, as names and values in turn. */
export const EVENT_STREAM: readonly string[] = [
  'content-type',
  'text/event-stream; charset=utf-8',
  'cache-control',
  'no-cache',
];

/** One server-sent event that is named by its type. */
export function sse(data: { readonly type: string } & Readonly<Record<string, unknown>>): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}
