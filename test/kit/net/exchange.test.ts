import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { createServer as createSecureServer } from 'node:https';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { exchange } from '../../../engine/base/kit/net/exchange.ts';
import { decodeBody } from '../../../engine/edge/selfcheck/answer.ts';
import { LOOPBACK_CERTIFICATE } from '../../support/certificates.ts';
import { openPort } from '../../support/net/own-port.ts';
import { rawServer } from '../../support/net/raw-server.ts';
import { until } from '../../support/until.ts';

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n';

function whole(body: string | Buffer, headers = ''): Buffer {
  const head = `${HEAD}${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
}

/** Writes again and again until the reader is gone. */
function keepWriting(socket: Socket, piece: string): void {
  const timer = setInterval(() => socket.write(piece), 2);
  socket.on('close', () => clearInterval(timer));
}

describe('one request to an unknown server', () => {
  test('sends its body with a length, and no superfluous header', async () => {
    await using server = await rawServer((socket) => socket.end(whole('')));
    await exchange(`${server.url}/a?b=c`, {
      method: 'POST',
      headers: { 'x-b': 'é'.normalize('NFC') },
      body: 'ä',
      seconds: 60,
    });
    const lines = server.heads[0]!.split('\r\n');
    assert.equal(lines[0], 'POST /a?b=c HTTP/1.1');
    assert.ok(lines.includes('content-length: 2'));
    const names = lines.slice(1).map((line) => line.split(':')[0]!.toLowerCase());
    assert.deepEqual(names.filter((name) => /^[a-z]/.test(name)).sort(), [
      'connection',
      'content-length',
      'host',
      'x-b',
    ]);
  });

  test('distinguishes a truncated response from a whole one', async () => {
    const broken = [
      `${HEAD}content-length: 10\r\n\r\nabc`,
      `${HEAD}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`,
      `${HEAD}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nno size\r\n`,
    ];
    await using server = await rawServer((socket) => socket.end(broken.shift() ?? ''));
    while (broken.length > 0) {
      const response = await exchange(server.url, { seconds: 60 });
      assert.equal(response.ending, 'cut');
      assert.equal(response.body.toString(), 'abc');
    }
  });

  test('reads no more than requested', async () => {
    await using server = await rawServer((socket) => {
      socket.write(`${HEAD}\r\n`);
      keepWriting(socket, 'x'.repeat(1000));
    });
    const response = await exchange(server.url, { seconds: 60, bytes_max: 2500 });
    assert.equal(response.ending, 'too_large');
    assert.equal(response.body.length, 2500);
    assert.equal(
      response.arrivals.reduce((sum, { bytes }) => sum + bytes, 0),
      2500,
    );
  });

  test('uses little memory for a response in a great many small pieces', async () => {
    const piece = '1\r\nx\r\n'.repeat(20_000);
    await using server = await rawServer((socket) =>
      socket.end(`${HEAD}transfer-encoding: chunked\r\n\r\n${piece}0\r\n\r\n`),
    );
    const response = await exchange(server.url, { seconds: 60 });
    assert.equal(response.body.length, 20_000);
    assert.ok(response.arrivals.length < 5000, `${response.arrivals.length} arrivals`);
  });

  test('ends in time whatever the server does, and closes the connection', async () => {
    let closed = 0;
    const says = [
      (socket: Socket) => keepWriting(socket, 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'),
      () => {},
      (socket: Socket) => socket.write('HTTP/1.1 200 OK\r\nx-a'),
    ];
    await using server = await rawServer((socket) => {
      socket.on('close', () => closed++);
      says[server.heads.length - 1]!(socket);
    });
    for (const _ of says) await assert.rejects(exchange(server.url, { seconds: 0.1 }), { name: 'TimeoutError' });
    // One that a busy machine was late for was never opened.
    await until('all connections are closed', () => closed >= server.heads.length);
  });

  test('keeps the received part of an unfinished response', async () => {
    await using server = await rawServer((socket) => {
      socket.write(`${HEAD}\r\nbeginning`);
    });
    const time = new AbortController();
    const heads = channel('http.client.response.finish');
    const endTime = () => setImmediate(() => time.abort());
    heads.subscribe(endTime);
    const response = await exchange(server.url, { seconds: 60, signal: time.signal }).finally(() =>
      heads.unsubscribe(endTime),
    );
    assert.equal(response.ending, 'too_late');
    assert.equal(response.body.toString(), 'beginning');
  });

  test('rejects a non-response with a network error', async () => {
    const says = [`HTTP/1.1 200 OK\r\nx-a: ${'x'.repeat(100_000)}\r\n\r\n`, 'SSH-2.0-OpenSSH_9.9\r\n', ''];
    await using server = await rawServer((socket) => socket.end(says[server.heads.length - 1] ?? ''));
    const codes: unknown[] = [];
    for (const _ of says) await exchange(server.url, { seconds: 60 }).catch((error) => codes.push(error.code));
    assert.deepEqual(codes, ['HPE_HEADER_OVERFLOW', 'HPE_INVALID_CONSTANT', 'ECONNRESET']);
  });

  test('treats an unrequested upgrade as a response without a body', async () => {
    const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nabc';
    await using server = await rawServer((socket) => socket.write(upgrade));
    const { status, body } = await exchange(server.url, { seconds: 60 });
    assert.deepEqual([status, body.length], [101, 0]);
  });

  test('closes the connection after the head where no body is needed', async () => {
    let is_closed = false;
    await using server = await rawServer((socket) => {
      socket.on('close', () => {
        is_closed = true;
      });
      socket.write(`${HEAD}\r\n`);
      keepWriting(socket, 'x');
    });
    const response = await exchange(server.url, { seconds: 60, read_body: false });
    assert.equal(response.body.length, 0);
    await until('the connection is closed', () => is_closed);
  });

  test('reaches an https address through a tunnel of the proxy, which gets its own password and nothing else', async () => {
    const { cert, key } = LOOPBACK_CERTIFICATE;
    await using secure = await openPort(createSecureServer({ cert, key }, (_, response) => response.end('by tunnel')));
    const { port } = secure;
    await using proxy = await rawServer((socket) => {
      const far = connect(port, '127.0.0.1');
      socket.write('HTTP/1.1 200 ');
      setImmediate(() => socket.write('Connection established\r\n\r\n'));
      socket.pipe(far).pipe(socket);
    });
    const by = new URL(proxy.url.replace('//', '//ada:p%40ss@'));
    const headers = { authorization: 'Bearer of-the-gateway' };
    const answer = await exchange(`https://localhost:${port}/a`, { seconds: 60, proxy: by, ca: [cert], headers });
    assert.equal(answer.body.toString(), 'by tunnel');
    const [head = ''] = proxy.heads;
    assert.match(head, new RegExp(`^CONNECT localhost:${port} HTTP/1\\.1\r\n`));
    assert.match(head, /proxy-authorization: Basic YWRhOnBAc3M=\r\n/);
    assert.doesNotMatch(head, /of-the-gateway/);
  });

  test('ends in time where a proxy opens no tunnel, opens one to nowhere, or responds bit by bit', async () => {
    const proxies: readonly ((socket: Socket) => void)[] = [
      () => {},
      (socket) => socket.write('HTTP/1.1 200 OK\r\n\r\n'),
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        keepWriting(socket, 'x: y\r\n');
      },
    ];
    for (const response of proxies) {
      await using proxy = await rawServer(response);
      const asked = exchange('https://gateway.example.com', { seconds: 0.2, proxy: new URL(proxy.url) });
      await assert.rejects(asked, { name: 'TimeoutError' });
    }
    await using proxy = await rawServer((socket) => socket.end('HTTP/1.1 407 Who are you\r\n\r\n'));
    const asked = exchange('https://gateway.example.com', { seconds: 60, proxy: new URL(proxy.url) });
    await assert.rejects(asked, { code: 'ERR_PROXY_TUNNEL', status: 407 });
  });
});

