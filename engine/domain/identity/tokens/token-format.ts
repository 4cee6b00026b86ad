import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * An access token is `gw_`, 43 characters that encode 256 random bits, and 6 that encode the CRC-32 of all before them:
 * secret scanners recognise a leaked one, and a typo is detected without a database. A service token (for the admin API) has the same
 * form with the prefix `gws_`.
 */
const PREFIXES = { access: 'gw_', service: 'gws_' } as const;
const RANDOM_BYTES = 32;
const RANDOM_CHARS = 43;
const CHECK_CHARS = 6;
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const SHAPE = new RegExp(`^gws?_[0-9A-Za-z]{${RANDOM_CHARS + CHECK_CHARS}}$`);
/** Displayed prefix: enough to recognise a token in a list, too little to guess it. */
const SHOWN_CHARS = 4;
const ID_BYTES = 9;
const ID_CHARS = 13;

/** NOTIFY channel with the hashes of created and revoked tokens. */
export const TOKENS_CHANNEL = 'appscli_tokens';

type TokenKind = keyof typeof PREFIXES;

export function generateToken(kind: TokenKind = 'access'): string {
  const body = PREFIXES[kind] + base62(randomBytes(RANDOM_BYTES), RANDOM_CHARS);
  return body + checksum(body);
}

/** Makes a new token with its stored form. */
export function newToken(kind: TokenKind) {
  const token = generateToken(kind);
  const prefix = token.slice(0, PREFIXES[kind].length + SHOWN_CHARS);
  return { token, id: generateId(kind === 'access' ? 'tok' : 'svc'), prefix, hash: hashToken(token) };
}

const isWellFormed = (text: string, kind: TokenKind): boolean =>
  text.startsWith(PREFIXES[kind]) &&
  SHAPE.test(text) &&
  checksum(text.slice(0, -CHECK_CHARS)) === text.slice(-CHECK_CHARS);

export const isWellFormedToken = (text: string): boolean => isWellFormed(text, 'access');
export const isWellFormedServiceToken = (text: string): boolean => isWellFormed(text, 'service');

export function isServiceToken(text: string): boolean {
  return text.startsWith(PREFIXES.service);
}

/** The stored hash of a token: SHA-256 in base64. A token has 256 random bits, so no slow hash is needed. */
export function hashToken(token: string): string {
  return hash('sha256', token, 'base64');
}

const generateId = (prefix: string): string => `${prefix}_${base62(randomBytes(ID_BYTES), ID_CHARS)}`;
export const generateGrantId = (): string => generateId('grt');

function checksum(body: string): string {
  // Hot path: no BigInt.
  let rest = crc32(body);
  let text = '';
  for (let i = 0; i < CHECK_CHARS; i++) {
    text = ALPHABET[rest % 62]! + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}

function base62(bytes: Buffer, width: number): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`);
  let text = '';
  while (rest > 0n) {
    text = ALPHABET[Number(rest % 62n)]! + text;
    rest /= 62n;
  }
  return text.padStart(width, ALPHABET[0]);
}
