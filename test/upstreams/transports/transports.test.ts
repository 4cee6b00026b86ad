/** The guarantees of both transports, shown at an upstream that sends raw bytes. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { Socket } from 'node:net';
import { afterEach, beforeEach, describe, test } from 'node:test';
import tls from 'node:tls';
import zlib from 'node:zlib';
import fc from 'fast-check';
import type { UpstreamResponse } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { openTransport } from '../../../engine/domain/upstreams/target.ts';
import type { OutgoingRequest, Transport } from '../../../engine/domain/upstreams/transports/transport.ts';
import { createReachability } from '../../../engine/domain/upstreams/transports/transport.ts';
import { CERTIFICATES, LOOPBACK_CERTIFICATE } from '../../support/certificates.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { startForwardProxy } from '../../support/net/forward-proxy.ts';
import { type RawUpstream, startRawUpstream } from '../../support/net/raw-server.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';

const MB = 1024 * 1024;
/** On a stopped clock. */
const CONNECT_SECONDS = 60;
const TRUSTED = tls.getCACertificates('default');

let upstream: RawUpstream;
let transport: Transport;
let clock: ReturnType<typeof frozenClock>;

function request(more: Partial<OutgoingRequest> = {}): OutgoingRequest {
  const body = more.body ?? Buffer.from('{"a":1}');
  const headers = { 'content-type': 'application/json', 'content-length': String(body.length) };
  return { method: 'POST', path: '/v1/messages?a=%2f', headers, body, ...more };
}

const ask = async (more?: Partial<OutgoingRequest>) => bodyOf(await transport.send(request(more)).response);

