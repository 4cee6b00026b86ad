/** The shipped pipelines and examples: each has tests, every case holds, and together they see every decision. */
import assert from 'node:assert/strict';
import { globSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { createFindings } from '../engine/base/source/findings.ts';
import { readSource } from '../engine/base/source/source.ts';
import { splitPipelines } from '../engine/pipeline/load/compose.ts';
import { cli } from './cli/support.ts';

const ROOT = join(import.meta.dirname, '..');

test('every shipped pipeline and every example has tests', () => {
  const findings = createFindings();
  const files = readdirSync(join(ROOT, 'pipelines'));
  const written = files.filter((name) => name.endsWith('.yaml') && !name.endsWith('.test.yaml'));
  const names = written
    .map((name) => join(ROOT, 'pipelines', name))
    .flatMap((file) => splitPipelines(file, readSource(file, findings)!, findings))
    .map(({ name }) => name);
  const found = files.filter((name) => name.endsWith('.test.yaml')).sort();
  assert.deepEqual(found, names.map((name) => `${name}.test.yaml`).sort());
  for (const example of globSync('examples/*/gateway.yaml', { cwd: ROOT })) {
    const tests = globSync('**/*.test.yaml', { cwd: join(ROOT, dirname(example)) });
    assert.ok(tests.length > 0, example);
  }
});

test('every case holds, and every decision is seen', async () => {
  const words = ['test', 'pipelines', 'examples', '--coverage', '--min-coverage', '100'];
  const { exit_code, stdout, stderr } = await cli(words, { cwd: ROOT });
  assert.equal(exit_code, 0, `${stdout}\n${stderr}`);
});
