import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Clock } from '../../../engine/contract/services.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { openPost } from '../../../engine/telemetry/post.ts';
import { createDeliver } from '../../../engine/telemetry/relay/delivery.ts';
import type { Sent } from '../../../engine/telemetry/sent.ts';
import { movableClock } from '../../e2e/support/movable-clock.ts';
import {
  answerBytes,
  type Script,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { takePartly } from '../../support/telemetry/collector.ts';

let server: ScriptedUpstream;
before(async () => {
  server = await startUpstream();
});
after(() => server.close());
beforeEach(() => {
  server.requests.length = 0;
});

const TIMEOUT_SECONDS = 30;

async function deliver(script: Script, clock: Clock = systemClock): Promise<Sent> {
  server.script = script;
  const { post, close } = openPost(server.url, {});
  const url = `${server.url}/tenant?key=1`;
  const headers = { 'x-tenant': 'a' };
  const send = createDeliver({ url, headers, timeout_seconds: TIMEOUT_SECONDS, compression: 'none', post, clock });
  const delivered = await send('logs', Buffer.from([]));
  close();
  return delivered;
}

describe('a batch of telemetry of clients', () => {
  test('is sent below the path of the destination, with its query and headers', async () => {
    assert.deepEqual(await deliver(answerBytes(200, {}, '')), { outcome: 'taken', rejected: 0 });
    const [received] = server.requests;
    assert.equal(received?.url, '/tenant/v1/logs?key=1');
    assert.equal(received?.headers['x-tenant'], 'a');
    assert.equal(received?.headers['content-type'], 'application/x-protobuf');
  });

  test('may be taken in part', async () => {
    assert.deepEqual(await deliver(takePartly('logs', 3, 'too old')), { outcome: 'taken', rejected: 3 });
  });

  test('is taken whatever a success says, unless it is a web page', async () => {
    const garbage = answerBytes(200, { 'content-type': 'application/x-protobuf' }, Buffer.from('ff00ff00', 'hex'));
    assert.equal((await deliver(garbage)).outcome, 'taken');
    const huge = answerBytes(200, { 'content-type': 'text/plain' }, Buffer.alloc(3_000_000, 'x'));
    assert.equal((await deliver(huge)).outcome, 'taken');
    const page = answerBytes(200, { 'content-type': 'text/html' }, '<p>');
    assert.equal((await deliver(page)).outcome, 'refused');
    const endless: Script = ({ res }) => {
      res.writeHead(200, { 'content-type': 'application/x-protobuf' });
      res.write('a');
    };
    const clock = movableClock({ stands: true });
    const heads = channel('http.client.response.finish');
    const letTimePass = () => setImmediate(() => clock.advance(TIMEOUT_SECONDS * 1000));
    heads.subscribe(letTimePass);
    assert.equal((await deliver(endless, clock).finally(() => heads.unsubscribe(letTimePass))).outcome, 'taken');
  });

  test('follows no redirect', async () => {
    const delivered = await deliver(answerBytes(307, { location: `${server.url}/elsewhere` }, ''));
    assert.equal(delivered.outcome, 'refused');
    assert.equal(server.requests.length, 1);
  });

  test('is sent again only where that may help', async () => {
    const outcomes: Record<number, string> = {};
    for (const status of [400, 401, 404, 413, 429, 500, 502, 503, 504]) {
      outcomes[status] = (await deliver(answerBytes(status, {}, 'no'))).outcome;
    }
    const again = [429, 500, 502, 503, 504];
    for (const [status, outcome] of Object.entries(outcomes)) {
      assert.equal(outcome, again.includes(Number(status)) ? 'failed' : 'refused', status);
    }
    const later = await deliver(answerBytes(429, { 'retry-after': '17' }, ''));
    assert.equal(later.outcome === 'failed' && later.retry_after_ms, 17_000);
    const clock = movableClock({ stands: true });
    const in_a_minute = new Date(clock.now() + 60_000).toUTCString();
    const date = await deliver(answerBytes(503, { 'retry-after': in_a_minute }, ''), clock);
    // HTTP dates have whole seconds.
    assert.ok(date.outcome === 'failed' && date.retry_after_ms! > 59_000 && date.retry_after_ms! <= 60_000);
    const silly = await deliver(answerBytes(503, { 'retry-after': 'soon' }, ''));
    assert.equal(silly.outcome === 'failed' && silly.retry_after_ms, undefined);
  });

  test('waits for an answer no longer than it may, and for none that does not come', async () => {
    const clock = movableClock({ stands: true });
    const hanging = await deliver(() => clock.advance(TIMEOUT_SECONDS * 1000), clock);
    assert.ok(hanging.outcome === 'failed' && /no answer within 30 seconds/.test(hanging.why));
    const cut = await deliver(({ res }) => void res.destroy());
    assert.ok(cut.outcome === 'failed' && /cut/.test(cut.why));
  });
});
