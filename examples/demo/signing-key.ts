import { randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

const KEY_BYTES = 32;
/** A shorter key is left of an interrupted start. */
const WHOLE_KEY = /^[\w-]{43}$/;

/** The key of an earlier start, so that its sessions stay valid, or a new one; stored in `file`, readable for the owner only. */
export async function obtainSigningKey(file: string): Promise<string> {
  const kept = await readFile(file, 'utf8').catch(() => '');
  if (WHOLE_KEY.test(kept)) return kept;
  const key = randomBytes(KEY_BYTES).toString('base64url');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, key, { mode: 0o600 });
  return key;
}
