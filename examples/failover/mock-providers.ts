/**
 * Three mock providers of the Messages API, `main`, `east` and `west`. They have no model; each responds with its name. Further
 * commands break and fix one of them:
 *
 *     node mock-providers.ts                  runs them, on ports 18091 to 18093
 *     node mock-providers.ts list             shows the state and the number of requests of each
 *     node mock-providers.ts break main 529   main fails with this status; or: hang, reset, cut, refuse
 *     node mock-providers.ts fix main
 *
 * It needs Node.js and no other file.
 * @module
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';

const NAMES = ['main', 'east', 'west'];
const WAYS = ['hang', 'reset', 'cut', 'refuse'];
/** The control port; the providers listen on the next three ports. */
const PORT = Number(process.env.MOCK_PORT ?? 18090);
const CONTROL = `http://127.0.0.1:${PORT}`;
const TYPES: Readonly<Record<string, string>> = {
  '400': 'invalid_request_error',
  '401': 'authentication_error',
  '403': 'permission_error',
  '404': 'not_found_error',
  '429': 'rate_limit_error',
  '529': 'overloaded_error',
};

interface MockProvider {
  readonly name: string;
  readonly port: number;
  readonly server: Server;
  requests: number;
  /** How it fails; `undefined` while it works. */
  fails: string | undefined;
}

interface Asked {
  readonly model?: string;
  readonly stream?: boolean;
}

function sendJson(res: ServerResponse, status: number, value: unknown, headers: Record<string, string> = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  // The line break puts the next shell prompt on its own line.
  res.end(`${JSON.stringify(value)}\n`);
}

/** The response, as a whole or event by event. `cut` breaks the connection in the middle. */
async function speak(res: ServerResponse, { model, stream }: Asked, { name, requests }: MockProvider, cut: boolean) {
  const words = `I am ${name}, a mock provider.`.split(/(?<= )/);
  const usage = { input_tokens: 10, output_tokens: words.length };
  const message = { id: `msg_${name}_${requests}`, type: 'message', role: 'assistant', model, content: [] };
  if (stream !== true) {
    const whole = { ...message, content: [{ type: 'text', text: words.join('') }], stop_reason: 'end_turn', usage };
    if (!cut) return sendJson(res, 200, whole);
    const body = JSON.stringify(whole);
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
    return void res.write(body.slice(0, body.length / 2), () => res.destroy());
  }
  const send = (event: { type: string } & Record<string, unknown>) =>
    res.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  send({ type: 'message_start', message: { ...message, usage: { ...usage, output_tokens: 1 } } });
  send({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } });
  for (const [i, word] of words.entries()) {
    await pause(50);
    if (res.destroyed) return;
    if (cut && i === 3) return void res.destroy();
    send({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: word } });
  }
  send({ type: 'content_block_stop', index: 0 });
  send({ type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage });
  send({ type: 'message_stop' });
  res.end();
}

async function answer(req: IncomingMessage, res: ServerResponse, mock: MockProvider): Promise<void> {
  const request_body = JSON.parse((await text(req)) || '{}') as Asked;
  mock.requests += 1;
  const { name, fails, requests } = mock;
  res.setHeader('request-id', `req_${name}_${requests}`);
  if (fails === 'hang') return;
  if (fails === 'reset') return void res.socket?.resetAndDestroy();
  if (fails !== undefined && fails !== 'cut') {
    const error = { type: TYPES[fails] ?? 'api_error', message: `${name} is broken, as you wished.` };
    return sendJson(res, Number(fails), { type: 'error', error });
  }
  await speak(res, request_body, mock, fails === 'cut');
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
}

/** Breaks a provider, or fixes it if `fails` is undefined. */
async function change(mock: MockProvider, fails: string | undefined): Promise<void> {
  mock.fails = fails;
  const { server, port } = mock;
  if (fails !== 'refuse' && !server.listening) await listen(server, port);
  if (fails !== 'refuse' || !server.listening) return;
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}

async function run(): Promise<void> {
  const mocks = NAMES.map((name, i): MockProvider => {
    const server = createServer((req, res) => void answer(req, res, mock).catch(() => res.destroy()));
    const mock: MockProvider = { name, port: PORT + 1 + i, server, requests: 0, fails: undefined };
    return mock;
  });
  for (const { server, port } of mocks) await listen(server, port);
  const control = createServer(async (req, res) => {
    if (req.method === 'POST') {
      const { name, fails } = JSON.parse(await text(req)) as { name: string; fails?: string };
      await change(mocks.find((mock) => mock.name === name)!, fails);
    }
    sendJson(
      res,
      200,
      mocks.map(({ name, requests, fails = 'works' }) => ({ name, requests, does: fails })),
    );
  });
  await listen(control, PORT);
  console.log(mocks.map(({ name, port }) => `${name} at http://127.0.0.1:${port}`).join('\n'));
}

/** Sends a command to the providers in another terminal, and prints the state of each. */
async function tell(body?: object): Promise<void> {
  const response = await fetch(CONTROL, body && { method: 'POST', body: JSON.stringify(body) }).catch(() => {
    throw new Error(`nothing listens at ${CONTROL}: run this file without arguments in another terminal`);
  });
  const all = (await response.json()) as { name: string; requests: number; does: string }[];
  for (const { name, requests, does } of all) console.log(`${name}  ${does.padEnd(6)}  ${requests} requests`);
}

const [command, name = '', way = '529'] = process.argv.slice(2);
try {
  const is_known = NAMES.includes(name) && (WAYS.includes(way) || /^[45]\d\d$/.test(way));
  if (command === undefined) await run();
  else if (command === 'list') await tell();
  else if (command === 'break' && is_known) await tell({ name, fails: way });
  else if (command === 'fix' && is_known) await tell({ name });
  else throw new Error(`write list, break NAME [STATUS|${WAYS.join('|')}] or fix NAME; names: ${NAMES.join(', ')}`);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
