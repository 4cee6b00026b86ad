import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { mainUpstream, serverSection } from '../../support/gateway.ts';
import { EVENT_STREAM, type Exchange, hang, sse } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, bearer, collect, connect, messagesBody, open, parseRaw } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { ledgerRow, ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const MB = 1024 * 1024;
const BUFFERED_LIMIT = 3 * MB;

const clock = movableClock();
const IDLE_SECONDS = 300;
/** Nothing else waits for so long. */
const SILENCE_SECONDS = 37;

const { gateway, upstream } = useGateway(
  (url) => ({
    server: serverSection({
      limits: { body_bytes: 2 * MB, buffered_bytes: BUFFERED_LIMIT },
      timeouts: { idle_seconds: IDLE_SECONDS, request_silence_seconds: SILENCE_SECONDS },
    }),
    // Answers that are read on for their bill are another story.
    upstreams: [{ ...mainUpstream(url), on_client_abort: 'cancel' }],
  }),
  clock,
);

const DELTA = Buffer.from(
  sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'x'.repeat(16_000) } }),
);

/** Streams `total` bytes as fast as they are taken, and says how many were. */
function flood(total: number): { script: (exchange: Exchange) => void; accepted(): number } {
  let accepted = 0;
  const script = ({ res }: Exchange) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    const pump = () => {
      while (accepted < total && !res.destroyed) {
        accepted += DELTA.length;
        if (!res.write(DELTA)) return void res.once('drain', pump);
      }
      res.end();
    };
    pump();
  };
  return { script, accepted: () => accepted };
}

/** Resolves with the value once it has stayed the same for 60 looks in a row. */
async function settled(what: string, value: () => number): Promise<number> {
  let last = -1;
  let same = 0;
  return await until(what, () => {
    same = value() === last ? same + 1 : 0;
    last = value();
    return same >= 60 && last;
  });
}

/** A token of a separate user, so that ledger rows of other tests are not in the way. */
const someone = async (user: string) => {
  const token = await gateway.newToken({ user });
  const rows = async () => (await ledgerRows(gateway.database)).filter((row) => row.user_email === user);
  return { token, rows, row: () => until('the request is settled', async () => (await rows())[0]) };
};

function streamRequest(token: string): string {
  const body = messagesBody({ stream: true });
  const head = `POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n`;
  return `${head}content-length: ${body.length}\r\n\r\n${body}`;
}

describe('a client that does not read', () => {
  test('pauses the upstream: most of 100 MB stays where it is', async () => {
    const source = flood(100 * MB);
    upstream.script = source.script;
    const memory_before = process.memoryUsage().rss;
    const socket = await connect(gateway.url);
    socket.pause();
    socket.write(streamRequest(gateway.token));
    await until('the stream has begun', () => source.accepted() > 0);
    const accepted = await settled('the upstream is paused', source.accepted);
    assert.ok(accepted < 40 * MB, `${Math.round(accepted / MB)} MB were taken from the upstream`);
    const grown = process.memoryUsage().rss - memory_before;
    assert.ok(grown < 100 * MB, `memory grew by ${Math.round(grown / MB)} MB`);
    socket.destroy();
    await until('the upstream request is cancelled', () => upstream.only().cancelled);
    await nothingReserved(gateway.database);
  });

  test('and then does gets every byte', async () => {
    const total = 24 * MB;
    const source = flood(total);
    upstream.script = source.script;
    const { head } = open(gateway.url, { headers: bearer(gateway.token), body: messagesBody({ stream: true }) });
    const response = await head;
    await settled('the upstream is paused', source.accepted);
    let received = 0;
    for await (const chunk of response) received += (chunk as Buffer).length;
    assert.equal(received, Math.ceil(total / DELTA.length) * DELTA.length);
  });

  test('for as long as the idle timeout is dropped, and the sent part is settled', async () => {
    const { token, row: settled_row } = await someone('idle@example.com');
    const source = flood(100 * MB);
    upstream.script = source.script;
    const socket = await connect(gateway.url);
    socket.pause();
    socket.write(streamRequest(token));
    await until('the stream has begun', () => source.accepted() > 0);
    await settled('the upstream is paused', source.accepted);
    clock.advance(IDLE_SECONDS * 1000);
    await until('the upstream request is cancelled', () => upstream.only().cancelled);
    assert.equal((await settled_row()).aborted, true);
    await nothingReserved(gateway.database);
    socket.destroy();
  });
});

