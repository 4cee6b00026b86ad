import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { test } from 'node:test';
import { systemClock } from '../../engine/kit/clock.ts';
import { sendWhole } from '../../engine/run/answer.ts';
import { Drain } from '../../engine/run/context.ts';
import { FactStore } from '../../engine/run/fact-store.ts';
import { passedHeaders } from '../../engine/run/headers.ts';
import { actsOnOrigin } from '../../engine/upstreams/origin-headers.ts';
import { until } from '../support/until.ts';

test('one caller takes a quarter of what may be read on at once, and gets it back', () => {
  const limits = { seconds: 60, bytes: 100, requests: 8, running: 0, running_of: new Map<string, number>() };
  const begin = (caller: string) => Drain.begin(limits, systemClock, { caller, seconds: 60, onTimeUp() {} });
  const hers = [begin('her'), begin('her')];
  assert.equal(begin('her'), undefined);
  const others = ['a', 'b', 'c', 'd', 'e', 'f'].map(begin);
  assert.ok(others.every((drain) => drain !== undefined));
  assert.equal(begin('g'), undefined, 'all eight are taken');
  hers[0]!.end();
  const again = begin('her');
  assert.ok(again !== undefined);
  for (const drain of [hers[1], again, ...others]) drain!.end();
  assert.deepEqual([limits.running, limits.running_of.size], [0, 0]);
});

test('a fact reads back by path and as part of the nested view', () => {
  const facts = new FactStore();
  facts.set('principal.token.group', 'research');
  facts.set('request.stream', false);
  assert.equal(facts.get('principal.token.group'), 'research');
  assert.deepEqual(JSON.parse(JSON.stringify(facts.view)), {
    request: { stream: false },
    principal: { token: { group: 'research' } },
  });
});

test('a fact that nobody wrote is undefined at any depth', () => {
  const facts = new FactStore();
  assert.equal(facts.get('principal.token.group'), undefined);
  facts.set('principal.id', 'user:a');
  assert.equal(facts.get('principal.token.group'), undefined);
});

test('writing a fact twice, or one that does not exist, is an error', () => {
  const facts = new FactStore();
  facts.set('request.model', 'm');
  assert.throws(() => facts.set('request.model', 'n'), /already written/);
  assert.throws(() => facts.set('request.typo' as 'request.model', 'n'), /no fact/);
});

test('nothing of Object.prototype can be seen through the view', () => {
  const facts = new FactStore();
  facts.set('request.model', 'm');
  const view = facts.view as Record<string, Record<string, unknown>>;
  assert.equal(view.constructor, undefined);
  assert.equal(view.request!.toString, undefined);
});

test('headers that pass keep their order, spelling and repetitions', () => {
  const raw = ['X-B', '1', 'Link', '</a>', 'link', '</b>', 'anthropic-RateLimit', '3'];
  assert.deepEqual(passedHeaders(raw, undefined), raw);
});

test('headers of one connection stay behind, also those the Connection header names', () => {
  const raw = [
    'Connection',
    'X-Hop , close',
    'x-hop',
    '1',
    'Transfer-Encoding',
    'chunked',
    'Keep-Alive',
    '5',
    'TE',
    'x',
    'Upgrade',
    'h2c',
    'Date',
    'd',
  ];
  assert.deepEqual(passedHeaders(raw, 'X-Hop , close'), ['Date', 'd']);
});

test('what describes the body passes also where the Connection header names it', () => {
  const raw = ['Connection', 'content-length, Content-Type', 'Content-Length', '3', 'Content-Type', 'a/b'];
  assert.deepEqual(passedHeaders(raw, 'content-length, Content-Type'), raw.slice(2));
});

test('headers that act on the host they come from stay behind, each with its effect', () => {
  const acting = [
    'Set-Cookie',
    'set-cookie2',
    'Strict-Transport-Security',
    'Clear-Site-Data',
    'Alt-Svc',
    'Access-Control-Allow-Origin',
    'access-control-of-the-future',
    'Public-Key-Pins-Report-Only',
    'Content-Security-Policy',
    'NEL',
    'Report-To',
    'WWW-Authenticate',
    'Accept-CH',
    'X-Accel-Redirect',
    'Cross-Origin-Resource-Policy',
  ];
  const passing = ['x-accel-buffering', 'retry-after', 'access', 'security', 'server-timing', 'link', 'cache-control'];
  const raw = [...acting, ...passing].flatMap((name) => [name, 'value']);
  assert.deepEqual(
    passedHeaders(raw, undefined),
    passing.flatMap((name) => [name, 'value']),
  );
  for (const name of acting) assert.ok(actsOnOrigin(name.toLowerCase()), name);
  for (const name of passing) assert.ok(!actsOnOrigin(name), name);
});

test('a client that leaves before its body is whole takes the wait for the rest with it', async (t) => {
  const waits = new Set<NodeJS.Timeout>();
  const { setTimeout: start, clearTimeout: stop } = globalThis;
  let is_sending = false;
  t.mock.method(globalThis, 'setTimeout', (task: () => void, delay_ms: number) => {
    const timer = start(task, delay_ms);
    if (is_sending) waits.add(timer);
    return timer;
  });
  t.mock.method(globalThis, 'clearTimeout', (timer: NodeJS.Timeout) => {
    waits.delete(timer);
    stop(timer);
  });
  const server = createServer((_, res) => {
    is_sending = true;
    sendWhole(res, 401, { 'content-length': 2 }, 'no');
    is_sending = false;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.write('POST / HTTP/1.1\r\nhost: gateway.example\r\ncontent-length: 5\r\n\r\nab');
  await once(client, 'data');
  assert.equal(waits.size, 1);
  client.destroy();
  await until('nothing waits', () => waits.size === 0);
  server.close();
});
