import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let root: string | undefined;

/** A new directory, which is removed with this process. */
export function ownDirectory(): string {
  if (root === undefined) {
    root = realpathSync(mkdtempSync(join(tmpdir(), 'appscli-own-')));
    process.once('exit', () => rmSync(root!, { recursive: true, force: true }));
  }
  return mkdtempSync(join(root, 'd-'));
}
