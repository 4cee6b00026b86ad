/**
 * An HTTP proxy as companies have them, in front of servers of the test: it opens ways (CONNECT) and reads requests with a whole address,
 * and knows private names.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import tls from 'node:tls';
import { openPort } from './own-port.ts';

/** A request at a proxy. */
export interface Passed {
  /** `CONNECT`, or the method of a request it read. */
  readonly method: string;
  /** Host and port, or the whole address. */
  readonly target: string;
  /** Its own credential, as it was sent. */
  readonly credential: string | undefined;
  /** The key for the server behind it, which is the server's alone to see. */
  readonly key: string | undefined;
}

/** A running proxy. */
export type ForwardProxy = Awaited<ReturnType<typeof startForwardProxy>>;

/** Starts a proxy on a free port of the loopback address. */
export async function startForwardProxy(options: {
  /** The ports of the servers it reaches on this machine, by its names for them. */
  readonly servers: Readonly<Record<string, number>>;
  /** Required name and password. */
  readonly credential?: { readonly name: string; readonly password: string };
  /** The status with which it rejects every client. */
  readonly refuses?: number;
  /** The challenge of its rejections. */
  readonly authenticate?: string;
  /** Has it speak TLS itself. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly host: string };
}) {
  const { servers, credential, refuses } = options;
  const wanted = credential && `Basic ${Buffer.from(`${credential.name}:${credential.password}`).toString('base64')}`;
  const passed: Passed[] = [];
  const open = new Set<Duplex>();
  const note = ({ method = '', url = '', headers }: IncomingMessage) => {
    const { 'proxy-authorization': sent, 'x-api-key': key } = headers;
    passed.push({ method, target: url, credential: sent, key: key as string | undefined });
    return refuses ?? (wanted !== undefined && sent !== wanted ? 407 : undefined);
  };
  const scheme = options.authenticate ?? 'Basic realm="proxy"';
  const onRequest = (req: IncomingMessage, res: ServerResponse) => {
    const status = note(req);
    if (status !== undefined) {
      res.writeHead(status, { 'proxy-authenticate': scheme, 'content-type': 'text/html' }).end('<p>no</p>');
      return;
    }
    if (!URL.canParse(req.url!)) return void res.writeHead(400).end();
    const url = new URL(req.url!);
    const { 'proxy-authorization': _, ...headers } = req.headers;
    const path = `${url.pathname}${url.search}`;
    const behind = request({ port: servers[url.hostname], path, method: req.method, headers, agent: false });
    behind.on('response', (response) => {
      res.writeHead(response.statusCode!, response.headers);
      response.pipe(res);
    });
    behind.on('error', () => res.destroy());
    res.on('close', () => behind.destroy());
    req.pipe(behind);
  };
  const onConnect = (req: IncomingMessage, socket: Duplex) => {
    const status = note(req);
    open.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => open.delete(socket));
    if (status !== undefined) {
      socket.end(`HTTP/1.1 ${status} No\r\nproxy-authenticate: ${scheme}\r\ncontent-length: 2\r\n\r\nno`);
      return;
    }
    const port = servers[req.url!.split(':')[0]!];
    const behind = connect(port ?? 9, '127.0.0.1');
    behind.once('connect', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(behind).pipe(socket);
    });
    behind.on('error', () => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
    behind.once('close', () => socket.destroy());
    socket.once('close', () => behind.destroy());
  };
  const server = options.tls ? createSecureServer(options.tls) : createServer();
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  server.on('request', onRequest).on('connect', onConnect);
  const { port } = await openPort(server);
  const host = `${options.tls?.host ?? '127.0.0.1'}:${port}`;
  const who = credential ? `${credential.name}:${encodeURIComponent(credential.password)}@` : '';
  return {
    /** With its credential, if required. */
    url: `${options.tls ? 'https' : 'http'}://${who}${host}`,
    host,
    passed,
    /** Tunnels that are open now. */
    open: open as ReadonlySet<Duplex>,
    close: () => closed(server, sockets),
  };
}

/** A server that speaks TLS in front of a port of this machine. */
export async function startTlsFront(
  port: number,
  certificate: { readonly cert: string; readonly key: string },
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const server = tls.createServer(certificate, (socket) => {
    const behind = connect(port, '127.0.0.1');
    sockets.add(socket).add(behind);
    for (const [one, other] of [
      [socket, behind],
      [behind, socket],
    ] as const) {
      one.pipe(other);
      one.on('error', () => {});
      one.once('close', () => other.destroy());
    }
  });
  const front = await openPort(server);
  return { port: front.port, close: () => closed(server, sockets) };
}

async function closed(server: Server | tls.Server, sockets: ReadonlySet<Socket>): Promise<void> {
  const end = once(server, 'close');
  server.close();
  for (const socket of sockets) socket.destroy();
  await end;
}
