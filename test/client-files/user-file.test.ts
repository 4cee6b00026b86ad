import assert from 'node:assert/strict';
import fs, {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import type { Draft } from '../../engine/edge/client-files/clients.ts';
import { readUserFile, writeUserFiles } from '../../engine/edge/client-files/user-file.ts';
import { ownDirectory } from '../support/own-directory.ts';

let directory: string;
let path: string;

beforeEach(() => {
  directory = ownDirectory();
  path = join(directory, 'config.toml');
});

function draft(after: string, more: Partial<Draft> = {}): Draft {
  return { path, before: readUserFile(more.path ?? path), after, secret: false, ...more };
}

const modeOf = (file: string) => (statSync(file).mode & 0o777).toString(8);

describe('a file of a user', () => {
  test('keeps its mode, and a backup is beside it', () => {
    writeFileSync(path, 'old');
    chmodSync(path, 0o640);
    assert.deepEqual(writeUserFiles([draft('new')]), [`${path}.backup-1`]);
    assert.equal(readFileSync(path, 'utf8'), 'new');
    assert.equal(modeOf(path), '640');
    assert.equal(readFileSync(`${path}.backup-1`, 'utf8'), 'old');
  });

  test('that only gets other rights leaves no backup', () => {
    writeFileSync(path, 'key');
    chmodSync(path, 0o644);
    assert.deepEqual(writeUserFiles([draft('key', { secret: true })]), [undefined]);
    assert.deepEqual([readFileSync(path, 'utf8'), modeOf(path)], ['key', '600']);
    assert.deepEqual(readdirSync(directory), ['config.toml']);
  });

  test("stays its owner's when root changes it, and so does its backup", {
    skip: process.getuid?.() !== 0 && 'only root can give files away',
  }, () => {
    writeFileSync(path, 'old');
    chownSync(path, 12_345, 12_346);
    writeUserFiles([draft('new')]);
    for (const file of [path, `${path}.backup-1`]) {
      const { uid, gid } = statSync(file);
      assert.deepEqual([uid, gid], [12_345, 12_346], file);
    }
  });

  test('never loses an earlier backup', () => {
    writeFileSync(path, 'one');
    writeFileSync(`${path}.backup-2`, 'kept');
    writeUserFiles([draft('two')]);
    assert.deepEqual(writeUserFiles([draft('three')]), [`${path}.backup-3`]);
    const texts = ['.backup-1', '.backup-2', '.backup-3', ''].map((end) => readFileSync(path + end, 'utf8'));
    assert.deepEqual(texts, ['one', 'kept', 'two', 'three']);
  });

  test('that is a link stays one; its target is replaced, and backed up there', () => {
    const elsewhere = join(directory, 'dotfiles');
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, 'real.toml'), 'old');
    symlinkSync(join('dotfiles', 'real.toml'), path);
    const [backup] = writeUserFiles([draft('new')]);
    assert.ok(lstatSync(path).isSymbolicLink());
    assert.equal(readFileSync(join(elsewhere, 'real.toml'), 'utf8'), 'new');
    assert.match(backup!, /dotfiles\/real\.toml\.backup-1$/);
  });

  test('that another process changed meanwhile is left alone', () => {
    writeFileSync(path, 'old');
    const made = draft('new');
    writeFileSync(path, 'theirs');
    assert.throws(() => writeUserFiles([made]), /another program has changed .*; nothing was written/);
    assert.equal(readFileSync(path, 'utf8'), 'theirs');
    assert.deepEqual(readdirSync(directory), ['config.toml']);
    rmSync(path);
    const fresh = draft('new');
    writeFileSync(path, 'theirs');
    assert.throws(() => writeUserFiles([fresh]), /another program has changed/);
  });

  test('is not written when another of the same client cannot be', () => {
    writeFileSync(path, 'old');
    const blocked = join(directory, 'file', 'auth.json');
    writeFileSync(join(directory, 'file'), '');
    const drafts = [draft('new'), { path: blocked, before: undefined, after: 'x', secret: true }];
    assert.throws(() => writeUserFiles(drafts), /auth\.json cannot be (?:read|written): a part of its path is a file/);
    assert.equal(readFileSync(path, 'utf8'), 'old');
    assert.deepEqual(readdirSync(directory).toSorted(), ['config.toml', 'file']);
  });

  test('is as it was when another of the same client cannot be replaced, as where a container has it mounted', (t) => {
    writeFileSync(path, 'old');
    const [added, mounted] = [join(directory, 'added.json'), join(directory, 'auth.json')];
    writeFileSync(mounted, 'theirs');
    const drafts = [draft('new'), draft('new', { path: added }), draft('new', { path: mounted })];
    const rename = fs.renameSync;
    t.mock.method(fs, 'renameSync', (from: string, to: string) => {
      if (to === mounted) throw Object.assign(new Error('busy'), { code: 'EBUSY' });
      rename(from, to);
    });
    syncBuiltinESMExports();
    try {
      assert.throws(() => writeUserFiles(drafts), /auth\.json cannot be replaced: it is a mount point/);
    } finally {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    }
    assert.deepEqual([readFileSync(path, 'utf8'), readFileSync(mounted, 'utf8')], ['old', 'theirs']);
    assert.deepEqual(readdirSync(directory).toSorted(), ['auth.json', 'config.toml']);
  });

  test('that is invalid is reported: a directory, a dangling link, a circle, no UTF-8, too large', () => {
    mkdirSync(join(directory, 'd'));
    symlinkSync('nowhere', join(directory, 'l'));
    symlinkSync('c', join(directory, 'c'));
    writeFileSync(join(directory, 'b'), Buffer.from([0x61, 0xff]));
    writeFileSync(join(directory, 'g'), 'x'.repeat(1024 * 1024 + 1));
    for (const [name, why] of Object.entries({
      ...{ d: /is not a regular file/, l: /is a broken link/, c: /symbolic links form a cycle/, b: /is not UTF-8/ },
      g: /larger than 1 MiB/,
    }))
      assert.throws(() => readUserFile(join(directory, name)), why);
    assert.equal(readUserFile(join(directory, 'nothing')), undefined);
  });
});
