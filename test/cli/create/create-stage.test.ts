import assert from 'node:assert/strict';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import { ownDirectory } from '../../support/own-directory.ts';
import { assertNarrow, assertRefused } from '../at-gateway.ts';
import { cli } from '../support.ts';

let directory: string;
beforeEach(() => {
  directory = ownDirectory();
});

const run = (...arguments_: string[]) =>
  cli(arguments_, { cwd: directory, env: { ...process.env, UPSTREAM_KEY: 'set' } });

/** The lines of a text that begin with the given one and are indented or empty until the text stands further out again. */
function block(text: string, first: string): string {
  const lines = text.split('\n');
  const start = lines.indexOf(first);
  assert.ok(start >= 0, `${first} is not in\n${text}`);
  const end = lines.findIndex((line, index) => index > start && line === '');
  return `${lines.slice(start, end).join('\n')}\n`;
}

test('a new stage passes the check once its printed entry is in gateway.yaml', async () => {
  await run('init');
  const { exit_code, stdout, stderr } = await run('create', 'stage', 'require-ticket');
  assert.equal(exit_code, 0);
  assert.equal(stdout, 'stages/require-ticket.ts\nstages/require-ticket.test.ts\nstages/package.json\n');
  assertNarrow(stderr);

  const gateway = join(directory, 'gateway.yaml');
  const added = `${block(stderr, 'stages:')}\n${block(stderr, 'all_pipelines:')}`;
  await writeFile(gateway, `${await readFile(gateway, 'utf8')}\n${added}`);

  const checked = await run('check', '--deny-warnings');
  assert.equal(checked.exit_code, 0, checked.stdout);
});

test('a new stage is written into the directory that was named', async () => {
  const { exit_code, stderr } = await run('create', 'stage', 'require-ticket', '--directory', 'my-gateway');
  assert.equal(exit_code, 0);
  assert.deepEqual((await readdir(join(directory, 'my-gateway/stages'))).toSorted(), [
    'package.json',
    'require-ticket.test.ts',
    'require-ticket.ts',
  ]);
  assert.match(stderr, /\n {2}cd my-gateway\n/);
});

test('a name that pipelines could not use, or that a shipped stage has, is rejected, and nothing is written', async () => {
  const rule = /lower-case words joined by dashes, such as require-ticket\n$/;
  await assertRefused(
    run,
    ['Require_ticket', 'x-', '../x'].map((name) => [['create', 'stage', '--', name], rule]),
  );
  await assertRefused(run, [
    ['create stage audit', /audit is a shipped stage; use another name, such as own-audit\n$/],
  ]);
  assert.deepEqual(await readdir(directory), []);
});

test('a file that exists is never overwritten, also the module marker, and none of the two is then written', async () => {
  await run('create', 'stage', 'one');
  await writeFile(join(directory, 'stages/one.test.ts'), 'mine');
  await rm(join(directory, 'stages/one.ts'));
  await assertRefused(run, [['create stage one', /: stages\/one\.test\.ts exists already; nothing was written\n$/]]);
  assert.deepEqual(await readdir(join(directory, 'stages')), ['one.test.ts', 'package.json']);
  assert.equal(await readFile(join(directory, 'stages/one.test.ts'), 'utf8'), 'mine');
  await writeFile(join(directory, 'stages/package.json'), '{ "type": "module", "private": true }');
  const { exit_code, stdout } = await run('create', 'stage', 'two');
  assert.deepEqual([exit_code, stdout], [0, 'stages/two.ts\nstages/two.test.ts\n']);
  assert.match(await readFile(join(directory, 'stages/package.json'), 'utf8'), /private/);
});
