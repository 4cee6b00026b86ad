/** What happens to the files of a configuration, however it is done, is noticed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename } from 'node:path';
import { afterEach, describe, test } from 'node:test';
import { systemClock } from '../../engine/base/kit/clock.ts';
import {
  type ConfigurationParts,
  changedFiles,
  type DirectoryWatch,
  digestFiles,
  directoriesToWatch,
  watchDirectories,
} from '../../engine/edge/gateway/configuration-files.ts';
import { collectingLog } from '../cli/support.ts';
import { createProject, type Project } from '../load/support/project.ts';
import { until } from '../support/until.ts';

const open: (DirectoryWatch | Project)[] = [];
afterEach(() => {
  for (const one of open.splice(0)) 'close' in one ? one.close() : one.remove();
});

function project(files: Readonly<Record<string, string>>): Project {
  const created = createProject(files);
  open.push(created);
  return created;
}

/** Watches a configuration; `sees` waits for the names of the files that changed next, in one quiet moment. */
function watching(parts: ConfigurationParts) {
  const changed: string[][] = [];
  const expected: string[][] = [];
  let last = digestFiles(parts);
  let moments = 0;
  const watch = watchDirectories({
    directories: () => directoriesToWatch(parts),
    onQuiet() {
      moments += 1;
      const now = digestFiles(parts);
      const files = changedFiles(last, now);
      last = now;
      if (files.length > 0) changed.push(files.map((file) => basename(file)));
    },
    clock: systemClock,
    log: collectingLog().log,
  });
  open.push(watch);
  async function sees(...files: string[]): Promise<void> {
    expected.push(files);
    await until(`${JSON.stringify(expected)} is noticed`, () => changed.length >= expected.length);
    assert.deepEqual(changed, expected);
  }
  return { changed, moments: () => moments, sees };
}

/** A project of which one file, the first unless it is named, is watched. */
function watchedFile(files: Readonly<Record<string, string>>, file = Object.keys(files)[0]!) {
  const { path } = project(files);
  const whole = path(file);
  const write = (text: string) => writeFileSync(whole, text);
  return { path, file: whole, write, ...watching({ files: [whole], pipelines_directory: undefined }) };
}

describe('a file is changed', () => {
  const ways: Readonly<Record<string, (file: string) => void>> = {
    'in place': (file) => writeFileSync(file, 'new'),
    'in several steps': (file) => {
      const handle = openSync(file, 'w');
      for (const letter of 'several steps') writeSync(handle, letter);
    },
    'by renaming another to its name': (file) => {
      writeFileSync(`${file}.tmp`, 'new');
      renameSync(`${file}.tmp`, file);
    },
    'by keeping the old one as a copy': (file) => {
      renameSync(file, `${file}~`);
      writeFileSync(file, 'new');
    },
    'by removing it and making it anew': (file) => {
      rmSync(file);
      writeFileSync(file, 'new');
    },
  };
  for (const [how, change] of Object.entries(ways)) {
    test(how, async () => {
      const { file, write, sees } = watchedFile({ 'gateway.yaml': 'old' });
      change(file);
      await sees('gateway.yaml');
      // Whatever was done to it, it is still being watched.
      write('newer');
      await sees('gateway.yaml');
    });
  }
});

test('touching a file and writing the same content change nothing', async () => {
  const { path, file, write, changed, moments } = watchedFile({ 'gateway.yaml': 'old' });
  utimesSync(file, 0, 0);
  write('old');
  writeFileSync(path('notes.txt'), 'beside it');
  await until('it has looked', () => moments() > 0);
  assert.deepEqual(changed, []);
});

test('a constantly written file beside it does not delay a change', async () => {
  const { path, write, sees } = watchedFile({ 'gateway.yaml': 'old', 'audit.jsonl': '' });
  const busy = setInterval(() => appendFileSync(path('audit.jsonl'), '{}\n'), 10);
  try {
    write('new');
    await sees('gateway.yaml');
  } finally {
    clearInterval(busy);
  }
});