describe('a client that does not send', () => {
  const stalled = (token: string) =>
    `POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-length: 1000\r\n\r\n{"model":`;

  test('the rest of its body gets 408 and is dropped', async () => {
    const socket = await connect(gateway.url);
    const received = collect(socket);
    const begun = clock.begun(SILENCE_SECONDS * 1000);
    socket.write(stalled(gateway.token));
    await until('its body is waited for', () => clock.begun(SILENCE_SECONDS * 1000) > begun);
    clock.advance(SILENCE_SECONDS * 1000);
    let closed = false;
    void received.closed.then(() => {
      closed = true;
    });
    await until('there is a response', () => received.text().includes('\r\n\r\n{'));
    const response = parseRaw(received.text());
    assert.equal(response.status, 408);
    assert.equal(JSON.parse(response.body).error.type, 'timeout_error');
    assert.equal(upstream.requests.length, 0);
    await nothingReserved(gateway.database);
    await until('the connection is closed', () => closed).finally(() => socket.destroy());
  });

  test('and leaves has no effect afterwards', async () => {
    const { token, rows } = await someone('hasty@example.com');
    for (let round = 0; round < 5; round++) {
      const socket = await connect(gateway.url);
      socket.write(stalled(token));
      await new Promise((resolve) => setImmediate(resolve));
      socket.resetAndDestroy();
    }
    const { status, headers } = await ask(gateway.url, token);
    assert.equal(status, 200);
    const request_id = String(headers['x-gateway-request-id']);
    await ledgerRow(gateway.database, request_id);
    await nothingReserved(gateway.database);
    assert.deepEqual(
      (await rows()).map((row) => row.request_id),
      [request_id],
      'only the whole request is in the ledger',
    );
  });
});

describe('clients that withhold large bodies', () => {
  test('cannot fill memory: beyond buffered_bytes others get a retry hint, and are served once there is capacity', async () => {
    const large = Buffer.alloc(1.9 * MB, 0x20);
    const hold = async () => {
      const socket = await connect(gateway.url);
      const head = `POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.token}\r\n`;
      socket.write(`${head}content-length: ${large.length + 1}\r\n\r\n`);
      socket.write(large);
      return { socket, received: collect(socket) };
    };
    let holder = await hold();
    const refused = await until('a second body no longer fits', async () => {
      const response = await ask(gateway.url, gateway.token, { note: 'x'.repeat(1.8 * MB) });
      if (response.status !== 200) return response;
      // The two bodies raced, and it was the holder that no longer fitted.
      if (holder.received.text() !== '') holder = await hold();
      return false;
    });
    assert.equal(refused.status, 503, refused.text);
    assert.deepEqual([refused.json().error.type, refused.json().error.code], ['overloaded_error', 'overloaded']);
    assert.match(String(refused.headers['retry-after']), /^\d+$/);
    assert.equal((await ask(gateway.url, gateway.token)).status, 200, 'small requests still pass');

    holder.socket.destroy();
    await until('there is capacity again', async () => {
      const response = await ask(gateway.url, gateway.token, { note: 'x'.repeat(1.8 * MB) });
      return response.status === 200;
    });
  });
});

describe('a client that leaves', () => {
  test('before the upstream responds cancels the upstream request, and is settled', async () => {
    const { token, row: settled_row } = await someone('early@example.com');
    upstream.script = hang;
    const { abort } = open(gateway.url, { headers: bearer(token), body: messagesBody() });
    await until('the upstream has a request', () => upstream.requests.length === 1);
    abort();
    await until('the upstream request is cancelled', () => upstream.only().cancelled);
    const row = await settled_row();
    assert.equal(row.aborted, true);
    assert.match(JSON.stringify(row.provenance), /abort/);
    await nothingReserved(gateway.database);
  });
});
