import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startCollector } from './collector.ts';
import { readExport } from './otlp.ts';

test('after an invalid batch the collector rejects all further requests', async (t) => {
  const collector = await startCollector();
  t.after(() => collector.close());
  const cases = [Buffer.from([0x0a, 0x05, 0x01]), Buffer.from([0x98, 0x06, 0x01]), Buffer.from('{}')];
  for (const body of cases) assert.throws(() => readExport('traces', body, false), String(body));
  assert.throws(() => readExport('logs', Buffer.from('{'), true));
  const headers = { 'content-type': 'application/x-protobuf' };
  const { status } = await fetch(collector.endpoint, { method: 'POST', headers, body: 'garbage' });
  assert.equal(status, 400);
  assert.throws(() => collector.spans, /no OTLP/);
});
