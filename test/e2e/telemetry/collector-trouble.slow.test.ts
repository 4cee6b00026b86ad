/** A collector that is away, slow or hostile costs requests nothing, and what it did not get is counted. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { bytesInUse } from '../../support/heap.ts';
import { answerBytes, answerRaw, hang, reset, type Script } from '../../support/model-provider/scripted-upstream.ts';
import { takePartly } from '../../support/telemetry/collector.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { openTelemetryScene, type TelemetryScene } from './scene.ts';

const CALLERS = 8;
const REQUESTS = 400;
/** At once while the collector has some trouble. */
const LOAD = 48;
/** Spans of one request: its own, and that of its attempt. */
const SPANS = 2;
const QUEUE = 512;

const text = { 'content-type': 'text/plain' };
const ENDLESS = Buffer.alloc(64 * 1024, 'a');

/** Answers without an end, as fast as it is taken. */
const answerForEver: Script = ({ res }) => {
  res.writeHead(200, { 'content-type': 'application/x-protobuf' });
  const write = () => {
    while (!res.destroyed && res.write(ENDLESS));
  };
  res.on('drain', write);
  write();
};

/** Answers one byte after the other, the head too. */
const answerByteByByte: Script = ({ socket }) => {
  const bytes = 'HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n\r\n';
  let at = 0;
  const timer = setInterval(() => socket.write(bytes[at++] ?? '\n'), 100);
  socket.on('close', () => clearInterval(timer));
};

const TROUBLES: Readonly<Record<string, Script>> = {
  hangs: hang,
  'answers 429 and wants to be left alone for an hour': answerBytes(429, { ...text, 'retry-after': '3600' }, 'later'),
  'answers 503': answerBytes(503, text, 'away'),
  'answers 400': answerBytes(400, text, 'no'),
  'answers garbage': answerBytes(200, { 'content-type': 'application/x-protobuf' }, Buffer.alloc(5000, 0xff)),
  'answers a page': answerBytes(200, { 'content-type': 'text/html' }, '<html>Sign in</html>'),
  'answers what is no HTTP': answerRaw(Buffer.alloc(3000, 0x80)),
  'answers without an end': answerForEver,
  'answers byte by byte': answerByteByByte,
  'takes a part only': takePartly('traces', 100, 'too many'),
  'resets connections': reset,
};

let scene: TelemetryScene;
let token: string;
const body = messagesBody();

before(async () => {
  scene = await openTelemetryScene({ otlp: { queue_spans: QUEUE, timeout_seconds: 3 } });
  token = scene.gateway.token;
  await load();
});
after(() => scene?.close());

/** Lets the gateway forget what trouble it had with the collector, as a changed configuration does. */
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

/** Lets callers ask one thing after the other. @returns how long each request took, in milliseconds, the shortest first */
async function load(requests = LOAD): Promise<number[]> {
  const took: number[] = [];
  let left = requests;
  const persist = async () => {
    while (left-- > 0) {
      const began = performance.now();
      const { status } = await send(scene.gateway.url, { headers: bearer(token), body });
      took.push(performance.now() - began);
      assert.equal(status, 200);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, persist));
  return took.toSorted((a, b) => a - b);
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
  for (const [what, script] of Object.entries(TROUBLES)) {
    test(`${what}, requests are served as fast as before`, async () => {
      const { collector } = scene;
      await startAnew(what);
      const usual = await load();
      collector.trouble(script);
      try {
        const took = [...(await load()), ...(await load())].toSorted((a, b) => a - b);
        await collector.server.arrived(1);
        // The machine may be busy: a request that waited for the collector would take as long as the collector may.
        const [middle, latest] = [took[LOAD]!, took.at(-1)!];
        assert.ok(middle < 3 * usual[LOAD / 2]! + 10, `half of them took more than ${middle} ms`);
        assert.ok(latest < 2500, `the slowest took ${latest} ms`);
      } finally {
        collector.trouble(undefined);
      }
    });
  }
});

describe('a collector that is away', () => {
  test('loses the spans that the queue has no room for, which are counted, and gets the others when it is back', async () => {
    const own = await openTelemetryScene({ otlp: { queue_spans: QUEUE, timeout_seconds: 1 } });
    try {
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
    } finally {
      await own.close();
    }
  });

  test('is told in the log once, and once again when it is back', async () => {
    const own = await openTelemetryScene({ otlp: { timeout_seconds: 1 } });
    try {
      const { gateway, collector } = own;
      await collector.server.pause();
      const about = () => gateway.logs.filter((line) => /telemetry|collector|spans/i.test(line));
      const before = about().length;
      for (let i = 0; i < 5; i++) {
        await send(gateway.url, { headers: bearer(gateway.token), body });
        await until('it is told', () => about().length > before);
      }
      await new Promise((resolve) => setTimeout(resolve, 300));
      const told = about().slice(before);
      assert.ok(told.length <= 3, told.join('\n'));
      await collector.server.resume();
      await send(gateway.url, { headers: bearer(gateway.token), body });
      await until('its return is told', () => about().length > before + told.length);
    } finally {
      await own.close();
    }
  });

  test('does not keep a gateway from stopping', async () => {
    const own = await openTelemetryScene({ otlp: { timeout_seconds: 1 } });
    own.collector.trouble(hang);
    await send(own.gateway.url, { headers: bearer(own.gateway.token), body });
    const began = performance.now();
    await own.close();
    const took = performance.now() - began;
    assert.ok(took < 6000, `stopping took ${took} ms`);
  });
});

test('a redirect of the collector is not followed, with its headers or without', async () => {
  const strangers: string[] = [];
  const stranger = createServer((req, res) => {
    strangers.push(`${req.method} ${req.url} ${JSON.stringify(req.headers)}`);
    res.end();
  });
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  const { port } = stranger.address() as AddressInfo;
  try {
    for (const status of [301, 307, 308]) {
      const location = `http://127.0.0.1:${port}/v1/traces`;
      scene.collector.clear();
      scene.collector.trouble(answerBytes(status, { location }, ''));
      await load(CALLERS);
      await scene.collector.server.arrived(1);
    }
    await load(CALLERS);
    assert.deepEqual(strangers, []);
  } finally {
    scene.collector.trouble(undefined);
    stranger.closeAllConnections();
    stranger.close();
  }
});
