import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { it } from 'node:test';
import fc from 'fast-check';
import { Scene } from '../../support/spool-scene.ts';
import { reservation, settlement } from '../../support/store.ts';
import { times } from '../../support/times.ts';

const damage = fc.oneof(
  fc.record({ how: fc.constant('overwrite' as const), at: fc.nat(), bytes: fc.uint8Array({ minLength: 1 }) }),
  fc.record({ how: fc.constant('insert' as const), at: fc.nat(), bytes: fc.uint8Array({ minLength: 1 }) }),
  fc.record({ how: fc.constant('cut' as const), at: fc.nat(), bytes: fc.uint8Array({ minLength: 1 }) }),
);

function apply(file: Buffer, { how, at, bytes }: typeof damage extends fc.Arbitrary<infer D> ? D : never): Buffer {
  const place = at % (file.length + 1);
  const after = how === 'insert' ? place : Math.min(file.length, place + bytes.length);
  return Buffer.concat([file.subarray(0, place), how === 'cut' ? '' : bytes, file.subarray(after)].map(Buffer.from));
}

it('however a file is damaged, its whole records are written unchanged, and nothing is invented', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 8 }), fc.array(damage, { maxLength: 4 }), async (count, damages) => {
      const scene = new Scene();
      const doomed = scene.doomed();
      const requests = Array.from({ length: count }, () => reservation({ amount_nano_usd: 500 }));
      for (const request of requests) await doomed.forward(request);
      for (const request of requests.slice(0, count / 2))
        await doomed.settle(settlement(request, { cost_nano_usd: 7 }));
      const path = scene.file;
      const whole = readFileSync(path);
      const damaged = damages.reduce(apply, whole);
      writeFileSync(path, damaged);

      const next = scene.open();
      await next.adoptOrphans();
      await next.drain(scene.write);

      const lines = new Set(damaged.toString('latin1').split('\n').slice(0, -1));
      const left = whole
        .toString('latin1')
        .split('\n')
        .filter((line) => line !== '' && lines.has(line));
      const costs = new Map<string, number>();
      for (const line of left) {
        const record = JSON.parse(line.slice(line.indexOf(' ')));
        if (record.what === 'settled') costs.set(record.settlement.request_id, 7);
        else if (!costs.has(record.request.request_id)) costs.set(record.request.request_id, 500);
      }
      const written = scene.rows.map((row) => [row.settlement.request_id, row.settlement.cost_nano_usd] as const);
      assert.deepEqual(new Map(written), costs);
      assert.equal(written.length, costs.size);
      assert.equal(next.due, 0);
      await Promise.all([doomed.close(), next.close()]);
    }),
    { numRuns: times(80) },
  );
});