for (const way of ['direct', 'proxy'] as const) {
  const open = (base_url = upstream.url.href) =>
    openTransport({ base_url, transport: way }, { connect_seconds: CONNECT_SECONDS, clock });

  describe(`transport: ${way}`, () => {
    beforeEach(async () => {
      clock = frozenClock(0);
      upstream = await startRawUpstream(({ socket }) => void socket.write(answer('ok')));
      transport = open();
    });
    afterEach(async () => {
      transport.close();
      await upstream.close();
    });

    test('sends path, headers and body unchanged, head and body in one write', async () => {
      const { prototype } = Socket as unknown as {
        prototype: Record<'_write' | '_writev', (...input: never[]) => void>;
      };
      const { _write, _writev } = prototype;
      await ask();
      let writes = 0;
      const counted = (write: (...input: never[]) => void) =>
        function (this: Socket, ...input: never[]) {
          if (this.remotePort === Number(upstream.url.port)) writes++;
          write.apply(this, input);
        };
      Object.assign(prototype, { _write: counted(_write), _writev: counted(_writev) });
      try {
        const body = Buffer.from('é'.repeat(50_000));
        await ask({ body, headers: { 'x-a': 'Müller', 'X-B': ['1', '2'], 'content-length': '100000' } });
        const [, { head, body: received }] = upstream.requests as [unknown, (typeof upstream.requests)[number]];
        assert.equal(writes, 1);
        assert.ok(received.equals(body));
        assert.match(head, /^POST \/v1\/messages\?a=%2f HTTP\/1\.1\r\n/);
        assert.match(head, /\r\nx-a: M\xfcller\r\nX-B: 1\r\nX-B: 2\r\n/);
        assert.match(head, new RegExp(`\\r\\nhost: ${upstream.url.host}\\r\\n`, 'i'));
        assert.deepEqual(head.match(/^content-length: .*$/gim), ['content-length: 100000']);
        assert.deepEqual(head.match(/^transfer-encoding/gim), null);
      } finally {
        Object.assign(prototype, { _write, _writev });
      }
    });

    test('gives the head as received, and a joined look at it', async () => {
      const raw = ['X-B', '1', 'Link', '</a>', 'link', '</b>', 'Retry-After', '1', 'retry-after', '2', 'x-é', ''];
      raw[10] = 'x-e';
      const fields = raw.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
      upstream.script = ({ socket }) =>
        void socket.write(`HTTP/1.1 429 Too Much\r\n${fields}content-length: 0\r\n\r\n`, 'latin1');
      const response = await transport.send(request()).response;
      assert.deepEqual([response.statusCode, response.statusMessage], [429, 'Too Much']);
      assert.deepEqual(response.rawHeaders, [...raw, 'content-length', '0']);
      const { link, 'retry-after': retry_after, 'x-e': empty } = response.headers;
      assert.deepEqual([link, retry_after, empty], ['</a>, </b>', '1', '']);
      assert.equal(await bodyOf(response), '');
      assert.equal(response.complete, true);
    });

    test('does not decode compressed bodies', async () => {
      const packed = zlib.gzipSync('text');
      upstream.script = ({ socket }) => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${packed.length}\r\n\r\n`);
        socket.write(packed);
      };
      assert.equal(await ask(), packed.toString('latin1'));
    });

    test('returns the same response for any chunks and framing, without trailers', async () => {
      const early = fc.constantFrom(
        '',
        'HTTP/1.1 100 Continue\r\n\r\n',
        'HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n',
      );
      const framings = fc.constantFrom('length', 'chunked', 'end');
      const places = fc.array(fc.nat(400), { maxLength: 12 });
      const announced = fc.array(early, { maxLength: 3 });
      await fc.assert(
        fc.asyncProperty(announced, framings, fc.string(), places, async (before, framing, text, cuts) => {
          const bytes = Buffer.from(before.join('') + framed(framing, text));
          upstream.script = ({ socket }) => void writeCut(socket, bytes, cuts, framing === 'end');
          assert.equal(await ask(), Buffer.from(text).toString('latin1'));
        }),
        { numRuns: times(60) },
      );
    });

    test('HEAD, 204 and 304 have no body, whatever length they state', async () => {
      for (const [method, status] of [
        ['HEAD', '200 OK'],
        ['POST', '204 No Content'],
        ['POST', '304 Not Modified'],
      ] as const) {
        upstream.script = ({ socket }) =>
          void socket.write(`HTTP/1.1 ${status}\r\n${status === '204 No Content' ? '' : 'content-length: 5\r\n'}\r\n`);
        const input = method === 'HEAD' ? { method, headers: {}, body: Buffer.alloc(0) } : {};
        assert.equal(await ask(input), '');
        upstream.script = ({ socket }) => void socket.write(answer('next'));
        assert.equal(await ask(), 'next');
      }
    });

    test('pauses an upstream whose response is unread, and loses nothing of it, however often its reader pauses', async () => {
      let accepted = 0;
      upstream.script = ({ socket }) => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${64 * MB}\r\n\r\n`);
        const pump = () => {
          while (accepted < 64) {
            if (!socket.write(Buffer.alloc(MB, accepted++))) return void socket.once('drain', pump);
          }
        };
        pump();
      };
      const response = await transport.send(request()).response;
      let received = 0;
      let ended = false;
      let is_slow = true;
      response.on('data', (chunk: Buffer) => {
        assert.deepEqual([chunk[0], ended], [Math.floor(received / MB), false]);
        received += chunk.length;
        response.pause();
        if (!is_slow) setImmediate(() => response.resume());
      });
      response.on('end', () => (ended = true));
      response.resume();
      await until('something arrived', () => received > 0);
      const stopped = await standsStill(() => accepted);
      assert.ok(stopped < 40, `${stopped} MB were taken`);
      is_slow = false;
      response.resume();
      await until('all has arrived', () => ended);
      assert.equal(received, 64 * MB);
    });

    test('discarding a response closes its connection, and the next one is right', async () => {
      for (const fields of ['content-length: 9\r\n', 'transfer-encoding: chunked\r\n', 'connection: close\r\n']) {
        upstream.script = ({ socket }) => void socket.write(`HTTP/1.1 200 OK\r\n${fields}\r\n3\r\nabc`);
        const response = await transport.send(request()).response;
        response.destroy();
        await until('no connection is left', () => upstream.open() === 0);
        upstream.script = ({ socket }) => void socket.end(answer('fine', 'connection: close\r\n'));
        assert.equal(await ask(), 'fine');
        await until('that one is closed too', () => upstream.open() === 0);
      }
    });

    test('aborting a request closes its connection, and reports what may have arrived', async () => {
      upstream.script = () => {};
      const sending = transport.send(request());
      await until('it has arrived', () => upstream.requests.length === 1);
      assert.deepEqual([sending.attempts, sending.body_is_sent], [1, false]);
      sending.abandon(new Error('enough'));
      await assert.rejects(sending.response, /enough/);
      await until('no connection is left', () => upstream.open() === 0);
    });

    test('a truncated response reports it once, after the received part', async () => {
      upstream.script = ({ socket }) => void socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc');
      const response = await transport.send(request()).response;
      await assert.rejects(bodyOf(response));
      assert.deepEqual([response.complete, response.destroyed], [false, true]);
    });

    test('a response may precede the end of the request; a server that stops reading loses the connection', async () => {
      upstream.at_head = true;
      upstream.script = ({ socket }) => {
        socket.pause();
        socket.write(answer('early'));
      };
      const sending = transport.send(request({ body: Buffer.alloc(32 * MB) }));
      assert.equal(await bodyOf(await sending.response), 'early');
      assert.equal(sending.body_is_sent, false);
      clock.advance(1000);
      upstream.sockets[0]!.resume();
      await until('it is closed', () => upstream.open() === 0);
    });

    test('connections are kept, the one used last is used next, and all end with the transport', async () => {
      const waiting: (() => void)[] = [];
      upstream.script = ({ socket }) => {
        waiting.push(() => socket.write(answer('one')));
        if (waiting.length === 3) for (const go of waiting) go();
      };
      await Promise.all([ask(), ask(), ask()]);
      assert.equal(upstream.sockets.length, 3);
      upstream.script = ({ socket }) => void socket.write(answer('two'));
      await ask();
      const used = upstream.requests.at(-1)!.socket;
      for (let i = 0; i < 5; i++) await ask();
      assert.ok(upstream.requests.slice(-5).every(({ socket }) => socket === used));
      transport.close();
      await until('all are closed', () => upstream.open() === 0);
    });

    test('a kept connection that was closed meanwhile costs nothing', async () => {
      await ask();
      upstream.sockets[0]!.destroy();
      const sending = transport.send(request());
      assert.equal(await bodyOf(await sending.response), 'ok');
      assert.equal(upstream.requests.length, 2);
    });

    test('one that is closed on use is replaced once, and never after a byte of a response', async () => {
      const cut = (socket: Socket) => void socket.resetAndDestroy();
      for (const [what, first, sends] of [
        ['reset', cut, 2],
        ['closed', (socket: Socket) => void socket.end(), 2],
        ['answered a byte', (socket: Socket) => void socket.end('H'), 1],
      ] as const) {
        upstream.script = ({ socket }) => void socket.write(answer('kept'));
        await ask();
        let count = 0;
        upstream.script = ({ socket }) => (count++ === 0 ? first(socket) : void socket.write(answer('again')));
        const sending = transport.send(request());
        if (sends === 2) assert.equal(await bodyOf(await sending.response), 'again', what);
        else await assert.rejects(sending.response, { code: 'ECONNRESET' });
        assert.deepEqual(
          [sending.attempts, sending.resent, count],
          [sends, sends === 2 ? 'stale_socket' : undefined, sends],
        );
      }
    });

    test('a missing listener, name or TLS is reported, and nothing was sent', async () => {
      await upstream.close();
      const plain = await startUpstream();
      const unknown = open('http://no-such-host.invalid');
      const without_tls = open(plain.url.replace('http:', 'https:'));
      for (const [to, code] of [
        [transport, 'ECONNREFUSED'],
        [unknown, /^(?:ENOTFOUND|EAI_AGAIN)$/],
        [without_tls, /^(?:EPROTO|ERR_SSL_.+)$/],
      ] as const) {
        const sending = to.send(request());
        await assert.rejects(sending.response, { code });
        assert.deepEqual([sending.attempts, sending.body_is_sent], [0, false]);
      }
      unknown.close();
      without_tls.close();
      await plain.close();
    });
  });

  test(`transport: ${way} reports a tunnel that cannot be reopened for a retry`, async () => {
    upstream = await startRawUpstream(({ socket }) => void socket.write(answer('ok')), LOOPBACK_CERTIFICATE);
    const port = Number(upstream.url.port);
    const proxy = await startForwardProxy({ servers: { '127.0.0.1': port } });
    clock = frozenClock(0);
    tls.setDefaultCACertificates([...TRUSTED, LOOPBACK_CERTIFICATE.cert]);
    const connect = { connect_seconds: CONNECT_SECONDS, proxy: new URL(proxy.url), clock };
    transport = openTransport({ base_url: upstream.url.href, transport: way }, connect);
    try {
      assert.equal(await ask(), 'ok');
      upstream.script = ({ socket }) => {
        socket.destroy();
        void proxy.close();
      };
      const sending = transport.send(request());
      await assert.rejects(sending.response, { code: 'ECONNREFUSED' });
      assert.equal(sending.resent, 'stale_socket');
    } finally {
      tls.setDefaultCACertificates(TRUSTED);
      transport.close();
      await upstream.close();
      await proxy.close();
    }
  });

  test(`transport: ${way} trusts Node's certificates`, async () => {
    const { cert, key } = CERTIFICATES.first;
    upstream = await startRawUpstream(() => {}, { cert, key });
    clock = frozenClock(0);
    try {
      // Once the certificate is trusted, it is for another name.
      for (const code of ['DEPTH_ZERO_SELF_SIGNED_CERT', 'ERR_TLS_CERT_ALTNAME_INVALID']) {
        transport = open();
        const sending = transport.send(request());
        await assert.rejects(sending.response, { code });
        assert.equal(sending.attempts, 0);
        transport.close();
        tls.setDefaultCACertificates([...TRUSTED, cert]);
      }
    } finally {
      tls.setDefaultCACertificates(TRUSTED);
      await upstream.close();
    }
  });
}

