import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Log } from '../../engine/contract/services.ts';
import { BLOCKING_MS, watchHook } from '../../engine/run/contained/loop-watch.ts';
import { until } from '../support/until.ts';

/** A log that keeps the stages of its warnings. */
function keepsStages(): { log: Log; named: string[][] } {
  const named: string[][] = [];
  const silent = () => {};
  const warn = (fields: object) => named.push((fields as { stages: string[] }).stages);
  return { log: { debug: silent, info: silent, error: silent, warn }, named };
}

function block(): void {
  for (const end = performance.now() + 2 * BLOCKING_MS; performance.now() < end; );
}

test('each of several gateways in a process hears of its own stages, the later ones as well', async () => {
  const first = keepsStages();
  const second = keepsStages();
  watchHook('early', first.log, true)();
  await new Promise((resolve) => setImmediate(resolve));
  const ends = watchHook('late', second.log, true);
  block();
  ends();
  await until('the second log names its stage', () => second.named.flat().includes('late'));
  assert.ok(!first.named.flat().includes('late'));
});

test('a stage that still runs is named, and one that ended long ago is not', async () => {
  const { log, named } = keepsStages();
  watchHook('gone', log, true)();
  const ends = watchHook('waits', log, true);
  await new Promise((resolve) => setTimeout(resolve, 150));
  named.length = 0;
  block();
  await until('the log names it', () => named.length > 0);
  ends();
  assert.deepEqual(named[0], ['waits']);
});

test('where the code of one is seen to take that long, those that wait beside it are not named', async () => {
  const { log, named } = keepsStages();
  const ends = watchHook('innocent', log, true);
  const blocks = watchHook('slow', log, false);
  block();
  blocks();
  await until('the log names it', () => named.length > 0);
  ends();
  assert.deepEqual(named[0], ['slow']);
});
