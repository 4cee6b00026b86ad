import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { ownPort } from '../support/net/own-port.ts';

export const ESCAPES = '\x1b]0;owned\x07\x1b[2J\x1b[31m\u202e\r\n"\'<>&\u0085\u2028';

const MIB = 1024 * 1024;
const BOMB = gzipSync(Buffer.alloc(4 * MIB));

type Answers = (request: IncomingMessage, response: ServerResponse, elsewhere: string) => void;

const asJson = (response: ServerResponse, value: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));

function forEver(
  stream: { write(chunk: Buffer): boolean; once(event: 'drain' | 'close', then: () => void): unknown },
  chunk: Buffer,
) {
  let open = true;
  stream.once('close', () => (open = false));
  const more = () => {
    if (!open) return;
    if (stream.write(chunk)) setTimeout(more, 1);
    else stream.once('drain', more);
  };
  more();
}

/** Hostile servers, or broken ones that look so, by their reaction to each request. */
export const HTTP_HARM: Readonly<Record<string, Answers>> = {
  'never answers': () => {},
  'ends without an answer': (_request, response) => response.destroy(),
  'answers without end': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    forEver(response, Buffer.alloc(64 * 1024, ' '));
  },
  'streams events without end': (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    forEver(response, Buffer.from('event: ping\ndata: {"type":"ping"}\n\n'.repeat(500)));
  },
  'answers a byte at a time': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const timer = setInterval(() => response.write(' '), 50);
    response.on('close', () => clearInterval(timer));
  },
  'cuts every answer': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 });
    response.write('{"data":[', () => response.destroy());
  },
  'sends a bomb of zeros': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(BOMB);
  },
  'says it is compressed and is not': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'br' }).end('{"data":[]}');
  },
  'nests JSON deeply': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(`${'['.repeat(400_000)}${']'.repeat(400_000)}`);
  },
  'lists names of objects': (_request, response) => {
    asJson(
      response,
      JSON.parse('{"__proto__":{"data":[]},"constructor":1,"data":[{"id":"__proto__"},{"id":{}},null,7]}'),
    );
  },
  'redirects to another host': (_request, response, elsewhere) => {
    response.writeHead(307, { location: `${elsewhere}/login?next=1` }).end();
  },
  'redirects by a page': (_request, response, elsewhere) => {
    const page = `<html><head><meta http-equiv="refresh" content="0;url=${elsewhere}"><title>${ESCAPES}</title></head></html>`;
    response.writeHead(200, { 'content-type': 'text/html', refresh: `0;url=${elsewhere}` }).end(page);
  },
  'sends large headers': (_request, response) => {
    response.writeHead(200, { 'x-large': 'a'.repeat(MIB) }).end('{}');
  },
  'puts escapes everywhere': (_request, response) => {
    const usage = { input_tokens: ESCAPES, output_tokens: ESCAPES };
    const one = {
      id: `model${ESCAPES}`,
      type: ESCAPES,
      model: ESCAPES,
      usage,
      content: [{ type: ESCAPES, text: ESCAPES }],
    };
    asJson(response, { ...one, data: [one, { id: 'coder-1' }], error: { type: ESCAPES, message: ESCAPES } }, 400);
  },
  'lists the token as a model': (request, response) => {
    const id = String(request.headers.authorization).slice('Bearer '.length);
    asJson(response, { data: [{ id, pricing: { prompt: 1e-9, completion: 1e-9 } }] });
  },
  'reveals the token everywhere': (request, response, elsewhere) => {
    const token = String(request.headers.authorization).slice('Bearer '.length);
    response.setHeader('x-token', token);
    response.setHeader('server', token);
    if (request.method === 'GET') {
      const page = `<title>${token}</title>${token}`;
      response
        .writeHead(302, { location: `${elsewhere}/${token}?t=${token}`, 'content-type': `text/${token}` })
        .end(page);
      return;
    }
    asJson(
      response,
      { type: 'error', error: { type: token, message: `no ${token} ${encodeURIComponent(token)}` } },
      418,
    );
  },
};

/** The same below HTTP, for bytes that no HTTP server would send. */
export const TCP_HARM: Readonly<Record<string, (socket: Socket) => void>> = {
  'sends headers without end': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n');
    forEver(socket, Buffer.from('x-more: and more\r\n'.repeat(100)));
  },
  'sends answers before the answer without end': (socket) => {
    forEver(socket, Buffer.from('HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n'.repeat(20)));
  },
  'changes the protocol': (socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n\x1b[2J');
  },
  'does not speak HTTP': (socket) => {
    socket.write(`220 mail.example.com ESMTP ${ESCAPES}\r\n`);
  },
  'counts its chunks wrong': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nffffff\r\n{}');
    socket.end();
  },
  'says another length than it sends': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999999999999\r\n\r\n{}');
  },
};

export interface HostileGateway {
  readonly url: string;
  elsewhere(): number;
  close(): void;
}

export async function startHostile(harm: string): Promise<HostileGateway> {
  let strayed = 0;
  const other = createHttpServer((_request, response) => {
    strayed += 1;
    response.end('{}');
  });
  const elsewhere = await listen(other);
  const sockets = new Set<Socket>();
  const [http, tcp] = [HTTP_HARM[harm], TCP_HARM[harm]];
  const server =
    http === undefined
      ? createServer((socket) => {
          socket.once('data', () => tcp?.(socket));
        })
      : createHttpServer((request, response) => {
          request.resume();
          response.on('error', () => {});
          http(request, response, elsewhere);
        });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  });
  const url = await listen(server);
  return {
    url,
    elsewhere: () => strayed,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      other.close();
    },
  };
}

const listen = async (server: Server) => `http://127.0.0.1:${await ownPort(server)}`;