function framed(framing: 'length' | 'chunked' | 'end', text: string): string {
  const size = Buffer.byteLength(text);
  const chunk = size === 0 ? '' : `${size.toString(16)};x=y\r\n${text}\r\n`;
  if (framing === 'length') return answer(text);
  if (framing === 'chunked')
    return `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}0\r\nx-trailer: 1\r\n\r\n`;
  return `HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${text}`;
}

/** Writes bytes in pieces, each in a turn of its own. */
async function writeCut(socket: Socket, bytes: Buffer, cuts: readonly number[], ends: boolean): Promise<void> {
  socket.setNoDelay(true);
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let from = 0;
  for (const to of [...places, bytes.length]) {
    if (to > from) socket.write(bytes.subarray(from, to));
    from = to;
    await new Promise(setImmediate);
  }
  if (ends) socket.end();
}

/** The value once it has been the same for 40 looks. */
async function standsStill(value: () => number): Promise<number> {
  let last = -1;
  let same = 0;
  return until('nothing is read any more', () => {
    same = value() === last ? same + 1 : 0;
    last = value();
    return same >= 40 && last;
  });
}

/** A connection that is being made until `emit('connect')`. */
class Connecting extends EventEmitter {
  error: Error | undefined;
  destroy(error: Error): void {
    this.error = error;
    this.emit('close');
  }
}

