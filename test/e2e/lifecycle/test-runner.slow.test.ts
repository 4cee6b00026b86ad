import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const directory = mkdtempSync(join(tmpdir(), 'appscli-runner-'));

function write(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

/** Runs test files as `npm test` does. */
function runTests(...given: string[]): { readonly status: number | null; readonly printed: string } {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout } = spawnSync(process.execPath, ['test/run.ts', ...given], { encoding: 'utf8', env });
  return { status, printed: stdout };
}

test('a test file that ends its process, or cannot be loaded, is named and fails the run', () => {
  const ends = write('ends.test.mjs', "import { test } from 'node:test';\ntest('ends', () => process.exit(0));\n");
  const throws = write('throws.test.mjs', "throw new Error('no such thing');\n");
  const { status, printed } = runTests(ends, throws);
  assert.equal(status, 1, printed);
  assert.ok(printed.includes(`✖ ${ends}: its process ended (0) before the file was done`), printed);
  assert.ok(printed.includes(`✖ ${throws}`) && printed.includes('no such thing'), printed);
  assert.match(printed, /\n0 passed, 0 failed, and not everything was run: see above\n/);
});

test('a run whose processes take no file fails', () => {
  const { status, printed } = runTests('--test-name-pattern', 'anything');
  assert.equal(status, 1, printed);
  assert.match(printed, /\n✖ a process ended \(0\) before it took a file; write options as --name=value\n/);
});
