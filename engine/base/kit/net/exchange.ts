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
  /** For the whole exchange; an answer that takes longer is cut off. Where nothing is said the signal alone decides. */
  readonly seconds?: number;
  /** Of the answer's body as it arrives, at most; the rest is not read. 1 MiB where nothing is said. */
  readonly bytes_max?: number;
  /** Certificates to trust, in PEM, in place of the usual ones. */
  readonly ca?: readonly string[];
  /** The certificate of this very server, in PEM, to trust in place of authorities whatever it is for, and the name it is asked by. */
  readonly pinned?: { readonly certificate: string; readonly name: string };
  readonly proxy?: URL | undefined;
  /** Whether the body is wanted; else the connection is closed after the head. True where nothing is said. */
  readonly read_body?: boolean;
  readonly signal?: AbortSignal;
  /** Whose connections it uses; one of its own where nothing is said. */
  readonly agent?: Agent;
}

export interface Arrival {
  /** Since the request was sent. */
  readonly at_ms: number;
  readonly bytes: number;
}

/** An answer, with when each part of it arrived. Nothing in it was believed or followed. */
export interface Exchange {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** As it arrived: compressed where `content-encoding` says so; `decodeBody` takes that off. */
  readonly body: Buffer;
  /** What came within a millisecond is one piece. */
  readonly arrivals: readonly Arrival[];
  readonly head_ms: number;
  readonly total_ms: number;
  /** `whole`: it ended as HTTP says. Else it was cut by the server, was larger than `bytes_max`, or was not over in time. */
  readonly ending: 'whole' | 'cut' | 'too_large' | 'too_late';
}

const BYTES_MAX = 1024 * 1024;

/**
 * Sends one request and keeps when everything arrived. No redirect is followed, size and time are
 * bounded. Rejects with the error of the network, of a proxy, or the reason of a signal, where no head of an answer came in time.
 */
export async function exchange(url: string, given: ExchangeRequest): Promise<Exchange> {
  const time = new AbortController();
  // Not AbortSignal.timeout, whose timer lets the process end while nobody has an answer yet.
  const { seconds } = given;
  const late = () => time.abort(new DOMException(`no answer within ${seconds} seconds`, 'TimeoutError'));
  const timer = seconds === undefined ? undefined : setTimeout(late, seconds * 1000);
  const signal = given.signal === undefined ? time.signal : AbortSignal.any([time.signal, given.signal]);
  try {
    const started = performance.now();
    const { proxy } = given;
    if (proxy === undefined) return await send(url, given, { signal, started, way: {} });
    const for_proxy = writtenForProxy(new URL(url), proxy);
    if (for_proxy !== undefined) {
      const way = { ...optionsTo(proxy), path: url, own_headers: for_proxy.headers };
      const answer = await send(url, given, { signal, started, way }).catch((error) => {
        throw signal.aborted ? error : new ProxyUnreachable(proxy, error);
      });
      if (answer.status === PROXY_REFUSES) throw new NoTunnel(PROXY_REFUSES, proxy, answer.headers);
      return answer;
    }
    const socket = await openTunnel(placeOf(new URL(url)), proxy, signal);
    return await send(url, given, { signal, started, way: { socket } }).finally(() => socket.destroy());
  } finally {
    clearTimeout(timer);
  }
}

const isSecure = (url: string) => /^https:/i.test(url);

type WayThere = RequestOptions & { readonly socket?: Socket; readonly own_headers?: Readonly<Record<string, string>> };

function send(
  url: string,
  given: ExchangeRequest,
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
  } = given;
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
      ...(ca === undefined ? {} : { ca: [...ca] }),
      ...(pinned === undefined
        ? {}
        : {
            ca: pinned.certificate,
            servername: pinned.name,
            allowPartialTrustChain: true,
            checkServerIdentity: () => undefined,
          }),
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
    // Errors after the head end the reading of the body, which keeps what came.
    request.on('error', (error) => is_answered || reject(signal.aborted ? signal.reason : error));
    request.on('close', () => is_answered || reject(Object.assign(new Error('no answer'), { code: 'ECONNRESET' })));
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
    // A body that ends with its connection counts as complete also where the time ended that.
    const over = () => end(signal.aborted ? 'too_late' : response.complete ? 'whole' : 'cut');
    response.on('error', () => end(signal.aborted ? 'too_late' : 'cut'));
    response.on('end', over);
    response.on('close', over);
  });
}