test("notices new, changed and removed pipelines and fragments, but not tests and editors' files", async () => {
  const { path } = project({ 'pipelines/a.yaml': 'a' });
  const { sees } = watching({ files: [], pipelines_directory: path('pipelines') });
  writeFileSync(path('pipelines/b.test.yaml'), 'b');
  symlinkSync('nowhere', path('pipelines/.#b.yaml'));
  writeFileSync(path('pipelines/b.yaml'), 'b');
  await sees('b.yaml');
  mkdirSync(path('pipelines/fragments'));
  writeFileSync(path('pipelines/fragments/f.yaml'), 'f');
  await sees('f.yaml');
  rmSync(path('pipelines/a.yaml'));
  await sees('a.yaml');
});

test('a directory that is replaced, removed or not there yet is watched all the same', async () => {
  const { path } = project({ 'pipelines/a.yaml': 'old' });
  const { sees } = watching({ files: [], pipelines_directory: path('pipelines') });
  cpSync(path('pipelines'), path('next'), { recursive: true });
  writeFileSync(path('next/a.yaml'), 'new');
  renameSync(path('pipelines'), path('before'));
  renameSync(path('next'), path('pipelines'));
  await sees('a.yaml');
  rmSync(path('pipelines'), { recursive: true });
  await sees('a.yaml');
  mkdirSync(path('pipelines'));
  writeFileSync(path('pipelines/a.yaml'), 'newer');
  await sees('a.yaml');
});

test('links are followed: to a file, through a directory, and the way a ConfigMap is mounted', async () => {
  const { path } = project({ 'store/real.yaml': 'old', 'v1/pipelines/a.yaml': 'one', 'v2/pipelines/a.yaml': 'two' });
  mkdirSync(path('etc'));
  symlinkSync('../store/real.yaml', path('etc/linked.yaml'));
  symlinkSync('v1', path('current'));
  mkdirSync(path('map/..2027_01'), { recursive: true });
  mkdirSync(path('map/..2027_02'));
  writeFileSync(path('map/..2027_01/gateway.yaml'), 'january');
  writeFileSync(path('map/..2027_02/gateway.yaml'), 'february');
  symlinkSync('..2027_01', path('map/..data'));
  symlinkSync('..data/gateway.yaml', path('map/gateway.yaml'));
  const { sees } = watching({
    files: [path('etc/linked.yaml'), path('map/gateway.yaml')],
    pipelines_directory: path('current/pipelines'),
  });

  writeFileSync(path('store/real.yaml'), 'new');
  await sees('linked.yaml');
  symlinkSync('v2', path('next'));
  renameSync(path('next'), path('current'));
  await sees('a.yaml');
  symlinkSync('..2027_02', path('map/..data_tmp'));
  renameSync(path('map/..data_tmp'), path('map/..data'));
  await sees('gateway.yaml');
  rmSync(path('map/..2027_01'), { recursive: true });
  writeFileSync(path('map/..2027_02/gateway.yaml'), 'march');
  await sees('gateway.yaml');
});

test('links in a circle end', () => {
  const { path } = project({});
  symlinkSync('b', path('a'));
  symlinkSync('a', path('b'));
  assert.ok(directoriesToWatch({ files: [path('a')], pipelines_directory: path('b') }).has(path('.')));
});

test('a pipe is not read', () => {
  const { path } = project({});
  assert.equal(spawnSync('mkfifo', [path('gateway.yaml')]).status, 0);
  assert.equal(digestFiles({ files: [path('gateway.yaml')], pipelines_directory: undefined }).size, 1);
});

test('the pipelines that ship with the gateway are not watched: an upgrade needs a restart', async () => {
  const { SHIPPED_PIPELINES } = await import('../../engine/pipeline/load/pipelines.ts');
  const shipped = { files: [`${SHIPPED_PIPELINES}/model-requests.yaml`], pipelines_directory: undefined };
  assert.equal(digestFiles(shipped).size, 0);
  assert.equal(directoriesToWatch(shipped).size, 0);
});
