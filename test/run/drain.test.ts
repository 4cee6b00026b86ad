import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../engine/kit/clock.ts';
import { Drain } from '../../engine/run/drain.ts';

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
