/** Memory during a streaming response: nothing of the request, of any length. */
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { bootGateway } from '../../support/gateway.ts';
import { bytesInUse } from '../../support/heap.ts';
import { eventsOf } from '../../support/model-provider/model-provider.ts';
import { ownPort } from '../../support/net/own-port.ts';
import { IS_DEEP } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { collect, connect } from '../support/client.ts';
import { askBody, COMBINATIONS, modelVia, nineConfig, sending } from '../support/nine.ts';
import { nothingReserved } from '../support/state.ts';

const BODY_BYTES = 4_000_000;
const STREAMS = 2;
/** Untranslated, and translated from and to each of the others. */
const SOME = [
  ['messages', 'messages'],
  ['chat', 'responses'],
  ['responses', 'chat'],
] as const;

const waiting: ServerResponse[] = [];

/** Sends the beginning of a stream, and drops the request. */
const upstream = createServer((req, res) => {
  const protocol: Protocol = /messages/.test(req.url!) ? 'messages' : /chat/.test(req.url!) ? 'chat' : 'responses';
  req.resume().on('end', () => {
    const [first] = eventsOf(protocol, { said: [{ kind: 'text', text: 'Hello.' }] });
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(first);
    waiting.push(res);
  });
});

const upstream_url = `http://127.0.0.1:${await ownPort(upstream)}`;
const gateway = use(() => bootGateway({ upstream_url, config: nineConfig(upstream_url) }));

async function allInUse(): Promise<number> {
  const { heap, buffers } = await bytesInUse();
  return heap + buffers;
}

for (const [spoken, protocol] of IS_DEEP ? COMBINATIONS : SOME) {
  test(`a ${spoken} request to a ${protocol} upstream is released once its response begins`, async () => {
    // A bare socket keeps nothing of its output.
    const ask = async () => {
      const body = JSON.stringify(
        askBody(spoken, modelVia(protocol), 'long '.repeat(BODY_BYTES / 5), { stream: true }),
      );
      const { path, headers } = sending(spoken, gateway.token, '');
      const lines = headers.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
      const socket = await connect(gateway.url);
      const received = collect(socket);
      socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\n${lines}content-length: ${body.length}\r\n\r\n${body}`);
      await until('the response begins', () => received.text().includes('text/event-stream'));
      return socket;
    };
    const start = await allInUse();
    const streams: Socket[] = [];
    for (let i = 0; i < STREAMS; i++) streams.push(await ask());
    try {
      const more = (await allInUse()) - start;
      assert.ok(more < BODY_BYTES / 2, `${STREAMS} streams hold ${more} bytes`);
    } finally {
      for (const socket of streams) socket.destroy();
      for (const res of waiting.splice(0)) res.destroy();
      await nothingReserved(gateway.database);
    }
  });
}
