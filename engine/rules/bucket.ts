import { hash } from 'node:crypto';

/** Most buckets: every one of them is then still equally likely to within a millionth of a percent. */
export const BUCKETS_MAX = 1_000_000;

/** Hex digits of a hash that a double holds exactly. */
const DIGITS = 13;

/**
 * The bucket of a text, from 0 to `count` - 1: the first 52 bits of SHA-256 over the salt, a zero byte and the text, modulo
 * the count. The same in every process and every version.
 */
export function bucketOf(text: string, salt: string, count: number): number {
  return Number.parseInt(hash('sha256', `${salt}\0${text}`, 'hex').slice(0, DIGITS), 16) % count;
}
