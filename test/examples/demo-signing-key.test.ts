import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { obtainSigningKey } from '../../examples/demo/signing-key.ts';
import { ownDirectory } from '../support/own-directory.ts';

const directory = ownDirectory();

test("the demo's signing key is private to its owner, and a damaged one is replaced", async () => {
  const file = join(directory, 'state', 'demo-signing-key');
  const key = await obtainSigningKey(file);
  assert.equal(await obtainSigningKey(file), key);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  for (const damaged of ['', 'short', `${key} `, key.slice(1)]) {
    writeFileSync(file, damaged);
    assert.notEqual(await obtainSigningKey(file), damaged);
    assert.match(readFileSync(file, 'utf8'), /^[\w-]{43}$/);
  }
});
