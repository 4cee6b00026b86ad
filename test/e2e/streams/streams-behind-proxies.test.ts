/** Requirements of reverse proxies for a stream, so that it arrives as written. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PROTOCOL_PATHS, PROTOCOLS } from '../../../engine/base/contract/protocol.ts';
import {
  answerChunks,
  answerJson,
  EVENT_STREAM,
  type Exchange,
  message,
  messageEvents,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { connect, messagesBody, type Response, send } from '../support/client.ts';
import { askBody, sending } from '../support/nine.ts';
import { useGateway } from '../support/use-gateway.ts';

const { gateway, upstream } = useGateway();

/** Every value of the header, in order. */
function buffering({ raw_headers }: Response): string[] {
  return raw_headers.filter((_, i) => i % 2 === 1 && raw_headers[i - 1]!.toLowerCase() === 'x-accel-buffering');
}

describe('a stream asks proxies not to buffer it', () => {
  for (const protocol of PROTOCOLS) {
    const path = PROTOCOL_PATHS[protocol];
    const post = (stream: boolean) => {
      const body = JSON.stringify(askBody(protocol, 'coder-1', 'Hi', { stream }));
      return send(gateway.url, sending(protocol, gateway.token, body));
    };

    test(`on ${path}, translated or not, and a document does not`, async () => {
      upstream.script = answerChunks(messageEvents());
      const streamed = await post(true);
      assert.match(String(streamed.headers['content-type']), /^text\/event-stream/);
      assert.deepEqual(buffering(streamed), ['no']);
      upstream.script = answerJson(message());
      assert.deepEqual(buffering(await post(false)), []);
    });

    test(`on ${path} also where it breaks off with an error`, async () => {
      upstream.script = ({ res }: Exchange) => {
        res.writeHead(200, [...EVENT_STREAM] as string[]);
        res.write(messageEvents()[0], () => res.destroy());
      };
      const broken = await post(true);
      assert.match(broken.text, /"upstream_failed"|"server_error"/);
      assert.deepEqual(buffering(broken), ['no']);
    });
  }
});

test('a proxy that speaks HTTP/1.0 to the gateway gets each event when it is written, and the end by the connection', async () => {
  const events = messageEvents();
  let first: Exchange | undefined;
  upstream.script = (exchange) => {
    first = exchange;
    exchange.res.writeHead(200, [...EVENT_STREAM] as string[]);
    exchange.res.write(events[0]);
  };
  const socket = await connect(gateway.url);
  let got = '';
  let ended = false;
  socket.on('data', (chunk) => (got += chunk)).on('end', () => (ended = true));
  const body = messagesBody({ stream: true });
  socket.write(
    `POST /v1/messages HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer ${gateway.token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await until('the first event has arrived', () => got.includes(events[0]!));
  for (const event of events.slice(1)) {
    assert.equal(ended, false);
    first!.res.write(event);
    await until('the next event has arrived', () => got.endsWith(event));
  }
  first!.res.end();
  await until('the connection is closed', () => ended);
  const [head, stream] = got.split('\r\n\r\n') as [string, string];
  assert.match(head, /^HTTP\/1\.1 200 OK/);
  assert.doesNotMatch(head, /^transfer-encoding/im);
  assert.match(head, /^x-accel-buffering: no$/im);
  assert.equal(stream, events.join(''));
});
