/**
 * A mock model provider: speaks the Messages API, streams word by word, counts words as tokens, has a prompt cache, and fails
 * on request. It has no model: it repeats the last message.
 * @module
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import {
  createPromptCache,
  type MessagesRequest,
  type PromptCache,
  textsOf,
  type Usage,
  wordsIn,
} from './prompt-cache.ts';

/** The behaviour of an upstream; the week of traffic uses its own. */
export interface Conduct {
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly pause: (milliseconds: number) => Promise<unknown>;
  /** Milliseconds before a response starts. */
  readonly thinking_ms: () => number;
  /** Tokens per word, of prompt and response. */
  readonly tokens_per_word: { readonly input: number; readonly output: number };
  /** The response to the last message. */
  readonly answer: (question: string) => string;
  /** A failure without a request for one. */
  readonly outage: () => Failure | undefined;
}

/** A running demo upstream. */
export interface DemoUpstream {
  readonly url: string;
  close(): Promise<void>;
}

interface Reply {
  readonly id: string;
  readonly model: string;
  readonly words: readonly string[];
  readonly usage: Usage;
  readonly stop_reason: 'end_turn' | 'max_tokens';
}

const WORD_PAUSE_MS = 25;
const MODELS = ['demo-large', 'demo-small'];
const FAILURES = ['400', '401', '429', '500', '529', 'html', 'reset', 'hang', 'cut'] as const;
/** A kind of failure. */
export type Failure = (typeof FAILURES)[number];
const ORDINARY: Conduct = {
  now: Date.now,
  pause,
  thinking_ms: () => 0,
  tokens_per_word: { input: 1, output: 1 },
  answer: shortAnswer,
  outage: () => undefined,
};
const ERROR_TYPES: Readonly<Record<string, string>> = {
  '400': 'invalid_request_error',
  '401': 'authentication_error',
  '404': 'not_found_error',
  '429': 'rate_limit_error',
  '500': 'api_error',
  '529': 'overloaded_error',
};

function sendJson(res: ServerResponse, status: number, value: unknown, headers: Record<string, string> = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  // The line break puts the next shell prompt on its own line.
  res.end(`${JSON.stringify(value)}\n`);
}

function sendError(res: ServerResponse, status: number, message: string): void {
  const retry: Record<string, string> = status === 429 ? { 'retry-after': '2' } : {};
  const error = { type: ERROR_TYPES[String(status)] ?? 'api_error', message };
  sendJson(res, status, { type: 'error', error, request_id: res.getHeader('request-id') }, retry);
}

/** The longest message that is repeated, in characters: coding clients send 80 KB around a typed message. */
const REPEATED_MAX = 80;

function shortAnswer(question: string): string {
  const repeated = question !== '' && question.length <= REPEATED_MAX ? `You said: "${question}". ` : '';
  return `${repeated}I am the mock model of the demo: your request came to me through the gateway, and this response returns the same way. I always send the same text.`;
}

/** The words `fail 529`; coding clients send more text around them. */
const FAIL_WORDS = new RegExp(`\\bfail (${FAILURES.join('|')})\\b`, 'i');

/** The requested failure: the header `x-demo-fail`, or the words `fail 529` in the last message. */
function requestedFailure(req: IncomingMessage, body: MessagesRequest): Failure | undefined {
  const user_text = textsOf(body.messages?.at(-1)?.content).join(' ');
  const failure_name = req.headers['x-demo-fail'] ?? FAIL_WORDS.exec(user_text)?.[1];
  return FAILURES.find((failure) => failure === String(failure_name).toLowerCase());
}

/** Fails before the first byte of the response; the stream handles `cut`. */
function fail(res: ServerResponse, failure: Failure): void {
  if (failure === 'hang') return;
  if (failure === 'reset' || failure === 'cut') {
    res.socket?.resetAndDestroy();
  } else if (failure === 'html') {
    res.writeHead(502, { 'content-type': 'text/html' });
    res.end('<html><body><h1>502 Bad Gateway</h1></body></html>');
  } else {
    sendError(res, Number(failure), `This is the requested failure ${failure}.`);
  }
}