function open() {
  const clock = frozenClock(0);
  const reachability = createReachability({ connect_seconds: 10, clock });
  let ready = 0;
  const connect = () => {
    const socket = new Connecting();
    const refusal = reachability.watch(socket as unknown as Socket, () => ready++);
    return { socket, refusal };
  };
  return { clock, connect, ready: () => ready };
}

test('a connection has its full timeout while nothing is known', () => {
  const { clock, connect, ready } = open();
  const { socket } = connect();
  clock.advance(9999);
  assert.equal(socket.error, undefined);
  socket.emit('connect');
  clock.advance(60_000);
  assert.deepEqual([socket.error, ready()], [undefined, 1]);
});

test('after one that timed out a single request tries for a second, the others are rejected at once', () => {
  const { clock, connect } = open();
  const first = connect();
  clock.advance(10_000);
  assert.match(String(first.socket.error), /no connection in time/);
  const probe = connect();
  assert.ok(connect().refusal);
  clock.advance(1000);
  assert.ok(probe.socket.error);
  assert.equal(connect().refusal, undefined, 'the next one tries');
});

test('a successful connection ends it at once, and so does time', () => {
  const { clock, connect } = open();
  connect();
  clock.advance(10_000);
  connect().socket.emit('connect');
  const [one, two] = [connect(), connect()];
  assert.deepEqual([one.refusal, two.refusal], [undefined, undefined]);
  clock.advance(10_000);
  clock.advance(30_000);
  const later = connect();
  clock.advance(9000);
  assert.deepEqual([later.refusal, later.socket.error], [undefined, undefined]);
});

test('an aborted probe lets the next one start', () => {
  const { clock, connect } = open();
  connect();
  clock.advance(10_000);
  connect().socket.emit('close');
  assert.equal(connect().refusal, undefined);
});

/** A whole response with a length. */
function answer(body: string, fields = ''): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n${fields}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Reads a response to its end. Rejects when it breaks off. */
function bodyOf(response: UpstreamResponse): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk) => void chunks.push(chunk));
    response.on('end', () => resolve(Buffer.concat(chunks).toString('latin1')));
    response.on('error', reject);
    response.on('close', () => reject(new Error('it broke off')));
    response.resume();
  });
}
