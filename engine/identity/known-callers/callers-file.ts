import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CompactEncrypt, compactDecrypt, errors } from 'jose';
import type { KeptEndings } from '../sessions/revocations.ts';
import type { KeptToken } from '../tokens/known-token.ts';
import type { SealingKey } from './sealing-keys.ts';

/** What a gateway keeps of its callers. */
export interface KeptCallers {
  /** The database that knows them. */
  readonly database_id: string;
  readonly tokens: readonly KeptToken[];
  /** Sessions that were ended; absent where the list was never read. */
  readonly ended_sessions?: KeptEndings | undefined;
}

/** What a file turned out to be. */
export type ReadCallers =
  | { readonly kept: KeptCallers }
  | { readonly problem: 'missing' | 'unreadable' | 'sealed_with_another_secret' };

/** Another version of the program knows others. */
const FORMAT = 'appscli-known-callers+1';
const HEADER = { alg: 'dir', enc: 'A256GCM', typ: FORMAT };
const OPENED = { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] };
/** Longer than any that is written. */
const FILE_BYTES_MAX = 16 * 1_048_576;

/**
 * The file of a database in a directory. Which database it is nobody can say while it is away, so the name goes by its
 * address; what is in the file goes by its id.
 */
export function callersFile(directory: string, address: string): string {
  const name = createHash('sha256').update(address).digest('hex').slice(0, 16);
  return join(directory, `known-callers-${name}.sealed`);
}

/** Replaces the file in one step by one that only this account can read. Raises what the disk raises. */
export async function writeCallers(path: string, kept: KeptCallers, { id, key }: SealingKey): Promise<void> {
  const sealed = await new CompactEncrypt(new TextEncoder().encode(JSON.stringify(kept)))
    .setProtectedHeader({ ...HEADER, kid: id })
    .encrypt(key);
  await mkdir(join(path, '..'), { recursive: true, mode: 0o700 });
  const beside = `${path}.${process.pid}.new`;
  try {
    const file = await open(beside, 'w', 0o600);
    try {
      await file.writeFile(sealed);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true }).catch(() => {});
    throw error;
  }
}

/** Reads a file that one of the keys sealed. Never rejects. */
export async function readCallers(path: string, keys: readonly SealingKey[]): Promise<ReadCallers> {
  try {
    if ((await stat(path)).size > FILE_BYTES_MAX) return { problem: 'unreadable' };
    const { plaintext, protectedHeader } = await compactDecrypt(
      await readFile(path, 'utf8'),
      ({ kid }: { readonly kid?: string }) => {
        const found = keys.find(({ id }) => id === kid);
        if (found === undefined) throw new errors.JWEDecryptionFailed();
        return found.key;
      },
      OPENED,
    );
    if (protectedHeader.typ !== FORMAT) return { problem: 'unreadable' };
    return { kept: JSON.parse(new TextDecoder().decode(plaintext)) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { problem: 'missing' };
    return { problem: error instanceof errors.JWEDecryptionFailed ? 'sealed_with_another_secret' : 'unreadable' };
  }
}

/** Leaves nothing of a file. Never rejects. */
export async function removeCallers(path: string): Promise<void> {
  await rm(path, { force: true }).catch(() => {});
}
