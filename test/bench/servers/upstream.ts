/**
 * The static upstream of the bench: reads and drops the body, then returns a fixed Messages response, or a stream of
 * as many events as the `x-bench-events` header requests, one every `x-bench-interval` milliseconds.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveParent } from './parent.ts';

const USAGE = {
  input_tokens: 12,
  cache_creation_input_tokens: 300,
  cache_read_input_tokens: 18_000,
  cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 300 },
  output_tokens: 48,
  service_tier: 'standard',
};

const MESSAGE = {
  id: 'msg_bench',
  type: 'message',
  role: 'assistant',
  model: 'bench-model',
  content: [{ type: 'text', text: 'An answer of ordinary length. '.repeat(20) }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: USAGE,
};

const ANSWER = Buffer.from(JSON.stringify(MESSAGE));

const HEAD = {
  'request-id': 'req_bench',
  'vendor-ratelimit-requests-limit': '4000',
  'vendor-ratelimit-requests-remaining': '3999',
  'vendor-ratelimit-requests-reset': '2030-01-01T00:00:00Z',
};

function event(data: { type: string } & Record<string, unknown>): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

const FIRST = event({
  type: 'message_start',
  message: { ...MESSAGE, content: [], usage: { ...USAGE, output_tokens: 1 } },
});
const OPEN = event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } });
const DELTA = event({
  type: 'content_block_delta',
  index: 0,
  delta: { type: 'text_delta', text: 'a few words more ' },
});
const CLOSE = event({ type: 'content_block_stop', index: 0 });
const LAST = event({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 48 } });
const STOP = event({ type: 'message_stop' });

function stream(res: ServerResponse, count: number, interval_ms: number): void {
  const events = [FIRST, OPEN, ...Array.from({ length: count - 5 }, () => DELTA), CLOSE, LAST, STOP];
  res.writeHead(200, { ...HEAD, 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  let next = 0;
  const write = () => {
    res.write(events[next++] as string);
    if (next < events.length) return;
    clearInterval(timer);
    res.end();
  };
  const timer = setInterval(write, interval_ms);
  res.on('close', () => clearInterval(timer));
  write();
}

function answer(req: IncomingMessage, res: ServerResponse): void {
  const events = Number(req.headers['x-bench-events'] ?? 0);
  if (events > 0) {
    stream(res, events, Number(req.headers['x-bench-interval']));
    return;
  }
  res.writeHead(200, { ...HEAD, 'content-type': 'application/json', 'content-length': ANSWER.length });
  res.end(ANSWER);
}

const server = createServer((req, res) => {
  req.resume();
  req.on('end', () => answer(req, res));
});
server.on('connection', (socket) => socket.setNoDelay(true));
server.keepAliveTimeout = 600_000;
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  serveParent({ url: `http://127.0.0.1:${port}` }, {}, async () => {
    server.close();
    server.closeAllConnections();
  });
});
