/** Connections to upstreams: kept ones that break in the moment they are used, and such that cannot be made at all. */
import assert from 'node:assert/strict';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { describe, test } from 'node:test';
import { CERTIFICATES } from '../../support/certificates.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { answerJson, message, type ScriptedUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ask } from '../support/client.ts';
import { auditRecord, ledgerRow } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

let upstream: ScriptedUpstream;
let gateway: TestGateway;
useGateway((opened) => {
  ({ upstream, gateway } = opened);
});

const idOf = (response: Awaited<ReturnType<typeof ask>>) => String(response.headers['x-gateway-request-id']);

/** The record that the audit log has of a response. */
async function recordOf(response: Awaited<ReturnType<typeof ask>>): Promise<Record<string, unknown>> {
  return (await auditRecord(gateway.database, idOf(response))).record as Record<string, unknown>;
}

describe('a kept connection that the upstream closes in the moment it is used', () => {
  for (const [how, cut] of [
    ['with a reset', (socket: Socket) => void socket.resetAndDestroy()],
    ['in good order', (socket: Socket) => void socket.end()],
  ] as const) {
    test(`${how} is not noticed by the client: the same bytes are sent once more on a new one`, async () => {
      assert.equal((await ask(gateway.url, gateway.token)).status, 200, 'a connection is kept');
      upstream.requests.length = 0;
      upstream.script = ({ socket, ...exchange }) => {
        if (upstream.requests.length === 1) cut(socket as Socket);
        else return answerJson(message())({ socket, ...exchange });
      };
      const response = await ask(gateway.url, gateway.token, { metadata: { user_id: 'é' } });
      assert.equal(response.status, 200, response.text);
      assert.equal(upstream.requests.length, 2);
      const [first, second] = upstream.requests;
      assert.equal(second!.sha256, first!.sha256);
      assert.equal(second!.headers.authorization, first!.headers.authorization);
      assert.equal((await ledgerRow(gateway.database, idOf(response))).provenance.cost, 'upstream');
      const record = await recordOf(response);
      assert.deepEqual([record.sends, record.retry, record.certainty], [2, 'stale_socket', 'answered']);
    });
  }

  test('is not tried again once a byte was answered, nor on a new connection', async () => {
    for (const begin of ['HTTP/1.1 200', 'H']) {
      upstream.script = answerJson(message());
      assert.equal((await ask(gateway.url, gateway.token)).status, 200);
      upstream.requests.length = 0;
      upstream.script = ({ socket }) => void socket.end(begin);
      assert.equal((await ask(gateway.url, gateway.token)).status, 502);
      assert.equal(upstream.requests.length, 1, begin);
    }
    await upstream.pause();
    await upstream.resume();
    upstream.requests.length = 0;
    upstream.script = ({ socket }) => void socket.resetAndDestroy();
    const response = await ask(gateway.url, gateway.token);
    assert.equal(response.status, 502);
    assert.equal(upstream.requests.length, 1, 'a new connection');
    const record = await recordOf(response);
    assert.deepEqual([record.sends, record.retry], [1, undefined]);
  });
});

test('a certificate that is not accepted is told as what it is: no connection, and nothing was sent', async () => {
  const { cert, key } = CERTIFICATES.first;
  let asked = 0;
  const untrusted = createHttpsServer({ cert, key }, () => void asked++);
  await new Promise<void>((resolve) => untrusted.listen(0, '127.0.0.1', resolve));
  const { port } = untrusted.address() as AddressInfo;
  const base_url = `https://127.0.0.1:${port}`;
  const upstreams = [{ name: 'main', type: 'vendor', base_url, api_key_env: 'TEST_UPSTREAM_KEY' }];
  const other = await bootGateway({ upstream_url: upstream.url, config: { upstreams } });
  try {
    const response = await ask(other.url, other.token);
    assert.equal(response.status, 502, response.text);
    const { code, message } = response.json().error;
    assert.equal(code, 'upstream_unreachable');
    assert.match(message, /^No connection to the upstream "main" \(DEPTH_ZERO_SELF_SIGNED_CERT\)/);
    assert.equal(asked, 0);
  } finally {
    untrusted.close();
    await other.close();
  }
});
