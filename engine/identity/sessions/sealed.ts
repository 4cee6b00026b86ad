import { CompactEncrypt, compactDecrypt, errors } from 'jose';
import { type KeyHolders, NO_OTHER_HOLDERS } from './key-holders.ts';
import type { SessionKeys } from './session-keys.ts';
import type { SealPurpose } from './session-tokens.ts';

/** Longest sealed text that is opened, in characters: a provider's tokens are in there, and they can be long. */
const MAX_CHARS = 131_072;

const use = (purpose: SealPurpose) => `seal ${purpose}`;

/** Encrypts a value that survives JSON, as a compact JWE (RFC 7516). */
export function sealWith(keys: SessionKeys, value: object, purpose: SealPurpose): Promise<string> {
  return new CompactEncrypt(new TextEncoder().encode(JSON.stringify(value)))
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: keys.current.id })
    .encrypt(keys.current.derive(use(purpose)));
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
  try {
    const { plaintext } = await compactDecrypt(
      sealed,
      async ({ kid }) => {
        const key = keys.all.get(String(kid));
        if (key !== undefined) return key.derive(use(purpose));
        await demandUnknown(String(kid));
        throw new errors.JWEDecryptionFailed();
      },
      { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] },
    );
    return JSON.parse(new TextDecoder().decode(plaintext));
  } catch (error) {
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}
