import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createFindings } from '../../engine/base/source/findings.ts';
import { toValue } from '../../engine/base/source/node.ts';
import { readSource } from '../../engine/base/source/source.ts';
import { ownDirectory } from '../support/own-directory.ts';

const directory = ownDirectory();

function read(name: string, text: string) {
  const file = join(directory, name);
  writeFileSync(file, text);
  const findings = createFindings();
  const root = readSource(file, findings);
  return { file, root, findings, codes: findings.diagnostics().map(({ code }) => code) };
}

test('a file that is as it was is parsed once, and counts as read every time', () => {
  const first = read('same.yaml', 'a: 1\n');
  const second = read('same.yaml', 'a: 1\n');
  assert.equal(second.root, first.root);
  assert.deepEqual(second.findings.files(), [second.file]);
  assert.equal(second.findings.sources().get(second.file), 'a: 1\n');
});

test('a changed file is read anew, and mistakes are reported as long as they exist', () => {
  assert.deepEqual(toValue(read('changed.yaml', 'a: 1\n').root!), { a: 1 });
  assert.deepEqual(toValue(read('changed.yaml', 'a: 2\n').root!), { a: 2 });
  for (let time = 0; time < 2; time++) {
    const { root, codes } = read('changed.yaml', 'a: *b\n');
    assert.deepEqual({ root, codes }, { root: undefined, codes: ['C1010'] });
  }
  assert.deepEqual(toValue(read('changed.yaml', 'a: 1\n').root!), { a: 1 });
});

test('two files of one text each have marks of their own', () => {
  assert.equal(read('one.yaml', 'a: 1\n').root?.mark.file, join(directory, 'one.yaml'));
  assert.equal(read('other.yaml', 'a: 1\n').root?.mark.file, join(directory, 'other.yaml'));
});
