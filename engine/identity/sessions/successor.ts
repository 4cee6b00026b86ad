import { hkdfSync } from 'node:crypto';
import { CompactEncrypt, compactDecrypt } from 'jose';

const KEY_BYTES = 32;
const encoder = new TextEncoder();

/**
 * Encrypts a refresh token under the secret that it is given for, the refresh token that it replaces or a device code, as a compact
 * JWE (RFC 7516): who sends that again can be given the same once more, by any replica and whatever its keys, and the database
 * alone gives it to nobody.
 */
export function sealSuccessor(successor: string, replaced: string): Promise<string> {
  return new CompactEncrypt(encoder.encode(successor))
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
    .encrypt(keyOf(replaced));
}

/** The refresh token that `sealSuccessor` sealed. */
export async function openSuccessor(sealed: string, replaced: string): Promise<string> {
  const { plaintext } = await compactDecrypt(sealed, keyOf(replaced), {
    keyManagementAlgorithms: ['dir'],
    contentEncryptionAlgorithms: ['A256GCM'],
  });
  return new TextDecoder().decode(plaintext);
}

function keyOf(secret: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', 'appscli refresh token: successor', KEY_BYTES));
}
