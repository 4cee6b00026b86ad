import { hkdfSync } from 'node:crypto';
import { CompactEncrypt, compactDecrypt, errors } from 'jose';
import { type KeyHolders, NO_OTHER_HOLDERS } from './key-holders.ts';
import type { SessionKeys } from './session-keys.ts';

/** What a secret is sealed for; one purpose can't open what was sealed for another. */
export type SealPurpose = 'provider-grant' | 'sign-in-attempt';

/** Longest sealed text that is opened, in characters: a provider's tokens are in there, and they can be long. */
const MAX_CHARS = 131_072;
const KEY_BYTES = 32;
const OPENED = { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] };

const use = (purpose: SealPurpose) => `seal ${purpose}`;

/** Encrypts a value that survives JSON, as a compact JWE (RFC 7516). */
export function sealWith(keys: SessionKeys, value: object, purpose: SealPurpose): Promise<string> {
  return encrypt(JSON.stringify(value), keys.current.derive(use(purpose)), { kid: keys.current.id });
}

/**
 * The value that was sealed; `undefined` when it was not sealed with one of the keys for this purpose. Raises
 * temporarily_unavailable and store_unavailable, as `demandUnknown` does.
 * @param key_holders are asked about a key that is not among these.
 */
export async function openWith(
  keys: SessionKeys,
  sealed: string,
  purpose: SealPurpose,
  { demandUnknown }: Pick<KeyHolders, 'demandUnknown'> = NO_OTHER_HOLDERS,
): Promise<unknown> {
  if (sealed.length > MAX_CHARS) return undefined;
  const keyNamed = async ({ kid }: { readonly kid?: string }) => {
    const key = keys.all.get(String(kid));
    if (key !== undefined) return key.derive(use(purpose));
    await demandUnknown(String(kid));
    throw new errors.JWEDecryptionFailed();
  };
  try {
    const { plaintext } = await compactDecrypt(sealed, keyNamed, OPENED);
    return JSON.parse(new TextDecoder().decode(plaintext));
  } catch (error) {
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}

/**
 * Encrypts a refresh token under the secret that it is given for, the refresh token that it replaces or a device code: who
 * sends that again can be given the same once more, by any replica and whatever its keys, and the database alone gives it to
 * nobody.
 */
export function sealSuccessor(successor: string, replaced: string): Promise<string> {
  return encrypt(successor, successorKey(replaced));
}

/** The refresh token that `sealSuccessor` sealed. */
export async function openSuccessor(sealed: string, replaced: string): Promise<string> {
  const { plaintext } = await compactDecrypt(sealed, successorKey(replaced), OPENED);
  return new TextDecoder().decode(plaintext);
}

function successorKey(secret: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', 'appscli refresh token: successor', KEY_BYTES));
}

function encrypt(text: string, key: Uint8Array, header: { readonly kid?: string } = {}): Promise<string> {
  return new CompactEncrypt(new TextEncoder().encode(text))
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', ...header })
    .encrypt(key);
}
