/** Opaque secrets of sign-in (refresh tokens, device codes, user codes, cookies), their HMAC tags, and encryption at rest. @module */
import { createHmac, createSecretKey, hash, hkdfSync, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import { CompactEncrypt, compactDecrypt, errors } from 'jose';
import { type KeyHolders, NO_OTHER_HOLDERS } from './key-holders.ts';
import type { SessionKeys } from './session-keys.ts';

const REFRESH_PREFIX = 'gwr_';
const SECRET_BYTES = 32;
const ID_BYTES = 10;
/** 256 bits in canonical base64url: the two spare bits of the last character are zero. A tag may follow. */
const RANDOM = '[\\w-]{42}[AEIMQUYcgkosw048](?:[\\w-]{16})?';
const REFRESH_TOKEN = new RegExp(`^${REFRESH_PREFIX}${RANDOM}$`);
const SECRET = new RegExp(`^${RANDOM}$`);

/** Letters of user codes, without vowels to avoid words (RFC 8628 section 6.1). */
const CODE_LETTERS = 'BCDFGHJKLMNPQRSTVWXZ';
const CODE_CHARS = 8;
const CODE = new RegExp(`^[${CODE_LETTERS}]{${CODE_CHARS}}$`);
/** Separators that people and programs put into a code. */
const BETWEEN = /[\s._\p{Pd}\u00ad\u2212]/gu;
/** Longest typed code. */
export const TYPED_CHARS = 40;

/** A new refresh token: 256 random bits behind a prefix that scanners recognise. */
export function makeRefreshToken(tags?: SecretTags): string {
  return tagged(REFRESH_PREFIX + random(), tags);
}

export function isRefreshToken(text: string): boolean {
  return REFRESH_TOKEN.test(text);
}

/** 256 random bits in base64url, such as a device code. */
export function makeSecret(tags?: SecretTags): string {
  return tagged(random(), tags);
}

function random(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}

function tagged(secret: string, tags: SecretTags | undefined): string {
  return tags === undefined ? secret : secret + tags.of(secret);
}

/** Whether a text has the form `makeSecret` gives. */
export function isSecret(text: string): boolean {
  return SECRET.test(text);
}

/** The stored hash of a secret: SHA-256. A secret has 256 random bits, so no slow hash is needed. */
export function hashSecret(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

export function makeId(prefix: 'ses' | 'dev' | 'jwt'): string {
  return `${prefix}_${randomBytes(ID_BYTES).toString('hex')}`;
}

export function makeUserCode(): string {
  let code = '';
  while (code.length < CODE_CHARS) {
    for (const byte of randomBytes(CODE_CHARS)) {
      // Bytes from 240 on would favour the first letters (240 is the largest multiple of 20).
      if (byte < 240 && code.length < CODE_CHARS) code += CODE_LETTERS[byte % CODE_LETTERS.length];
    }
  }
  return code;
}

export function shownUserCode(code: string): string {
  return `${code.slice(0, CODE_CHARS / 2)}-${code.slice(CODE_CHARS / 2)}`;
}

/** Whether a typed text has the form of a user code: eight ASCII letters. Other texts do not count as guesses. */
export function isCodeLike(typed: string): boolean {
  return typed.length <= TYPED_CHARS && /^[A-Za-z]{8}$/.test(typed.replace(BETWEEN, ''));
}

/** The stored form of a typed code; `undefined` for an impossible one. */
export function readUserCode(typed: string): string | undefined {
  const code = typed.replace(BETWEEN, '').toUpperCase();
  // Upper case turns some letters beyond ASCII into ASCII.
  return isCodeLike(typed) && CODE.test(code) ? code : undefined;
}

/** Truncated HMAC-SHA256. A guessed tag gains only a database lookup. */
const TAG_BYTES = 12;
const TAG_CHARS = 16;

export function createSecretTags({ current, all }: Pick<SessionKeys, 'current' | 'all'>) {
  const keyOf = (key: SessionKeys['current']) => createSecretKey(key.derive('mark'));
  const signing = keyOf(current);
  const keys = [...all.values()].map(keyOf);
  return {
    of: (secret: string): string => tagOf(secret, signing).toString('base64url'),
    /** Whether a text ends with its tag, by any key in use. */
    fit(text: string): boolean {
      const secret = text.slice(0, -TAG_CHARS);
      const tag = Buffer.from(text.slice(-TAG_CHARS), 'base64url');
      return tag.length === TAG_BYTES && keys.some((key) => timingSafeEqual(tag, tagOf(secret, key)));
    },
  };
}

export type SecretTags = ReturnType<typeof createSecretTags>;

function tagOf(secret: string, key: KeyObject): Buffer {
  return createHmac('sha256', key).update(secret).digest().subarray(0, TAG_BYTES);
}

/** Purpose of an encrypted value; each has its own key. */
export type SealPurpose = 'provider-grant' | 'sign-in-attempt';

/** Longest ciphertext in characters: tokens of a provider can be long. */
const MAX_CHARS = 131_072;
const KEY_BYTES = 32;
const OPENED = { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] };

const use = (purpose: SealPurpose) => `seal ${purpose}`;

export function sealWith(keys: SessionKeys, value: object, purpose: SealPurpose): Promise<string> {
  return encrypt(JSON.stringify(value), keys.current.derive(use(purpose)), { kid: keys.current.id });
}

/** Decrypts a value; `undefined` if none of the keys encrypted it for this purpose. Raises as `assertUnknown` does. */
export async function openWith(
  keys: SessionKeys,
  sealed: string,
  purpose: SealPurpose,
  { assertUnknown }: Pick<KeyHolders, 'assertUnknown'> = NO_OTHER_HOLDERS,
): Promise<unknown> {
  if (sealed.length > MAX_CHARS) return undefined;
  const keyNamed = async ({ kid }: { readonly kid?: string }) => {
    const key = keys.all.get(String(kid));
    if (key !== undefined) return key.derive(use(purpose));
    await assertUnknown(String(kid));
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

/** With a key from the secret it replaces: a retry gets the same token anywhere, and the database reveals nothing. */
export function sealSuccessor(successor: string, replaced: string): Promise<string> {
  return encrypt(successor, successorKey(replaced));
}

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
