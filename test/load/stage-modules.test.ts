import assert from 'node:assert/strict';
import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { filesOfModule, importModule } from '../../engine/pipeline/load/stage-modules.ts';
import { projectOfTest } from './support/project.ts';

function project(files: Readonly<Record<string, string>>) {
  const created = projectOfTest(files);
  return {
    path: created.path,
    write: (name: string, text: string) => writeFileSync(created.path(name), text),
    // biome-ignore lint/suspicious/noExplicitAny: a module exports whatever it likes
    import: async (name: string): Promise<any> => (await importModule(created.path(name))).default,
  };
}

test('code that has not changed is imported once', async () => {
  const { import: load } = project({ 'a.ts': 'export default { at: process.hrtime.bigint() };' });
  assert.equal(await load('a.ts'), await load('a.ts'));
});

test('a change is imported, wherever below the module it is', async () => {
  const files = project({
    'a.ts': `import { deep } from './lib/b.ts'; export default 'a ' + deep;`,
    'lib/b.ts': `import { WORD } from '../c.ts'; export const deep = 'b ' + WORD;`,
    'c.ts': `export const WORD = 'one';`,
  });
  assert.equal(await files.import('a.ts'), 'a b one');
  files.write('c.ts', `export const WORD = 'two';`);
  assert.equal(await files.import('a.ts'), 'a b two');
  files.write('a.ts', `import { deep } from './lib/b.ts'; export default 'A ' + deep;`);
  assert.equal(await files.import('a.ts'), 'A b two');
});

test('a shared import of two modules is imported once, and once again after a change', async () => {
  const files = project({
    'a.ts': `import { state } from './shared.ts'; export default state;`,
    'b.ts': `import { state } from './shared.ts'; export default state;`,
    'shared.ts': 'export const state = { version: 1 };',
  });
  const first = await files.import('a.ts');
  assert.equal(await files.import('b.ts'), first);
  files.write('b.ts', `import { state } from './shared.ts'; export default state; // changed`);
  assert.equal(await files.import('b.ts'), first);
  files.write('shared.ts', 'export const state = { version: 2 };');
  const second = await files.import('b.ts');
  assert.equal(second.version, 2);
  assert.equal(await files.import('a.ts'), second);
});

test('modules that import each other load', async () => {
  const files = project({
    'a.ts': `import { b } from './b.ts'; export const a = 'a'; export default b();`,
    'b.ts': `import { a } from './a.ts'; export const b = () => 'b1';`,
  });
  assert.equal(await files.import('a.ts'), 'b1');
  files.write('b.ts', `import { a } from './a.ts'; export const b = () => 'b2';`);
  assert.equal(await files.import('a.ts'), 'b2');
});

test('a module that failed is tried again, whether or not it has changed', async () => {
  const files = project({
    'a.ts': `import './b.ts'; export default 1;`,
    'b.ts': `if (globalThis.closed) throw new Error();`,
  });
  Object.assign(globalThis, { closed: true });
  await assert.rejects(files.import('a.ts'));
  Object.assign(globalThis, { closed: false });
  assert.equal(await files.import('a.ts'), 1);
});

test('a module that never finishes loading is an error, and its correction is imported', async () => {
  const files = project({ 'a.ts': 'await new Promise(() => {}); export default 1;' });
  await assert.rejects(importModule(files.path('a.ts'), 50), /within 0.05 s/);
  files.write('a.ts', 'export default 1;');
  assert.equal(await files.import('a.ts'), 1);
});

test('a missing file is found once it exists', async () => {
  const files = project({ 'a.ts': `import { x } from './later.ts'; export default x;` });
  await assert.rejects(files.import('a.ts'), /later\.ts/);
  assert.ok(filesOfModule(files.path('a.ts')).includes(files.path('later.ts')), 'it is one of the files to watch');
  files.write('later.ts', 'export const x = 5;');
  assert.equal(await files.import('a.ts'), 5);
});

test('a link with a new target is another module', async () => {
  const files = project({ 'one.ts': 'export default 1;', 'two.ts': 'export default 2;' });
  symlinkSync('one.ts', files.path('stage.ts'));
  assert.equal(await files.import('stage.ts'), 1);
  symlinkSync('two.ts', files.path('next.ts'));
  renameSync(files.path('next.ts'), files.path('stage.ts'));
  assert.equal(await files.import('stage.ts'), 2);
  assert.ok(filesOfModule(files.path('stage.ts')).includes(files.path('two.ts')));
});

test('a removed module is an error, and its replacement is imported', async () => {
  const files = project({ 'a.ts': 'export default 1;' });
  assert.equal(await files.import('a.ts'), 1);
  rmSync(files.path('a.ts'));
  await assert.rejects(files.import('a.ts'));
  files.write('a.ts', 'export default 1;');
  assert.equal(await files.import('a.ts'), 1);
});

test('TypeScript is an ES module for any package.json, without output', async (t) => {
  const warned: Error[] = [];
  const keep = (warning: Error) => void warned.push(warning);
  process.on('warning', keep);
  t.after(() => process.off('warning', keep));
  for (const package_json of ['{ "type": "commonjs" }', '{}']) {
    const files = project({
      'package.json': package_json,
      'a.ts': `import { b } from './b.ts'; export default 'a ' + b;`,
      'b.ts': `export const b: string = 'b';`,
    });
    assert.equal(await files.import('a.ts'), 'a b');
  }
  // Warnings are emitted a turn later.
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(warned, []);
});
