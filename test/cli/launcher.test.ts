import assert from 'node:assert/strict';
import { chmod, copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { ownDirectory } from '../support/own-directory.ts';
import { until } from '../support/until.ts';
import { LAUNCHER, start } from './support.ts';

const root = ownDirectory();
let pretend_old: string;

before(async () => {
  pretend_old = join(root, 'pretend-old.mjs');
  const versions = `{ ...process.versions, node: '20.20.2' }`;
  await writeFile(pretend_old, `Object.defineProperty(process, 'versions', { value: ${versions} });\n`);
});

/** The launcher alone in a package below `folder`, with a program that reports how it was run. */
async function installLauncher(folder: string): Promise<string> {
  const bin = join(folder, 'node_modules', 'appscli', 'engine', 'bin');
  const dist = join(folder, 'node_modules', 'appscli', 'dist', 'engine', 'bin');
  await mkdir(bin, { recursive: true });
  await mkdir(dist, { recursive: true });
  await writeFile(join(folder, 'node_modules', 'appscli', 'package.json'), '{ "type": "module" }');
  await copyFile(LAUNCHER, join(bin, 'appscli.js'));
  await writeFile(
    join(dist, 'appscli.js'),
    `const [how] = process.argv.slice(2);
     if (how === 'wait') process.on('SIGTERM', () => process.stdout.write('stopped by SIGTERM', () => process.exit(7)));
     if (how === 'wait') process.on('SIGHUP', () => console.log('hung up'));
     if (how === 'wait') setInterval(() => {}, 1000);
     console.log(JSON.stringify({ runtime: process.execPath, pid: process.pid, arguments: process.argv.slice(2) }));
     if (how === 'die') process.kill(process.pid, 'SIGKILL');
     if (how !== 'wait') process.exitCode = 3;`,
  );
  return join(bin, 'appscli.js');
}

/** The npm package "node" in `folder`; its executable is a link to the one that runs this test. */
async function installRuntime(folder: string, version: string, executable: boolean): Promise<string> {
  const bin = join(folder, 'node_modules', 'node', 'bin');
  await mkdir(bin, { recursive: true });
  await writeFile(join(folder, 'node_modules', 'node', 'package.json'), JSON.stringify({ version }));
  const file = join(bin, 'node');
  if (executable) await symlink(process.execPath, file);
  else await writeFile(file, 'This file intentionally left blank');
  return file;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function startOnOldNode(launcher: string, arguments_: readonly string[]) {
  return start(process.execPath, ['--import', pathToFileURL(pretend_old).href, launcher, ...arguments_]);
}

test('on an old Node.js the program runs on the nearest suitable one from npm, with its arguments and exit code', async () => {
  const app = join(root, 'beside');
  const launcher = await installLauncher(app);
  await installRuntime(app, '24.3.0', true);
  const ended = await startOnOldNode(launcher, ['usage', '--since', '7d']).ended;
  assert.deepEqual(JSON.parse(ended.stdout).arguments, ['usage', '--since', '7d']);
  assert.deepEqual([ended.exit_code, ended.stderr], [3, '']);
  const outer = join(root, 'outer');
  const inner = join(outer, 'inner');
  const inner_launcher = await installLauncher(inner);
  await installRuntime(inner, '22.1.0', true);
  await installRuntime(outer, '26.0.0', true);
  assert.equal((await startOnOldNode(inner_launcher, []).ended).exit_code, 3);
});

test('a signal reaches the program, once, and the launcher ends the same way', async () => {
  const app = join(root, 'signals');
  const launcher = await installLauncher(app);
  await installRuntime(app, '24.3.0', true);
  const waiting = startOnOldNode(launcher, ['wait']);
  await until('the program runs', () => waiting.stdout() !== '');
  waiting.process.kill('SIGHUP');
  await until('the program has it', () => waiting.stdout().includes('hung up'));
  waiting.process.kill('SIGTERM');
  const { stdout, exit_code } = await waiting.ended;
  assert.equal(exit_code, 7);
  assert.equal(stdout.split('hung up').length, 2);
  assert.equal((await startOnOldNode(launcher, ['die']).ended).signal, 'SIGKILL');
});

test('a launcher that is killed, or vanishes silently, ends the program', async () => {
  const app = join(root, 'killed');
  const launcher = await installLauncher(app);
  await installRuntime(app, '24.3.0', true);
  const waiting = startOnOldNode(launcher, ['wait']);
  await until('the program runs', () => waiting.stdout() !== '');
  const { pid } = JSON.parse(waiting.stdout());
  waiting.process.kill('SIGKILL');
  await until('the program has ended', () => !isAlive(pid));
  // The program, at the other end of the pipe, reports how it ended.
  assert.match((await waiting.ended).stdout, /stopped by SIGTERM/);
});

for (const [on, folders] of [
  ['the Node.js of this machine', (folder: string) => !folder.includes('node_modules')],
  ['the pinned Node.js', () => true],
] as const) {
  test(`a SIGTERM that npx keeps to itself and its shell ends the program, on ${on}`, async () => {
    const app = join(root, `npx-${on.length}`);
    const launcher = await installLauncher(app);
    await installRuntime(app, '24.3.0', true);
    const bin = '{ "name": "appscli", "version": "1.0.0", "type": "module", "bin": "engine/bin/appscli.js" }';
    await writeFile(join(app, 'node_modules/appscli/package.json'), bin);
    await writeFile(join(app, 'package.json'), '{ "private": true }');
    await mkdir(join(app, 'node_modules/.bin'));
    await chmod(launcher, 0o755);
    await symlink(launcher, join(app, 'node_modules/.bin/appscli'));
    const outside = Object.entries(process.env).filter(([name]) => !/^(?:npm_|NODE_OPTIONS$)/i.test(name));
    const path = (process.env.PATH ?? '').split(delimiter).filter(folders).join(delimiter);
    const npx = start('npx', ['appscli', 'wait'], { cwd: app, env: { ...Object.fromEntries(outside), PATH: path } });
    await until('the program runs', () => npx.stdout().includes('\n'));
    npx.process.kill('SIGTERM');
    assert.match((await npx.ended).stdout, /stopped by SIGTERM/);
  });
}

test('without a newer Node.js one line has the found version, the required one and where to get it', async () => {
  const launcher = await installLauncher(join(root, 'without'));
  const ended = await startOnOldNode(launcher, ['--version']).ended;
  assert.equal(
    ended.stderr,
    'appscli: this is Node.js 20.20.2, but Node.js 24 or newer is needed; ' +
      'run npm install node@24 in this project, or install Node.js 24\n',
  );
  assert.deepEqual([ended.stdout, ended.exit_code], ['', 78]);
});

test('a runtime whose install script npm skipped is named as such', async () => {
  const app = join(root, 'scriptless');
  const launcher = await installLauncher(app);
  await installRuntime(app, '24.3.0', false);
  const ended = await startOnOldNode(launcher, ['--version']).ended;
  assert.match(ended.stderr, /node@24\.3\.0 is installed without its executable; .*npm rebuild node .*\n$/);
  assert.equal(ended.exit_code, 78);
});
