import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { test } from 'node:test';
import { systemClock } from '../../engine/base/kit/clock.ts';
import { sendWhole } from '../../engine/pipeline/run/answer.ts';
import { FactStore, factIndex } from '../../engine/pipeline/run/fact-store.ts';
import { ResponseDrain } from '../../engine/pipeline/run/resources.ts';
import { ownPort } from '../support/net/own-port.ts';
import { until } from '../support/until.ts';

test('one caller can use a quarter of the concurrent drains, and frees them again', () => {
  const limits = { seconds: 60, bytes: 100, requests: 8, running: 0, running_of: new Map<string, number>() };
  const begin = (caller: string) => {
    const drain = new ResponseDrain();
    drain.within(limits);
    return drain.begin(systemClock, { caller, seconds: 60, onTimeUp() {} }) ? drain : undefined;
  };
  const hers = [begin('her'), begin('her')];
  assert.equal(begin('her'), undefined);
  const others = ['a', 'b', 'c', 'd', 'e', 'f'].map(begin);
  assert.ok(others.every((drain) => drain !== undefined));
  assert.equal(begin('g'), undefined, 'all eight are in use');
  hers[0]!.end();
  const again = begin('her');
  assert.ok(again !== undefined);
  for (const drain of [hers[1], again, ...others]) drain!.end();
  assert.deepEqual([limits.running, limits.running_of.size], [0, 0]);
});

test('a fact is written once, is read by its path, and appears to rules in a view without a prototype', () => {
  const facts = new FactStore();
  const set = (path: string, value: unknown) => facts.put(factIndex(path), value, false);
  assert.equal(facts.get('principal.token.group'), undefined);
  set('principal.token.group', 'research');
  set('request.stream', false);
  assert.equal(facts.get('principal.token.group'), 'research');
  assert.equal(facts.get('principal.token.name'), undefined);
  const view = facts.view as Record<string, Record<string, unknown>>;
  assert.deepEqual(JSON.parse(JSON.stringify(view)), {
    request: { stream: false },
    principal: { token: { group: 'research' } },
  });
  assert.deepEqual([view.constructor, view.request!.toString], [undefined, undefined]);
  assert.throws(() => set('request.stream', true), /already written/);
  assert.throws(() => set('request.typo', 'n'), /no fact/);
});

test('a client that disconnects before its body is complete ends the wait for the rest', async (t) => {
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
  const client = connect(await ownPort(server), '127.0.0.1');
  client.write('POST / HTTP/1.1\r\nhost: gateway.example\r\ncontent-length: 5\r\n\r\nab');
  await once(client, 'data');
  assert.equal(waits.size, 1);
  client.destroy();
  await until('nothing waits', () => waits.size === 0);
});
