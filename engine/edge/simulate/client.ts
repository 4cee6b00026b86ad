/** Simulated client: one request over a real connection to the gateway under test. */
import { once } from 'node:events';
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { Caller, CaseRequest } from '../../pipeline/load/tests/test-case.ts';
import { presentHeaders } from './upstream-script.ts';

export interface ClientResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

const DEFAULT_CALLER = '192.0.2.1';
const FORWARDED_FOR = 'x-forwarded-for';

export function credentialHeaders(credential: Caller['credential'], token: string): string[] {
  if (credential === 'none') return [];
  return credential === 'x-api-key' ? ['x-api-key', token] : ['authorization', `Bearer ${token}`];
}

/** Headers added by a trusted proxy in front of the gateway. */
export function proxyHeaders(
  { address = DEFAULT_CALLER, region }: Caller,
  own: string | null | undefined,
  region_header: string | undefined,
): string[] {
  const forwarded_for = [FORWARDED_FOR, own ? `${own}, ${address}` : address];
  return region === undefined || region_header === undefined
    ? forwarded_for
    : [...forwarded_for, region_header, region];
}

/** A case's request, with headers as names and values. Its headers replace those of `added` except x-forwarded-for. */
export function clientRequest(request: CaseRequest, path: string, added: readonly string[]) {
  const { method = 'POST', json, text, headers = {}, leaves } = request;
  const body = Buffer.from(text ?? (json === undefined ? '' : JSON.stringify(json)));
  const framing = body.length > 0 ? ['content-type', 'application/json', 'content-length', String(body.length)] : [];
  const behind_proxy = added.includes(FORWARDED_FOR);
  const ours = pairs([...added, ...framing]).filter(([name]) => name === FORWARDED_FOR || headers[name] === undefined);
  const theirs = pairs(presentHeaders(headers)).filter(([name]) => !(behind_proxy && name === FORWARDED_FOR));
  return { method, path: request.path ?? path, headers: [...ours, ...theirs].flat(), body, leaves };
}

/** Pairs of an alternating list of names and values. */
export function pairs(list: readonly string[]): (readonly [name: string, value: string])[] {
  return list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1]!] as const] : []));
}

interface Surroundings {
  /** Resolves when an upstream has received the request but does not respond. */
  readonly unanswered: Promise<unknown>;
  answerBytes(): number;
  onArrival(): void;
}

/** Sends a request. `undefined` if the client disconnected, or the connection ended without a response. */
export async function send(
  gateway_url: string,
  wanted: ReturnType<typeof clientRequest>,
  around: Surroundings,
): Promise<ClientResponse | undefined> {
  const { host, hostname, port } = new URL(gateway_url);
  const { method, path, body, leaves } = wanted;
  const headers = ['host', host, ...wanted.headers];
  const req = httpRequest({ hostname, port, method, path, headers, agent: false });
  const failed = new Promise<undefined>((resolve) => req.on('error', () => resolve(undefined)));
  const answered = once(req, 'response').then(([head]) => head as IncomingMessage);
  answered.catch(() => {});
  req.end(body);
  const left = leaves === 'before_answer' ? around.unanswered.then(() => undefined) : failed;
  const head = await Promise.race([answered, left, failed]);
  around.onArrival();
  if (head === undefined) {
    req.destroy();
    return undefined;
  }
  const enough = leaves === 'during_answer' ? around.answerBytes() : Number.POSITIVE_INFINITY;
  const received = await readUpTo(head, enough, around.onArrival);
  req.destroy();
  return { status: head.statusCode!, headers: head.headers, body: received };
}

async function readUpTo(head: IncomingMessage, bytes: number, onArrival: () => void): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of head as AsyncIterable<Buffer>) {
      onArrival();
      chunks.push(chunk);
      size += chunk.length;
      if (size >= bytes) break;
    }
  } catch {
    // A stream that was cut: what came of it is what the client got.
  }
  return Buffer.concat(chunks);
}