function compose(body: MessagesRequest, usage: Usage, id: string, conduct: Conduct): Reply {
  const tokens_per_word = conduct.tokens_per_word.output;
  const user_text = textsOf(body.messages?.at(-1)?.content).join(' ').trim();
  const words = conduct.answer(user_text).split(/(?<= )/);
  const limit = Math.floor((body.max_tokens ?? words.length * tokens_per_word) / tokens_per_word);
  return {
    id,
    model: body.model ?? '',
    words: words.slice(0, limit),
    usage: { ...usage, output_tokens: Math.min(words.length, limit) * tokens_per_word },
    stop_reason: words.length > limit ? 'max_tokens' : 'end_turn',
  };
}

function messageOf(reply: Reply, finished: boolean): Record<string, unknown> {
  return {
    id: reply.id,
    type: 'message',
    role: 'assistant',
    model: reply.model,
    content: finished ? [{ type: 'text', text: reply.words.join('') }] : [],
    stop_reason: finished ? reply.stop_reason : null,
    stop_sequence: null,
    usage: finished ? reply.usage : { ...reply.usage, output_tokens: 1 },
  };
}

/** Streams a response: the first event at once, then a word every few milliseconds. */
async function streamReply(res: ServerResponse, reply: Reply, cut: boolean, { pause }: Conduct): Promise<void> {
  const send = (event: { type: string } & Record<string, unknown>) =>
    res.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  send({ type: 'message_start', message: messageOf(reply, false) });
  send({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } });
  send({ type: 'ping' });
  for (const [i, text] of reply.words.entries()) {
    await pause(WORD_PAUSE_MS);
    if (res.destroyed) return;
    if (cut && i === 3) return void res.socket?.resetAndDestroy();
    send({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
  }
  send({ type: 'content_block_stop', index: 0 });
  const delta = { stop_reason: reply.stop_reason, stop_sequence: null };
  send({ type: 'message_delta', delta, usage: { output_tokens: reply.usage.output_tokens } });
  send({ type: 'message_stop' });
  res.end();
}

async function readJson(req: IncomingMessage): Promise<MessagesRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as MessagesRequest;
}

function listModels(res: ServerResponse): void {
  const data = MODELS.map((id) => ({ type: 'model', id, display_name: id, created_at: '2026-01-01T00:00:00Z' }));
  sendJson(res, 200, { data, has_more: false, first_id: MODELS[0], last_id: MODELS.at(-1) });
}

async function answer(
  req: IncomingMessage,
  res: ServerResponse,
  id: string,
  { conduct, cache }: { readonly conduct: Conduct; readonly cache: PromptCache },
): Promise<void> {
  const path = req.url?.split('?')[0];
  if (req.method === 'GET' && path === '/v1/models') return listModels(res);
  if (req.method !== 'POST' || (path !== '/v1/messages' && path !== '/v1/messages/count_tokens')) {
    return sendError(res, 404, 'The demo upstream does not serve this path.');
  }
  const body = await readJson(req).catch(() => undefined);
  if (body === undefined) return sendError(res, 400, 'The body is not JSON.');
  if (!MODELS.includes(body.model ?? '')) return sendError(res, 404, `model: ${body.model}`);
  if (!Array.isArray(body.messages)) return sendError(res, 400, 'messages: Field required');
  if (path === '/v1/messages/count_tokens') return sendJson(res, 200, { input_tokens: wordsIn(body) });
  const failure = conduct.outage() ?? requestedFailure(req, body);
  if (failure !== undefined && !(failure === 'cut' && body.stream === true)) return fail(res, failure);
  await conduct.pause(conduct.thinking_ms());
  const reply = compose(body, cache.use(body), id, conduct);
  if (body.stream === true) return streamReply(res, reply, failure === 'cut', conduct);
  sendJson(res, 200, messageOf(reply, true));
}

/** Starts the demo upstream on 127.0.0.1, by default on a free port; it requires `api_key` in `x-api-key`. */
export async function startUpstream(options: {
  readonly api_key: string;
  readonly port?: number;
  readonly conduct?: Conduct;
}): Promise<DemoUpstream> {
  const { conduct = ORDINARY } = options;
  const cache = createPromptCache(conduct.now, conduct.tokens_per_word.input);
  let requests = 0;
  const server = createServer((req, res) => {
    requests += 1;
    const id = `demo_${String(requests).padStart(6, '0')}`;
    res.setHeader('request-id', `req_${id}`);
    if (req.headers['x-api-key'] !== options.api_key) return sendError(res, 401, 'invalid x-api-key');
    answer(req, res, `msg_${id}`, { conduct, cache }).catch(() => res.destroy());
  });
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
