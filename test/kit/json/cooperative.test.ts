import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseScanned } from '../../../engine/base/kit/json/cooperative.ts';
import { JsonScan } from '../../../engine/base/kit/json/scan.ts';

function scanned(bytes: number): JsonScan {
  const scan = new JsonScan(Buffer.from(`[${'"",'.repeat(bytes / 3)}0]`), { depth: 8, values: 10_000_000 });
  scan.step(Infinity);
  return scan;
}

test('a caller with one large text waits for one of each other caller, however many and small theirs are', async () => {
  const done: string[] = [];
  const parse = async (owner: string, bytes: number) => {
    await parseScanned(scanned(bytes), owner);
    done.push(owner);
  };
  const mallory = Array.from({ length: 10 }, () => parse('mallory', 1_200_000));
  await Promise.all([...mallory, parse('ana', 2_400_000), parse('ben', 1_800_000)]);
  assert.equal(done.length, 12);
  assert.ok(done.indexOf('ana') <= 3, done.join());
  assert.ok(done.indexOf('ben') <= 3, done.join());
});
