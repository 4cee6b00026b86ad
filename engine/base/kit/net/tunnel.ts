import { request as askPlain, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http';
import { Agent, type AgentOptions, request as askSecure } from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import tls, { type ConnectionOptions, type TLSSocket } from 'node:tls';
import { percentDecoded } from '../text/percent.ts';
import { proxyHost } from './proxy-route.ts';

/** Host and port of a server. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

export function placeOf(url: URL): Place {
  const usual = url.protocol === 'https:' ? 443 : url.protocol.startsWith('socks') ? 1080 : 80;
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: url.port === '' ? usual : Number(url.port) };
}

/** Connection options for a server whose name differs from the `host` header. */
export function optionsTo(url: URL): RequestOptions & { readonly servername: string } {
  const { host, port } = placeOf(url);
  return { protocol: url.protocol, hostname: host, port, servername: isIP(host) === 0 ? host : '' };
}

/** Authentication schemes of proxies (RFC 9110 section 11.7.1); the gateway supports only Basic. */
const SCHEMES = /\b(?:basic|bearer|digest|kerberos|negotiate|ntlm)\b/gi;

function remedyFor(status: number, { username }: URL, authenticate: string): string {
  if (status === 403) return 'allow the server in the proxy, or list the server in NO_PROXY';
  if (status !== 407) return 'check whether the proxy can reach the server';
  const schemes = [...new Set(authenticate.match(SCHEMES))];
  if (schemes.length > 0 && !schemes.some((scheme) => /basic/i.test(scheme)))
    return `it requires ${schemes.join(' or ')}, and the gateway supports only Basic: use a local proxy that signs in to it`;
  return username === ''
    ? 'it requires a username and password: write http://name:password@... as its address'
    : 'it rejects the username and password in its address';
}

/** A proxy rejected the request or tunnel, with this status. The message names the proxy without its credential. */
export class NoTunnel extends Error {
  override readonly name = 'NoTunnel';
  readonly code = 'ERR_PROXY_TUNNEL';
  readonly status: number;

  constructor(status: number, proxy: URL, headers: IncomingHttpHeaders) {
    const authenticate = [headers['proxy-authenticate'] ?? []].flat().join();
    super(`the proxy ${proxyHost(proxy)} responds with status ${status}: ${remedyFor(status, proxy, authenticate)}`);
    this.status = status;
  }
}

/** The connection to a proxy failed or timed out. The message names the proxy without its credential. */
export class ProxyUnreachable extends Error {
  override readonly name = 'ProxyUnreachable';
  readonly code: string;
  readonly proxy: string;

  constructor(proxy: URL, cause: NodeJS.ErrnoException) {
    const code = cause.code ?? 'ECONNRESET';
    super(`no connection through the proxy ${proxyHost(proxy)} (${code})`, { cause });
    this.code = code;
    this.proxy = proxyHost(proxy);
  }
}

/** Basic credentials of a proxy URL: `name:password` in base64; `undefined` if it has neither. */
export function proxyLogin({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined;
  return Buffer.from(`${percentDecoded(username)}:${percentDecoded(password)}`).toString('base64');
}

function proxyCredential(proxy: URL): { readonly 'proxy-authorization'?: string } {
  const login = proxyLogin(proxy);
  return login === undefined ? {} : { 'proxy-authorization': `Basic ${login}` };
}

/** Proxy Authentication Required (RFC 9110 section 15.5.8): always from the proxy, so nothing was forwarded. */
export const PROXY_REFUSES = 407;

/** The form of requests through a proxy that reads them (plain HTTP). */
export interface ForProxy {
  readonly proxy: URL;
  /** Prefix of the paths (absolute-form, RFC 9112 section 3.2.2). */
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The form of requests to a URL through a proxy; `undefined` without a proxy, and for https, which uses a tunnel. */
export function writtenForProxy(url: URL, proxy: URL | undefined): ForProxy | undefined {
  if (proxy === undefined || url.protocol === 'https:') return undefined;
  return { proxy, origin: url.origin, headers: { host: url.host, ...proxyCredential(proxy) } };
}

/**
 * Opens a tunnel to a server through an HTTP proxy (RFC 9110, CONNECT). Node's own proxy support cannot be aborted, and crashes the
 * process on a fragmented response. Rejects with ProxyUnreachable, NoTunnel, or the reason of the signal.
 */
export function openTunnel({ host, port }: Place, proxy: URL, signal: AbortSignal): Promise<Socket> {
  const target = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
  return new Promise((resolve, reject) => {
    const connect_request = (proxy.protocol === 'https:' ? askSecure : askPlain)({
      ...optionsTo(proxy),
      method: 'CONNECT',
      path: target,
      headers: { host: target, ...proxyCredential(proxy) },
      agent: false,
      signal,
    });
    const refuse = ({ statusCode = 0, headers }: IncomingMessage) => reject(new NoTunnel(statusCode, proxy, headers));
    connect_request.once('connect', (answer, socket: Socket) => {
      const { statusCode = 0 } = answer;
      if (statusCode >= 200 && statusCode <= 299) return resolve(socket);
      socket.destroy();
      refuse(answer);
    });
    connect_request.once('response', (answer) => {
      connect_request.destroy();
      refuse(answer);
    });
    connect_request.on('error', (error) => reject(signal.aborted ? signal.reason : new ProxyUnreachable(proxy, error)));
    connect_request.end();
  });
}

/** Default timeout of a connection through a proxy, in milliseconds; as in undici. */
const CONNECT_MS = 10_000;

/** `openTlsTunnel` with a timeout of 10 seconds. */
export async function openTlsTunnelInTime(place: Place, proxy: URL, options: TunnelTls): Promise<TLSSocket> {
  const time = new AbortController();
  const tooLate = Object.assign(new Error('no tunnel in time'), { code: 'ETIMEDOUT' });
  const timer = setTimeout(() => time.abort(new ProxyUnreachable(proxy, tooLate)), CONNECT_MS).unref();
  return openTlsTunnel(place, proxy, { ...options, signal: time.signal }).finally(() => clearTimeout(timer));
}

/** TLS options of a tunnel; the server name comes from the host. */
export type TunnelTls = Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'session' | 'ALPNProtocols'>;

/** Idle time before the first TCP keep-alive probe, in milliseconds. */
const KEEPALIVE_IDLE_MS = 1000;

/** Opens a TLS connection through an HTTP proxy. Rejects like `openTunnel`, and with the network error if TLS fails. */
export async function openTlsTunnel(
  place: Place,
  proxy: URL,
  { signal, ...options }: TunnelTls & { readonly signal: AbortSignal },
): Promise<TLSSocket> {
  const socket = await openTunnel(place, proxy, signal);
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEPALIVE_IDLE_MS);
  socket.on('error', () => {});
  const { host } = place;
  const secure = tls.connect({ ...options, socket, servername: isIP(host) === 0 ? host : '', host });
  return new Promise((resolve, reject) => {
    const end = () => secure.destroy(signal.reason);
    signal.addEventListener('abort', end, { once: true });
    // Users of the connection handle later errors; without this listener those would end the process.
    secure.on('error', reject);
    secure.once('close', () => {
      signal.removeEventListener('abort', end);
      reject(Object.assign(new Error('the connection was cut'), { code: 'ECONNRESET' }));
    });
    secure.once('secureConnect', () => {
      signal.removeEventListener('abort', end);
      resolve(secure);
    });
    if (signal.aborted) end();
  });
}

type Done = (error: Error | null, stream: Duplex) => void;

/** An HTTPS agent with custom connections to one server, such as tunnels through a proxy. */
export class TunnelAgent extends Agent {
  readonly #open: () => Promise<TLSSocket>;

  constructor(options: AgentOptions, open: () => Promise<TLSSocket>) {
    super(options);
    this.#open = open;
  }

  override createConnection(_options: object, done: Done): undefined {
    this.#open().then(
      (socket) => done(null, socket),
      (error) => done(error, undefined as unknown as Duplex),
    );
  }
}
