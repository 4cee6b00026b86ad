import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { atFileEnd } from '../../support/file-end.ts';
import { examine, faultsOf, listen, TOKEN } from './support.ts';

/** Answers every request, as bytes, with whatever a test writes. */
async function raw(write: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => write(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const open = new Set<Socket>();
  server.on('connection', (socket) => open.add(socket));
  atFileEnd(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';

/** Writes for as long as somebody reads. */
function endlessly(piece: string): (socket: Socket) => void {
  return (socket) => {
    const timer = setInterval(() => socket.write(piece), 5);
    socket.on('close', () => clearInterval(timer));
  };
}

describe('a gateway that means harm neither hangs the doctor, nor breaks it, nor is told the token again', {
  concurrency: true,
}, () => {
  const cases: readonly (readonly [name: string, (socket: Socket) => void])[] = [
    ['says nothing', () => {}],
    ['never ends its headers', endlessly('x-more: and more\r\n'.repeat(10))],
    ['sends informational answers without end', endlessly('HTTP/1.1 102 Processing\r\n\r\n')],
    [
      'never ends its answer',
      (socket) => {
        socket.write(`${HEAD}\r\n{"data":[`);
        endlessly('{"id":"model"},'.repeat(500))(socket);
      },
    ],
    ['sends no HTTP', (socket) => socket.end('\u0000\u0001SSH-2.0-nothing\r\n')],
    ['cuts the connection', (socket) => socket.destroy()],
    ['announces more than it sends', (socket) => socket.end(`${HEAD}content-length: 5000\r\n\r\n{"data":[]}`)],
    ['nests without end', (socket) => socket.end(`${HEAD}\r\n${'['.repeat(500_000)}`)],
    [
      'is a bomb',
      (socket) => {
        const bomb = gzipSync(Buffer.alloc(8_000_000, 32));
        socket.write(`${HEAD}content-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`);
        socket.end(bomb);
      },
    ],
    [
      'writes to the terminal',
      (socket) =>
        socket.end(
          `HTTP/1.1 502 \u001b[2J\r\nserver: \u001b]0;x\u0007\r\ncontent-type: text/html\r\n\r\n<title>\u001b[31m\u202eevil\u0007</title>`,
        ),
    ],
  ];
  for (const [name, write] of cases) {
    test(`where it ${name}`, async () => {
      const { diagnoses } = await examine(await raw(write), { seconds: 2 });
      assert.ok(faultsOf(diagnoses).includes('models'), JSON.stringify(diagnoses));
    });
  }

  test('where it redirects to another host, which is not asked', async () => {
    const seen: string[] = [];
    const other = await listen((req, res) => {
      seen.push(req.url!);
      res.end('{"data":[{"id":"coder-1"}]}');
    });
    const port = await listen((_req, res) =>
      res.writeHead(307, { location: `http://localhost:${other}/v1/models?token=${TOKEN}` }).end(),
    );
    const { of } = await examine(`http://127.0.0.1:${port}`);
    assert.match(of('models').found, /a redirect \(status 307\) to http:\/\/localhost/);
    assert.deepEqual(seen, []);
  });

  test('where names, texts and numbers of its list are anything', async () => {
    const models = [
      { id: '\u001b[2Jcoder', context_window: -1 },
      { id: TOKEN, context_window: 'many' },
      { id: 5 },
      null,
      { id: 'x'.repeat(100_000), context_window: 1e300 },
      { id: 'coder-1', context_window: 1000 },
    ];
    const port = await listen((req, res) => {
      res.writeHead(req.headers.authorization === undefined ? 401 : 200, {
        'content-type': 'application/json',
        date: 'yesterday',
      });
      res.end(JSON.stringify(req.headers.authorization === undefined ? { error: 'no' } : { data: models }));
    });
    const connections = [
      { model: '\u001b[2Jcoder' },
      { model: 'missing' },
      { model: 'coder-1', context_window: 2000 },
      { model: TOKEN },
    ];
    const { diagnoses } = await examine(`http://127.0.0.1:${port}`, { connections });
    assert.ok(faultsOf(diagnoses).includes('model'));
    assert.ok(JSON.stringify(diagnoses).length < 20_000);
  });
});
