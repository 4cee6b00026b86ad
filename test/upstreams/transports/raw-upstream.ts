import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { UpstreamResponse } from '../../../engine/api.ts';

/** A request as it came over a connection, byte for byte. */
export interface RawRequest {
  readonly socket: Socket;
  readonly head: string;
  readonly body: Buffer;
}

/** An upstream that answers with bytes. */
export interface RawUpstream {
  readonly url: URL;
  /** Of all connections, in the order they were made. */
  readonly sockets: readonly Socket[];
  /** In the order they came. */
  readonly requests: readonly RawRequest[];
  /** What it does when a request has come; what it does when the head has, if `at_head`. */
  script: (request: RawRequest) => void;
  at_head: boolean;
  /** How many connections are open. */
  open(): number;
  close(): Promise<void>;
}

/** Starts an upstream on loopback; with a certificate it speaks TLS. */
export async function startRawUpstream(tls?: { readonly cert: string; readonly key: string }): Promise<RawUpstream> {
  const sockets: Socket[] = [];
  const requests: RawRequest[] = [];
  const listen = (socket: Socket) => {
    sockets.push(socket);
    read(socket, upstream, requests);
  };
  const server: Server = tls ? createTlsServer(tls, listen) : createServer({ allowHalfOpen: true }, listen);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const upstream: RawUpstream = {
    url: new URL(`${tls ? 'https' : 'http'}://127.0.0.1:${port}`),
    sockets,
    requests,
    script: ({ socket }) => void socket.write(answer('ok')),
    at_head: false,
    open: () => sockets.filter((socket) => !socket.destroyed).length,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return upstream;
}

function read(socket: Socket, upstream: RawUpstream, requests: RawRequest[]): void {
  let bytes = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('end', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    for (let end = bytes.indexOf('\r\n\r\n'); end >= 0; end = bytes.indexOf('\r\n\r\n')) {
      const head = bytes.toString('latin1', 0, end + 4);
      const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
      if (!upstream.at_head && bytes.length < end + 4 + length) return;
      const request = { socket, head, body: bytes.subarray(end + 4, end + 4 + length) };
      bytes = upstream.at_head ? Buffer.alloc(0) : bytes.subarray(end + 4 + length);
      requests.push(request);
      upstream.script(request);
    }
  });
}

/** A whole answer with a length. */
export function answer(body: string, fields = ''): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n${fields}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Reads an answer to its end. Rejects when it breaks off. */
export function bodyOf(response: UpstreamResponse): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk) => void chunks.push(chunk));
    response.on('end', () => resolve(Buffer.concat(chunks).toString('latin1')));
    response.on('error', reject);
    response.on('close', () => reject(new Error('it broke off')));
    response.resume();
  });
}
