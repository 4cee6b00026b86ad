import { request as askPlain, type RequestOptions } from 'node:http';
import { request as askSecure } from 'node:https';
import { isIP, type Socket } from 'node:net';

/** Host and port of an address. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** Where a URL leads. */
export function placeOf(url: URL): Place {
  const usual = url.protocol === 'https:' ? 443 : url.protocol.startsWith('socks') ? 1080 : 80;
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: url.port === '' ? usual : Number(url.port) };
}

/** What a request is sent to a server with whose name is not that of its header `host`. */
export function optionsTo(url: URL): RequestOptions & { readonly servername: string } {
  const { host, port } = placeOf(url);
  return { protocol: url.protocol, hostname: host, port, servername: isIP(host) === 0 ? host : '' };
}

/** A proxy that opened no tunnel, with the status it answered. */
export class NoTunnel extends Error {
  override readonly name = 'NoTunnel';
  readonly code = 'ERR_PROXY_TUNNEL';
  readonly status: number;

  constructor(status: number) {
    super(`the proxy answered with status ${status}`);
    this.status = status;
  }
}

/** The header with the name and the password that the address of a proxy holds; none where it holds none. */
export function proxyCredential({ username, password }: URL): { readonly 'proxy-authorization'?: string } {
  if (username === '' && password === '') return {};
  const pair = `${decoded(username)}:${decoded(password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(pair).toString('base64')}` };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Opens a connection to a place through an HTTP proxy (RFC 9110, CONNECT). Node's own way through a proxy can't be ended, and
 * fails the process over an answer that comes in pieces. Rejects with the error of the network, NoTunnel, or the reason of the signal.
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
    asked.once('connect', ({ statusCode = 0 }, socket: Socket) => {
      if (statusCode === 200) return resolve(socket);
      socket.destroy();
      reject(new NoTunnel(statusCode));
    });
    asked.once('response', ({ statusCode = 0 }) => {
      asked.destroy();
      reject(new NoTunnel(statusCode));
    });
    asked.on('error', (error) => reject(signal.aborted ? signal.reason : error));
    asked.end();
  });
}
