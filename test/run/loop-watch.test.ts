import assert from 'node:assert/strict';
import { after, before, mock, test } from 'node:test';
import type { Log } from '../../engine/contract/services.ts';

type LoopWatch = typeof import('../../engine/run/contained/loop-watch.ts');

/** How often it looks. */
const TICK_MS = 50;

let now = 0;
// Its own copy, whose timer no gateway of this process has begun.
let watch: LoopWatch;

before(async () => {
  const { href } = new URL('../../engine/run/contained/loop-watch.ts?on-a-clock-of-its-own', import.meta.url);
  watch = await import(href);
  mock.timers.enable({ apis: ['setInterval'] });
  mock.method(performance, 'now', () => now);
});
after(() => mock.reset());

/** Lets it look, on time. */
function look(): void {
  now += TICK_MS;
  mock.timers.tick(TICK_MS);
}

/** Keeps the process from all else for a while. */
function block(): void {
  now += 2 * watch.BLOCKING_MS;
}

/** A log that keeps the stages of its warnings. */
function keepsStages(): { log: Log; named: string[][] } {
  const named: string[][] = [];
  const silent = () => {};
  const warn = (fields: object) => named.push((fields as { stages: string[] }).stages);
  return { log: { debug: silent, info: silent, error: silent, warn }, named };
}

test('each of several gateways in a process hears of its own stages, the later ones as well', () => {
  const first = keepsStages();
  const second = keepsStages();
  watch.watchHook('early', first.log, true)();
  look();
  const ends = watch.watchHook('late', second.log, true);
  block();
  ends();
  look();
  assert.deepEqual([first.named, second.named], [[], [['late']]]);
});

test('a stage that still runs is named, and one that ended long ago is not', () => {
  const { log, named } = keepsStages();
  watch.watchHook('gone', log, true)();
  const ends = watch.watchHook('waits', log, true);
  look();
  block();
  look();
  ends();
  assert.deepEqual(named, [['waits']]);
});

test('where the code of one is seen to take that long, those that wait beside it are not named', () => {
  const { log, named } = keepsStages();
  const ends = watch.watchHook('innocent', log, true);
  const blocks = watch.watchHook('slow', log, false);
  block();
  blocks();
  look();
  ends();
  assert.deepEqual(named, [['slow']]);
});
