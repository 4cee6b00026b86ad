import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { addProcessMarker, countProcessMarkers, withLock } from '../../engine/base/kit/files/file-lock.ts';
import { identify, isRunning } from '../../engine/base/kit/process/process-identity.ts';
import { ownDirectory } from '../support/own-directory.ts';

const directory = ownDirectory();

/** What a process that is gone was called. */
const { stdout: dead } = spawnSync(
  process.execPath,
  [
    '--input-type=module',
    '-e',
    `import { identify } from ${JSON.stringify(new URL('../../engine/base/kit/process/process-identity.ts', import.meta.url).href)};
     process.stdout.write(identify(process.pid));`,
  ],
  { encoding: 'utf8' },
);

test('distinguishes a process from a dead one and from a later one with its number', () => {
  const own = identify(process.pid) ?? '';
  assert.ok(isRunning(own));
  assert.match(dead, /^\d+-\S+$/);
  assert.ok(!isRunning(dead));
  assert.ok(!isRunning(`${process.pid}-another-start`));
});

test('one process holds the lock at a time, also when all of them find a dead holder first', async () => {
  const path = join(directory, 'contended');
  symlinkSync(dead, path);
  let inside = 0;
  let turns = 0;
  await Promise.all(
    Array.from({ length: 30 }, () =>
      withLock(path, 10, async () => {
        inside++;
        assert.equal(inside, 1);
        await nextTurn();
        inside--;
        turns++;
      }),
    ),
  );
  assert.equal(turns, 30);
  const found = readdirSync(directory).filter((name) => name.startsWith('contended'));
  assert.deepEqual(found, []);
});

test('a lock is released when its holder fails', async () => {
  const path = join(directory, 'failed');
  await assert.rejects(
    withLock(path, 1, () => Promise.reject(new Error('inside'))),
    /inside/,
  );
  assert.equal(await withLock(path, 1, async () => 'free'), 'free');
});

test('waiting for a living holder ends with its process id', async () => {
  const path = join(directory, 'held');
  await withLock(path, 1, async () => {
    await assert.rejects(
      withLock(path, 0, async () => {}),
      { name: 'StartError', message: new RegExp(`^process ${process.pid} has held the lock`) },
    );
  });
});

test('markers of dead processes do not count', () => {
  const markers = join(directory, 'processes');
  const first = addProcessMarker(markers);
  const second = addProcessMarker(markers);
  writeFileSync(join(markers, `${dead}.1`), '');
  assert.equal(countProcessMarkers(markers), 2);
  first.remove();
  second.remove();
  assert.equal(countProcessMarkers(markers), 0);
  assert.deepEqual(readdirSync(markers), []);
});
