import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * An access token is `gw_`, 43 characters that encode 256 random bits, and 6 that encode the CRC-32 of all before them:
 * a scanner recognises a leaked one, and a typo is told from an unknown token without a database.
 */
const PREFIX = 'gw_';
const RANDOM_BYTES = 32;
const RANDOM_CHARS = 43;
const CHECK_CHARS = 6;
/** Begins a service token, which opens the admin API, and is made like an access token otherwise. */
const SERVICE_PREFIX = 'gws_';
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const shapeOf = (prefix: string) => new RegExp(`^${prefix}[0-9A-Za-z]{${RANDOM_CHARS + CHECK_CHARS}}$`);
const SHAPE = shapeOf(PREFIX);
const SERVICE_SHAPE = shapeOf(SERVICE_PREFIX);
/** Enough to recognise one's own token in a list, and too little to help anybody guess it. */
const SHOWN_CHARS = 4;
const ID_BYTES = 9;

/** Channel on which every created or revoked token is announced by its hash. */
export const TOKENS_CHANNEL = 'appscli_tokens';

/** Makes a new access token: the only time it exists outside its owner's hands. */
export function generateToken(): string {
  return generate(PREFIX);
}

/** Makes a new service token: the only time it exists outside its holder's hands. */
export function generateServiceToken(): string {
  return generate(SERVICE_PREFIX);
}

function generate(prefix: string): string {
  const body = prefix + base62(BigInt(`0x${randomBytes(RANDOM_BYTES).toString('hex')}`), RANDOM_CHARS);
  return body + checksum(body);
}

/** Whether a text has the form of an access token and a matching checksum. */
export function isWellFormedToken(text: string): boolean {
  return SHAPE.test(text) && hasChecksum(text);
}

export function isServiceToken(text: string): boolean {
  return text.startsWith(SERVICE_PREFIX);
}

/** Whether a text has the form of a service token and a matching checksum. */
export function isWellFormedServiceToken(text: string): boolean {
  return SERVICE_SHAPE.test(text) && hasChecksum(text);
}

function hasChecksum(text: string): boolean {
  return checksum(text.slice(0, -CHECK_CHARS)) === text.slice(-CHECK_CHARS);
}

/** What is stored instead of a token: its SHA-256 in base64. The token has 256 random bits, so nothing slower is needed. */
export function hashToken(token: string): string {
  return hash('sha256', token, 'base64');
}

/** The first characters of a token, for lists. */
export function shownPart(token: string): string {
  return token.slice(0, token.indexOf('_') + 1 + SHOWN_CHARS);
}

export function generateTokenId(): string {
  return `tok_${base62(BigInt(`0x${randomBytes(ID_BYTES).toString('hex')}`), 13)}`;
}

export function generateServiceTokenId(): string {
  return `svc_${base62(BigInt(`0x${randomBytes(ID_BYTES).toString('hex')}`), 13)}`;
}

export function generateGrantId(): string {
  return `grt_${base62(BigInt(`0x${randomBytes(ID_BYTES).toString('hex')}`), 13)}`;
}

function checksum(body: string): string {
  let rest = crc32(body);
  let text = '';
  for (let i = 0; i < CHECK_CHARS; i++) {
    text = ALPHABET[rest % 62]! + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}

function base62(value: bigint, width: number): string {
  let rest = value;
  let text = '';
  while (rest > 0n) {
    text = ALPHABET[Number(rest % 62n)]! + text;
    rest /= 62n;
  }
  return text.padStart(width, ALPHABET[0]);
}
