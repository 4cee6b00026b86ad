import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { SessionKeys } from './session-keys.ts';

/** Tells secrets that this gateway handed out from made-up ones, without asking the database. */
export interface Marks {
  /** What is put behind a secret: 16 characters in base64url. */
  of(secret: string): string;
  /** Whether a text ends with its mark, of any key in use. Secrets from before there were marks have none. */
  fit(text: string): boolean;
}

/** Of the 256 bits of an HMAC-SHA256: who guesses one has a secret that the database does not know. */
const MARK_BYTES = 12;
const MARK_CHARS = 16;

/** Creates the marks of a configuration's keys. */
export function createMarks({ current, all }: Pick<SessionKeys, 'current' | 'all'>): Marks {
  const keyOf = (key: SessionKeys['current']) => createSecretKey(key.derive('mark'));
  const signing = keyOf(current);
  const keys = [...all.values()].map(keyOf);
  return {
    of: (secret) => markOf(secret, signing).toString('base64url'),
    fit(text) {
      const secret = text.slice(0, -MARK_CHARS);
      const mark = Buffer.from(text.slice(-MARK_CHARS), 'base64url');
      return mark.length === MARK_BYTES && keys.some((key) => timingSafeEqual(mark, markOf(secret, key)));
    },
  };
}

function markOf(secret: string, key: KeyObject): Buffer {
  return createHmac('sha256', key).update(secret).digest().subarray(0, MARK_BYTES);
}
