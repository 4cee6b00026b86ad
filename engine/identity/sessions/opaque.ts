import { hash, randomBytes } from 'node:crypto';
import type { Marks } from './marks.ts';

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
const ASCII_LETTERS = /^[A-Za-z]+$/;
/** What people put between the letters of a code: spaces, and the dashes that programs make of a dash. */
const BETWEEN = /[\s\u002d\u00ad\u2010-\u2015\u2212_.]+/g;
const LONGEST_TYPED = 64;

/** A new refresh token: 256 random bits behind a prefix that scanners recognise. */
export function makeRefreshToken(marks?: Marks): string {
  return marked(REFRESH_PREFIX + random(), marks);
}

/** Whether a text has the form of a refresh token. */
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

/** A new public identifier. */
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

/** The stored form of a code as a person types it; `undefined` for what can't be a code. */
export function readUserCode(typed: string): string | undefined {
  if (typed.length > LONGEST_TYPED) return undefined;
  const letters = typed.replace(BETWEEN, '');
  // Some letters beyond ASCII turn into ASCII ones in upper case.
  if (!ASCII_LETTERS.test(letters)) return undefined;
  const code = letters.toUpperCase();
  return CODE.test(code) ? code : undefined;
}
