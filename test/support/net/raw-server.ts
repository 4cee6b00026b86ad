import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

/** A request as received over a connection, byte for byte. */
export interface RawRequest {
  readonly socket: Socket;
  readonly head: string;
  readonly body: Buffer;
}

/** An upstream that sends raw bytes. */
export interface RawUpstream {
  readonly url: URL;
  /** Of all connections, in the order they were made. */
  readonly sockets: readonly Socket[];
  /** In the order of arrival. */
  readonly requests: readonly RawRequest[];
  /** Its reaction to a request; its reaction to the head, if `at_head`. */
  script: (request: RawRequest) => void;
  at_head: boolean;
  /** How many connections are open. */
  open(): number;
  close(): Promise<void>;
}

/** Starts an upstream on loopback; with a certificate it speaks TLS. */
export async function startRawUpstream(
  script: RawUpstream['script'],
  tls?: { readonly cert: string; readonly key: string },
): Promise<RawUpstream> {
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
    script,
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

/** A scripted server of raw bytes: answers once a request's head has arrived. Open while the test runs. */
export async function rawServer(response: (socket: Socket, head: string) => void) {
  const heads: string[] = [];
  const server = await startRawUpstream(({ socket, head }) => {
    heads.push(head);
    response(socket, head);
  });
  server.at_head = true;
  return { url: server.url.origin, heads, [Symbol.asyncDispose]: server.close };
}
