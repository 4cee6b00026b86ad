import {
  type Agent,
  request as askPlain,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import { request as askSecure } from 'node:https';
import type { Socket } from 'node:net';
import { growingBuffer } from './growing-buffer.ts';
import {
  NoTunnel,
  openTunnel,
  optionsTo,
  PROXY_REFUSES,
  ProxyUnreachable,
  placeOf,
  writtenForProxy,
} from './tunnel.ts';

export interface ExchangeRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** Timeout of the whole exchange; a longer response is cut off. Absent: only the signal ends it. */
  readonly seconds?: number;
  /** Most bytes of the response body, before decompression; the rest is not read. Default 1 MiB. */
  readonly bytes_max?: number;
  readonly ca?: readonly string[];
  /** Certificate pinning: the certificate of the server in PEM, trusted for any host name, and the server name to send. */
  readonly pinned?: { readonly certificate: string; readonly name: string };
  readonly proxy?: URL | undefined;
  /** Whether to read the body; if false, the connection is closed after the headers. Default true. */
  readonly read_body?: boolean;
  readonly signal?: AbortSignal;
  /** Connection pool; default: a new connection. */
  readonly agent?: Agent;
}

export interface Arrival {
  readonly at_ms: number;
  readonly bytes: number;
}

/** An untrusted response, with the arrival times of its parts. */
export interface Exchange {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** As received, possibly compressed (`content-encoding`); `decodeBody` decompresses it. */
  readonly body: Buffer;
  readonly arrivals: readonly Arrival[];
  readonly head_ms: number;
  readonly total_ms: number;
  /** `whole`: complete by HTTP framing. `cut`: closed by the server. `too_large`: over `bytes_max`. `too_late`: timed out. */
  readonly ending: 'whole' | 'cut' | 'too_large' | 'too_late';
}

const BYTES_MAX = 1024 * 1024;

/**
 * Sends one request and records arrival times. Follows no redirects. Rejects with the network or proxy error, or the reason of the
 * signal, if no response headers arrive in time.
 */
export async function exchange(url: string, input: ExchangeRequest): Promise<Exchange> {
  const time = new AbortController();
  // Not AbortSignal.timeout: its timer does not keep the process alive.
  const { seconds } = input;
  const late = () => time.abort(new DOMException(`no response within ${seconds} seconds`, 'TimeoutError'));
  const timer = seconds === undefined ? undefined : setTimeout(late, seconds * 1000);
  const signal = input.signal === undefined ? time.signal : AbortSignal.any([time.signal, input.signal]);
  try {
    const started = performance.now();
    const { proxy } = input;
    if (proxy === undefined) return await send(url, input, { signal, started, way: {} });
    const for_proxy = writtenForProxy(new URL(url), proxy);
    if (for_proxy !== undefined) {
      const way = { ...optionsTo(proxy), path: url, own_headers: for_proxy.headers };
      const answer = await send(url, input, { signal, started, way }).catch((error) => {
        throw signal.aborted ? error : new ProxyUnreachable(proxy, error);
      });
      if (answer.status === PROXY_REFUSES) throw new NoTunnel(PROXY_REFUSES, proxy, answer.headers);
      return answer;
    }
    const socket = await openTunnel(placeOf(new URL(url)), proxy, signal);
    return await send(url, input, { signal, started, way: { socket } }).finally(() => socket.destroy());
  } finally {
    clearTimeout(timer);
  }
}

/** Like `exchange`, for callers of complete responses: also rejects if the body is too large, late or cut off. */
export async function wholeExchange(url: string, input: ExchangeRequest): Promise<Exchange> {
  const answer = await exchange(url, input);
  if (answer.ending === 'too_large') throw new Error('the response is too large');
  if (answer.ending === 'too_late') throw new DOMException('the response is not complete in time', 'TimeoutError');
  if (answer.ending === 'cut') throw Object.assign(new Error('the response was cut off'), { code: 'ECONNRESET' });
  return answer;
}

const isSecure = (url: string) => /^https:/i.test(url);

const ANY_HOST_NAME = { allowPartialTrustChain: true, checkServerIdentity: () => undefined };

type WayThere = RequestOptions & { readonly socket?: Socket; readonly own_headers?: Readonly<Record<string, string>> };

function send(
  url: string,
  input: ExchangeRequest,
  { signal, started, way }: { readonly signal: AbortSignal; readonly started: number; readonly way: WayThere },
): Promise<Exchange> {
  const {
    method = 'GET',
    headers = {},
    body,
    bytes_max = BYTES_MAX,
    ca,
    pinned,
    read_body = true,
    agent = false,
  } = input;
  const { own_headers = {}, ...options } = way;
  const is_secure = isSecure(options.protocol ?? url);
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise((resolve, reject) => {
    const request = (is_secure ? askSecure : askPlain)(url, {
      method,
      headers: { ...headers, ...length, ...own_headers },
      agent,
      signal,
      ...options,
      ...(ca && { ca: [...ca] }),
      ...(pinned && { ca: pinned.certificate, servername: pinned.name, ...ANY_HOST_NAME }),
    });
    request.setNoDelay(true);
    let is_answered = false;
    const headOf = (response: IncomingMessage) => {
      is_answered = true;
      return { status: response.statusCode ?? 0, headers: response.headers, head_ms: performance.now() - started };
    };
    const withoutBody = (response: IncomingMessage) => {
      const head = headOf(response);
      resolve({ ...head, body: Buffer.alloc(0), arrivals: [], total_ms: head.head_ms, ending: 'whole' });
      request.destroy();
    };
    // Errors after the headers end the body; the received part is kept.
    request.on('error', (error) => is_answered || reject(signal.aborted ? signal.reason : error));
    request.on('close', () => is_answered || reject(Object.assign(new Error('no response'), { code: 'ECONNRESET' })));
    request.on('upgrade', (response, socket) => {
      socket.destroy();
      withoutBody(response);
    });
    request.on('response', (response) => {
      if (!read_body) return withoutBody(response);
      const head = headOf(response);
      read(response, { started, bytes_max, signal }).then((rest) => resolve({ ...head, ...rest }), reject);
    });
    request.end(body);
  });
}

function read(
  response: IncomingMessage,
  { started, bytes_max, signal }: { started: number; bytes_max: number; signal: AbortSignal },
): Promise<Pick<Exchange, 'body' | 'arrivals' | 'total_ms' | 'ending'>> {
  const body = growingBuffer(bytes_max);
  const arrivals: { at_ms: number; bytes: number }[] = [];
  return new Promise((resolve) => {
    const end = (ending: Exchange['ending']) => {
      resolve({ body: body.taken(), arrivals, total_ms: performance.now() - started, ending });
      response.destroy();
    };
    response.on('data', (chunk: Buffer) => {
      const at_ms = performance.now() - started;
      const bytes = body.add(chunk);
      const last = arrivals.at(-1);
      if (last !== undefined && at_ms - last.at_ms < 1) last.bytes += bytes;
      else arrivals.push({ at_ms, bytes });
      if (bytes < chunk.length) end('too_large');
    });
    // Node reports a body that ends with its connection as complete, also after a timeout.
    const over = () => end(signal.aborted ? 'too_late' : response.complete ? 'whole' : 'cut');
    response.on('error', () => end(signal.aborted ? 'too_late' : 'cut'));
    response.on('end', over);
    response.on('close', over);
  });
}
