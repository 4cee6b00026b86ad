/** A collector that is away, slow or hostile delays no request, and undelivered data is counted. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { bytesInUse } from '../../support/heap.ts';
import { hang } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { closing, use } from '../../support/use.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { FAILURES } from './collector-troubles.ts';
import { openTelemetryScene } from './scene.ts';

const CALLERS = 8;
const REQUESTS = 400;
/** At once while the collector fails in some way. */
const LOAD = 48;
const SPANS = 2;
const QUEUE = 512;

let token: string;
const body = messagesBody();

const scene = use(() => openTelemetryScene({ otlp: { queue_spans: QUEUE, timeout_seconds: 60 } }));
before(async () => {
  token = scene.gateway.token;
  await load();
});

/** Resets what the gateway knows of the collector's failures, as a changed configuration does. */
async function startAnew(what: string): Promise<void> {
  const { gateway, collector } = scene;
  const config = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  config.telemetry.resource = { 'test.trouble': what };
  await writeFile(gateway.config_file, JSON.stringify(config));
  await gateway.reload();
  await load(CALLERS);
  await collector.span('one of the new configuration', ({ resource }) => resource['test.trouble'] === what);
  collector.clear();
}

async function load(requests = LOAD): Promise<void> {
  let left = requests;
  const persist = async () => {
    while (left-- > 0) assert.equal((await send(scene.gateway.url, { headers: bearer(token), body })).status, 200);
  };
  await Promise.all(Array.from({ length: CALLERS }, persist));
}

async function inUse(): Promise<number> {
  const { heap, buffers } = await bytesInUse();
  return heap + buffers;
}

describe('while the collector', () => {
  let before_all: number;
  before(async () => {
    before_all = await inUse();
  });
  after(async () => {
    scene.collector.clear();
    const grown = (await inUse()) - before_all;
    assert.ok(grown < 24 * 1024 * 1024, `${grown} bytes more are in use after all of it`);
  });
  for (const [what, script] of Object.entries(FAILURES)) {
    test(`${what}, requests are served`, async () => {
      const { collector } = scene;
      await startAnew(what);
      collector.failWith(script);
      try {
        await load();
        const { cancelled } = await collector.server.arrived(1);
        await load();
        if (script === hang) assert.equal(cancelled, false, 'none of them waited for it');
      } finally {
        collector.failWith(undefined);
      }
    });
  }
});

describe('a collector that is away', () => {
  test('loses the spans beyond the queue, which are counted, and gets the others when it is back', async () => {
    await using own = closing(await openTelemetryScene({ otlp: { queue_spans: QUEUE, timeout_seconds: 1 } }));
    const { gateway, collector } = own;
    await collector.server.pause();
    const callers = Array.from({ length: CALLERS }, async () => {
      for (let i = 0; i < REQUESTS / CALLERS; i++)
        assert.equal((await send(gateway.url, { headers: bearer(gateway.token), body })).status, 200);
    });
    await Promise.all(callers);
    await collector.server.resume();
    const accounted = await until('every span has arrived or is counted', () => {
      const points = collector.points.filter(({ metric }) => metric === 'gateway.telemetry.dropped');
      const series = new Map(points.map(({ labels, value }) => [JSON.stringify(labels), { labels, value }]));
      const spans = [...series.values()].filter(({ labels }) => labels['gateway.telemetry.signal'] === 'traces');
      const dropped = spans.reduce((sum, { value }) => sum + value, 0);
      const arrived = collector.spans.filter(({ attributes }) => 'gateway.upstream' in attributes).length;
      return dropped + arrived >= REQUESTS * SPANS && { dropped, arrived };
    });
    assert.equal(accounted.dropped + accounted.arrived, REQUESTS * SPANS, JSON.stringify(accounted));
    assert.ok(accounted.dropped > 0, 'the queue was full');
  });
});
