import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readCertificates } from '../../../engine/base/kit/net/certificates.ts';
import { ownDirectory } from '../../support/own-directory.ts';

const directory = ownDirectory();

test('anything but a regular file of plausible size is rejected without waiting', () => {
  const pipe = join(directory, 'pipe');
  execFileSync('mkfifo', [pipe]);
  assert.throws(() => readCertificates(pipe), /^Error: is not a regular file$/);
  assert.throws(() => readCertificates('/dev/zero'), /is not a regular file/);
  assert.throws(() => readCertificates(directory), /is not a regular file/);
  const large = join(directory, 'large.pem');
  writeFileSync(large, Buffer.alloc(9 * 1024 * 1024));
  assert.throws(() => readCertificates(large), /larger than 8 MiB/);
  assert.throws(() => readCertificates(join(directory, 'missing.pem')), /can't be read: ENOENT/);
});
