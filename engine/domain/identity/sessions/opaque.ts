import { createHmac, createSecretKey, hash, hkdfSync, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import { CompactEncrypt, compactDecrypt, errors } from 'jose';
import { type KeyHolders, NO_OTHER_HOLDERS } from './key-holders.ts';
import type { SessionKeys } from './session-keys.ts';

const REFRESH_PREFIX = 'gwr_';
const SECRET_BYTES = 32;
const ID_BYTES = 10;
/** 256 bits in their one spelling: the last character has two bits to spare, which are zero. A mark may follow. */
const RANDOM = '[\\w-]{42}[AEIMQUYcgkosw048](?:[\\w-]{16})?';
const REFRESH_TOKEN = new RegExp(`^${REFRESH_PREFIX}${RANDOM}$`);
const SECRET = new RegExp(`^${RANDOM}$`);

/** Letters of user codes: no vowels, so that no words come about (RFC 8628 section 6.1). */
const CODE_LETTERS = 'BCDFGHJKLMNPQRSTVWXZ';
const CODE_CHARS = 8;
const CODE = new RegExp(`^[${CODE_LETTERS}]{${CODE_CHARS}}$`);
/** What people put between the letters of a code, and what programs make of a dash. */
const BETWEEN = /[\s._\p{Pd}\u00ad\u2212]/gu;
/** Longer than any way to type a code. */
export const TYPED_CHARS = 40;

/** A new refresh token: 256 random bits behind a prefix that scanners recognise. */
export function makeRefreshToken(marks?: Marks): string {
  return marked(REFRESH_PREFIX + random(), marks);
}

export function isRefreshToken(text: string): boolean {
  return REFRESH_TOKEN.test(text);
}

/** 256 random bits in base64url, such as a device code. */
export function makeSecret(marks?: Marks): string {
  return marked(random(), marks);
}

function random(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}

function marked(secret: string, marks: Marks | undefined): string {
  return marks === undefined ? secret : secret + marks.of(secret);
}

/** Whether a text has the form `makeSecret` gives. */
export function isSecret(text: string): boolean {
  return SECRET.test(text);
}

/** What is stored instead of a secret: its SHA-256. The secrets here have 256 random bits, so nothing slower is needed. */
export function hashSecret(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

export function makeId(prefix: 'ses' | 'dev' | 'jwt'): string {
  return `${prefix}_${randomBytes(ID_BYTES).toString('hex')}`;
}

/** A new user code as it is stored: eight letters. */
export function makeUserCode(): string {
  let code = '';
  while (code.length < CODE_CHARS) {
    for (const byte of randomBytes(CODE_CHARS)) {
      // 240 is the largest multiple of 20 a byte reaches: beyond it the first letters would come up more often.
      if (byte < 240 && code.length < CODE_CHARS) code += CODE_LETTERS[byte % CODE_LETTERS.length];
    }
  }
  return code;
}

/** A user code as it is shown: WDJB-MJHT. */
export function shownUserCode(code: string): string {
  return `${code.slice(0, CODE_CHARS / 2)}-${code.slice(CODE_CHARS / 2)}`;
}

/** Whether a text could be a user code, however it is typed: eight letters of ASCII. What could not is no guess. */
export function isCodeLike(typed: string): boolean {
  return typed.length <= TYPED_CHARS && /^[A-Za-z]{8}$/.test(typed.replace(BETWEEN, ''));
}

/** The stored form of a code as a person types it; `undefined` for what can't be a code. */
export function readUserCode(typed: string): string | undefined {
  const code = typed.replace(BETWEEN, '').toUpperCase();
  // Some letters beyond ASCII turn into ASCII ones in upper case.
  return isCodeLike(typed) && CODE.test(code) ? code : undefined;
}

/** Of the 256 bits of an HMAC-SHA256: who guesses one has a secret that the database does not know. */
const MARK_BYTES = 12;
const MARK_CHARS = 16;

/** Creates the marks of a configuration's keys. */
export function createMarks({ current, all }: Pick<SessionKeys, 'current' | 'all'>) {
  const keyOf = (key: SessionKeys['current']) => createSecretKey(key.derive('mark'));
  const signing = keyOf(current);
  const keys = [...all.values()].map(keyOf);
  return {
    /** What is put behind a secret: 16 characters in base64url. */
    of: (secret: string): string => markOf(secret, signing).toString('base64url'),
    /** Whether a text ends with its mark, of any key in use. Secrets from before there were marks have none. */
    fit(text: string): boolean {
      const secret = text.slice(0, -MARK_CHARS);
      const mark = Buffer.from(text.slice(-MARK_CHARS), 'base64url');
      return mark.length === MARK_BYTES && keys.some((key) => timingSafeEqual(mark, markOf(secret, key)));
    },
  };
}

/** Tells secrets that this gateway handed out from made-up ones, without asking the database. */
export type Marks = ReturnType<typeof createMarks>;

function markOf(secret: string, key: KeyObject): Buffer {
  return createHmac('sha256', key).update(secret).digest().subarray(0, MARK_BYTES);
}

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