describe('the compression of a response', () => {
  const text = 'data: {"a":"é"}\n\n'.repeat(50);

  async function decoded(body: Buffer, encoding: string, bytes_max = 1_000_000) {
    const arrivals = [...body].map((_, index) => ({ at_ms: index, bytes: 1 }));
    return decodeBody({ headers: { 'content-encoding': encoding }, body, arrivals }, bytes_max);
  }

  test('is removed, for every coding and however small the pieces', async () => {
    const bodies = {
      gzip: gzipSync(text),
      br: brotliCompressSync(text),
      zstd: zstdCompressSync(text),
      identity: Buffer.from(text),
    };
    for (const [encoding, body] of Object.entries(bodies)) {
      const { body: plain, arrivals, fault } = await decoded(body, encoding);
      assert.equal(plain.toString(), text, encoding);
      assert.equal(fault, undefined);
      assert.equal(
        arrivals.reduce((sum, { bytes }) => sum + bytes, 0),
        plain.length,
      );
    }
  });

  test('has bounded output for small input', async () => {
    const { body, fault } = await decoded(gzipSync(Buffer.alloc(5_000_000)), 'gzip', 1000);
    assert.equal(body.length, 1000);
    assert.equal(fault, 'too_large');
  });

  test('is a fault where it is another one or none', async () => {
    assert.equal((await decoded(Buffer.from(text), 'gzip')).fault, 'encoding');
    assert.equal((await decoded(gzipSync(text), 'br')).fault, 'encoding');
    assert.equal((await decoded(gzipSync(text), 'secret-sauce')).fault, 'encoding');
  });
});
