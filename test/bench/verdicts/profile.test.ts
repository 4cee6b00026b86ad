import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { renderProfile, selfTimes } from './profile.ts';

const here = pathToFileURL(import.meta.filename).href;
const node = (id: number, functionName: string, url: string) => ({ id, callFrame: { functionName, url } });
const PROFILE = {
  nodes: [
    node(1, '(root)', ''),
    node(2, '(idle)', ''),
    node(3, 'writev', ''),
    node(4, 'forward', here),
    node(5, 'forward', here),
    node(6, '', 'file:///srv/node_modules/@scope/package/lib/index.js'),
    node(7, 'post', 'node:inspector'),
  ],
  samples: [2, 3, 4, 5, 6, 7],
  timeDeltas: [50_000, 1000, 2000, 4000, 3000, 9000],
};

test('self times are those of a function wherever it was called, without waiting and without the profiler', () => {
  assert.deepEqual(selfTimes(PROFILE), [
    { module: 'test/bench/verdicts/profile.test.ts', name: 'forward', self_us: 6000 },
    { module: '@scope/package', name: '(anonymous)', self_us: 3000 },
    { module: '(native)', name: 'writev', self_us: 1000 },
  ]);
});

test('a profile is shown by parts of the work that was done', () => {
  assert.equal(
    renderProfile(selfTimes(PROFILE), 2),
    [
      ' 60.0 %       6 ms  test/bench/verdicts/profile.test.ts  forward',
      ' 30.0 %       3 ms  @scope/package                       (anonymous)',
    ].join('\n'),
  );
});
