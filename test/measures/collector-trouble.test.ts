/** How long requests take while a collector fails: as long as they usually do. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { FAILURES } from '../e2e/telemetry/collector-troubles.ts';
import { openTelemetryScene } from '../e2e/telemetry/scene.ts';
import { use } from '../support/use.ts';

const REQUESTS = 100;

const scene = use(() => openTelemetryScene({ otlp: { queue_spans: 512, timeout_seconds: 3 } }));
before(() => middleOf(REQUESTS));

/** The median of so many requests, in milliseconds. */
async function middleOf(requests: number): Promise<number> {
  const took: number[] = [];
  while (took.length < requests) {
    const began = performance.now();
    const { response } = await scene.ask(scene.gateway.token, {});
    took.push(performance.now() - began);
    assert.equal(response.status, 200);
  }
  return took.toSorted((a, b) => a - b)[requests / 2]!;
}

for (const [what, script] of Object.entries(FAILURES)) {
  test(`a collector that ${what} delays no request`, async (t) => {
    const usual_ms = await middleOf(REQUESTS);
    scene.collector.failWith(script);
    const middle_ms = await middleOf(REQUESTS).finally(() => scene.collector.failWith(undefined));
    t.diagnostic(`${middle_ms.toFixed(1)} ms instead of ${usual_ms.toFixed(1)} ms`);
    assert.ok(middle_ms < 3 * usual_ms + 10, `half of them took more than ${middle_ms} ms instead of ${usual_ms} ms`);
  });
}
