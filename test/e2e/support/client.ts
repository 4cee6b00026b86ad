/** HTTP clients for tests that need the exact bytes on the wire. */
import { once } from 'node:events';
import { type Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { createConnection, type Socket } from 'node:net';
import { until } from '../../support/until.ts';

/** A complete response. */
export interface Response {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly raw_headers: readonly string[];
  readonly body: Buffer;
  readonly text: string;
  /** The body as JSON; fails with the body's text when it is none. */
  // biome-ignore lint/suspicious/noExplicitAny: a test asserts on whatever shape came
  json(): any;
}

/** The request; headers are names and values in turn so that spelling, order and repetition can be chosen. */
export interface Sending {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: readonly string[];
  /** Parts are sent with chunked transfer coding, one chunk each. */
  readonly body?: Buffer | string | readonly Buffer[];
  /** Keeps connections; without one each request has its own. */
  readonly agent?: Agent;
}

export const MESSAGES = '/v1/messages';

/** The smallest valid Messages request. */
export function messagesBody(more: object = {}): string {
  return JSON.stringify({
    model: 'coder-1',
    max_tokens: 64,
    messages: [{ role: 'user', content: 'Say hello.' }],
    ...more,
  });
}

/** Headers of an ordinary Messages request. */
export function bearer(token: string, more: readonly string[] = []): string[] {
  return ['authorization', `Bearer ${token}`, 'content-type', 'application/json', ...more];
}

function response(head: IncomingMessage, body: Buffer): Response {
  const text = body.toString('utf8');
  return {
    status: head.statusCode ?? 0,
    headers: head.headers,
    raw_headers: head.rawHeaders,
    body,
    text,
    json() {
      try {
        return JSON.parse(text);
      } catch {
        throw new Error(`status ${head.statusCode}: the body is not JSON: ${text.slice(0, 300)}`);
      }
    },
  };
}

/** Reads a response to its end. */
export async function readAll(head: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  for await (const chunk of head) chunks.push(chunk as Buffer);
  return response(head, Buffer.concat(chunks));
}

/** Sends a request and returns the response head as soon as it is there; `abort` drops the connection. */
export function open(url: string, sending: Sending): { head: Promise<IncomingMessage>; abort(): void } {
  const parts = Array.isArray(sending.body) ? (sending.body as readonly Buffer[]) : undefined;
  const body = sending.body === undefined || parts ? undefined : Buffer.from(sending.body as string);
  const length = body === undefined ? [] : ['content-length', String(body.length)];
  const framing = parts === undefined ? length : ['transfer-encoding', 'chunked'];
  const { host, hostname, port } = new URL(url);
  const req = httpRequest({
    hostname,
    port,
    method: sending.method ?? 'POST',
    path: sending.path ?? MESSAGES,
    headers: ['host', host, ...(sending.headers ?? []), ...framing],
    agent: sending.agent ?? false,
  });
  const head = new Promise<IncomingMessage>((resolve, reject) => {
    req.on('response', resolve);
    req.on('error', reject);
  });
  head.catch(() => {});
  for (const part of parts ?? []) req.write(part);
  req.end(body);
  return { head, abort: () => req.destroy() };
}

/** Sends a request and reads the whole response, on a connection of its own. */
export async function send(url: string, sending: Sending): Promise<Response> {
  return await readAll(await open(url, sending).head);
}

/** Sends an ordinary Messages request. */
export function ask(url: string, token: string, more: object = {}, headers: readonly string[] = []): Promise<Response> {
  return send(url, { headers: bearer(token, headers), body: messagesBody(more) });
}

/** A plain TCP connection to a server. */
export async function connect(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = createConnection({ host: hostname, port: Number(port) });
  await once(socket, 'connect');
  socket.on('error', () => {});
  return socket;
}

/** Collects everything a socket receives; `closed` resolves with it when the connection ends. */
export function collect(socket: Socket): { text(): string; readonly closed: Promise<string> } {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const text = () => Buffer.concat(chunks).toString('utf8');
  return { text, closed: new Promise((resolve) => socket.once('close', () => resolve(text()))) };
}

/** A response parsed from raw text; for requests that a proper client would not send. */
export interface RawResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Parses the first response of raw text. */
export function parseRaw(text: string): RawResponse {
  const end = text.indexOf('\r\n\r\n');
  const [line, ...fields] = text.slice(0, Math.max(end, 0)).split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(line ?? '')?.[1]);
  if (Number.isNaN(status)) throw new Error(`this is no HTTP response: ${JSON.stringify(text.slice(0, 200))}`);
  const headers = Object.fromEntries(
    fields.map((field) => [
      field.slice(0, field.indexOf(':')).toLowerCase(),
      field.slice(field.indexOf(':') + 1).trim(),
    ]),
  );
  return { status, headers, body: text.slice(end + 4) };
}

/** Sends raw bytes, and returns the response as soon as its head is there, though the server may wait for more. */
export async function sendPart(url: string, bytes: string): Promise<RawResponse> {
  const socket = await connect(url);
  const received = collect(socket);
  socket.write(bytes);
  await until('there is a response', () => received.text().includes('\r\n\r\n'));
  socket.destroy();
  return parseRaw(received.text());
}

/** Sends raw bytes and reads until the server closes the connection. */
export async function sendRaw(url: string, bytes: string | Buffer): Promise<string> {
  const socket = await connect(url);
  const received = collect(socket);
  socket.write(bytes);
  return await received.closed;
}
