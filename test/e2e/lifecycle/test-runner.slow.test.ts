import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { until } from '../../support/until.ts';

const directory = mkdtempSync(join(tmpdir(), 'appscli-runner-'));

function write(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

const { NODE_TEST_CONTEXT: _, ...env } = process.env;

/** Runs test files as `npm test` does. */
function runTests(...input: string[]): { readonly status: number | null; readonly printed: string } {
  const { status, stdout } = spawnSync(process.execPath, ['test/run.ts', ...input], { encoding: 'utf8', env });
  return { status, printed: stdout };
}

/** A test file that starts a process in a session of its own and writes down whose it is, who runs the file, and where. */
function startsProcess(name: string, then: string): { readonly file: string; readonly notes: string } {
  const notes = join(directory, `${name}.json`);
  const text = `
    import { spawn } from 'node:child_process';
    import { writeFileSync } from 'node:fs';
    import { tmpdir } from 'node:os';
    import { test } from 'node:test';
    test('starts a process', async () => {
      const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' });
      child.unref();
      writeFileSync(${JSON.stringify(notes)}, JSON.stringify({ child: child.pid, worker: process.pid, tmp: tmpdir() }));
      ${then}
    });`;
  return { file: write(`${name}.test.mjs`, text), notes };
}

function isRunning(pid: number): boolean {
  try {
    // One that has ended and waits for its parent is not running.
    return !/^\d+ \(.*\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

test('a test file that ends its process, or cannot be loaded, is named and fails the run', () => {
  const ends = write('ends.test.mjs', "import { test } from 'node:test';\ntest('ends', () => process.exit(0));\n");
  const throws = write('throws.test.mjs', "throw new Error('no such thing');\n");
  const { status, printed } = runTests(ends, throws);
  assert.equal(status, 1, printed);
  assert.ok(printed.includes(`✖ ${ends}: its process ended (0) before the file was done`), printed);
  const { printed: of_other } = runTests(throws);
  assert.ok(of_other.includes(`✖ ${throws}`) && of_other.includes('no such thing'), of_other);
  assert.match(printed, /\n0 passed, 0 failed, and not everything was run: see above\n/);
});

test('a run whose processes run no file fails', () => {
  const { status, printed } = runTests('--test-name-pattern', 'anything');
  assert.equal(status, 1, printed);
  assert.match(printed, /\n✖ a process ended \(0\) before it took a file; write options as --name=value\n/);
});

test('a seed reproduces randomness, is printed at both ends, and is rejected where unused', () => {
  const support = JSON.stringify(join(import.meta.dirname, '../../support/random.ts'));
  const names = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `test('${name}', () => {});`).join('\n');
  const file = write(
    'chance.test.mjs',
    `import { test } from 'node:test';\nimport { randomOf } from ${support};\ntest(\`drew \${randomOf('here')()}\`, () => {});\n${names}\n`,
  );
  const [one, same, other] = [7, 7, 8].map((seed) => runTests(file, `--seed=${seed}`).printed);
  const shape = (printed?: string) => printed?.match(/✔ (?:drew [\d.]+|\w)(?= \()/g);
  assert.equal(one?.match(/seed 7\b/g)?.length, 2, one);
  assert.equal(shape(one)?.length, 7, one);
  assert.deepEqual(shape(one), shape(same));
  assert.notDeepEqual(shape(one), shape(other));
  const { status } = runTests(file, '--seed=many');
  assert.equal(status, 64);
});

describe('the processes of a test', () => {
  test('and left behind is ended, named, and fails the run', () => {
    const { file, notes } = startsProcess('leaves', '');
    const { status, printed } = runTests(file);
    const { child } = JSON.parse(readFileSync(notes, 'utf8'));
    assert.equal(status, 1, printed);
    assert.match(printed, new RegExp(`\\n✖ tests left processes behind:\\n${child} .*setInterval`));
    assert.ok(!isRunning(child));
  });

  for (const signal of ['SIGINT', 'SIGTERM', 'SIGKILL'] as const) {
    test(`ends with the runner, on ${signal}`, async () => {
      const { file, notes } = startsProcess(
        `never-ends-${signal}`,
        'await new Promise(() => setInterval(() => {}, 1000));',
      );
      const runner = spawn(process.execPath, ['test/run.ts', file], { stdio: 'ignore', env });
      const ended = once(runner, 'close');
      await until('the test has started its process', () => existsSync(notes) && readFileSync(notes, 'utf8') !== '');
      const { child, worker, tmp } = JSON.parse(readFileSync(notes, 'utf8'));
      runner.kill(signal);
      await ended;
      await until('nothing of it is left', () => ![child, worker].some(isRunning) && !existsSync(tmp));
    });
  }
});
