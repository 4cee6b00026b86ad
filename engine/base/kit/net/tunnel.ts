import { request as askPlain, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as askSecure } from 'node:https';
import { isIP, type Socket } from 'node:net';
import tls, { type ConnectionOptions, type TLSSocket } from 'node:tls';
import { percentDecoded } from '../text/percent.ts';
import { proxyHost } from './way.ts';

/** Host and port of an address. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

export function placeOf(url: URL): Place {
  const usual = url.protocol === 'https:' ? 443 : url.protocol.startsWith('socks') ? 1080 : 80;
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: url.port === '' ? usual : Number(url.port) };
}

/** What a request is sent to a server with whose name is not that of its header `host`. */
export function optionsTo(url: URL): RequestOptions & { readonly servername: string } {
  const { host, port } = placeOf(url);
  return { protocol: url.protocol, hostname: host, port, servername: isIP(host) === 0 ? host : '' };
}

/** Schemes by which proxies want a credential (RFC 9110 section 11.7.1); the gateway knows the first. */
const SCHEMES = /\b(?:basic|bearer|digest|kerberos|negotiate|ntlm)\b/gi;

function remedyFor(status: number, { username }: URL, authenticate: string): string {
  if (status === 403) return 'have the server allowed in it, or name the server in NO_PROXY';
  if (status !== 407) return 'look whether it can reach the server';
  const schemes = [...new Set(authenticate.match(SCHEMES))];
  if (schemes.length > 0 && !schemes.some((scheme) => /basic/i.test(scheme)))
    return `it wants ${schemes.join(' or ')}, and gets Basic at most: use a proxy that signs in there for you`;
  return username === ''
    ? 'it wants a name and a password in its address, http://name:password@...'
    : 'it refuses the name and the password in its address';
}

/** A proxy that passed nothing on, with the status it answered. Its message names the proxy without a credential. */
export class NoTunnel extends Error {
  override readonly name = 'NoTunnel';
  readonly code = 'ERR_PROXY_TUNNEL';
  readonly status: number;

  constructor(status: number, proxy: URL, headers: IncomingHttpHeaders) {
    const authenticate = [headers['proxy-authenticate'] ?? []].flat().join();
    super(`the proxy ${proxyHost(proxy)} answers with status ${status}: ${remedyFor(status, proxy, authenticate)}`);
    this.status = status;
  }
}

/** The error of a connection to a proxy, or of the time that it may take. Its message names the proxy without a credential. */
export class ProxyUnreachable extends Error {
  override readonly name = 'ProxyUnreachable';
  readonly code: string;
  readonly proxy: string;

  constructor(proxy: URL, cause: NodeJS.ErrnoException) {
    const code = cause.code ?? 'ECONNRESET';
    super(`no way through the proxy ${proxyHost(proxy)} (${code})`, { cause });
    this.code = code;
    this.proxy = proxyHost(proxy);
  }
}

/** What the address of a proxy signs in with: `name:password` in base64; `undefined` where it holds neither. */
export function proxyLogin({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined;
  return Buffer.from(`${percentDecoded(username)}:${percentDecoded(password)}`).toString('base64');
}

function proxyCredential(proxy: URL): { readonly 'proxy-authorization'?: string } {
  const login = proxyLogin(proxy);
  return login === undefined ? {} : { 'proxy-authorization': `Basic ${login}` };
}

/** Proxy Authentication Required, which no server behind a proxy answers: it passed nothing on (RFC 9110 section 15.5.8). */
export const PROXY_REFUSES = 407;

/** How requests to a server are written for a proxy that reads them. */
export interface ForProxy {
  readonly proxy: URL;
  /** Stands before their paths (RFC 9112 section 3.2.2). */
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** How requests to a URL are written for a proxy; `undefined` without one, and over TLS, where it passes bytes on. */
export function writtenForProxy(url: URL, proxy: URL | undefined): ForProxy | undefined {
  if (proxy === undefined || url.protocol === 'https:') return undefined;
  return { proxy, origin: url.origin, headers: { host: url.host, ...proxyCredential(proxy) } };
}

/**
 * Opens a connection to a place through an HTTP proxy (RFC 9110, CONNECT). Node's own way through a proxy can't be ended, and
 * fails the process over an answer that comes in pieces. Rejects with ProxyUnreachable, NoTunnel, or the reason of the signal.
 */
export function openTunnel({ host, port }: Place, proxy: URL, signal: AbortSignal): Promise<Socket> {
  const target = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
  return new Promise((resolve, reject) => {
    const asked = (proxy.protocol === 'https:' ? askSecure : askPlain)({
      ...optionsTo(proxy),
      method: 'CONNECT',
      path: target,
      headers: { host: target, ...proxyCredential(proxy) },
      agent: false,
      signal,
    });
    const refuse = ({ statusCode = 0, headers }: IncomingMessage) => reject(new NoTunnel(statusCode, proxy, headers));
    asked.once('connect', (answer, socket: Socket) => {
      const { statusCode = 0 } = answer;
      if (statusCode >= 200 && statusCode <= 299) return resolve(socket);
      socket.destroy();
      refuse(answer);
    });
    asked.once('response', (answer) => {
      asked.destroy();
      refuse(answer);
    });
    asked.on('error', (error) => reject(signal.aborted ? signal.reason : new ProxyUnreachable(proxy, error)));
    asked.end();
  });
}

/** The longest that a connection through a proxy may take where nobody says, in milliseconds; as long as in undici. */
const CONNECT_MS = 10_000;

/** The same as `openTlsTunnel` within 10 seconds. */
export async function openTlsTunnelInTime(place: Place, proxy: URL, options: TunnelTls): Promise<TLSSocket> {
  const time = new AbortController();
  const tooLate = Object.assign(new Error('no tunnel in time'), { code: 'ETIMEDOUT' });
  const timer = setTimeout(() => time.abort(new ProxyUnreachable(proxy, tooLate)), CONNECT_MS).unref();
  return openTlsTunnel(place, proxy, { ...options, signal: time.signal }).finally(() => clearTimeout(timer));
}

/** TLS to a server: which name it is asked by follows from the place. */
export type TunnelTls = Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'session' | 'ALPNProtocols'>;

/** Idle connections are probed as often, in milliseconds, so that one that is dead is noticed. */
const PROBE_MS = 1000;

/**
 * Opens a TLS connection to a place through an HTTP proxy. Rejects as `openTunnel` does, and with the error of the network where there
 * is a tunnel and no TLS.
 */
export async function openTlsTunnel(
  place: Place,
  proxy: URL,
  { signal, ...options }: TunnelTls & { readonly signal: AbortSignal },
): Promise<TLSSocket> {
  const socket = await openTunnel(place, proxy, signal);
  socket.setNoDelay(true);
  socket.setKeepAlive(true, PROBE_MS);
  socket.on('error', () => {});
  const { host } = place;
  const secure = tls.connect({ ...options, socket, servername: isIP(host) === 0 ? host : '', host });
  return new Promise((resolve, reject) => {
    const end = () => secure.destroy(signal.reason);
    signal.addEventListener('abort', end, { once: true });
    // Later errors are for whoever uses the connection; without a listener they would end the process.
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
