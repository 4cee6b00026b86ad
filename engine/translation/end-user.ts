import { createHash } from 'node:crypto';
import type { Notes } from './notes.ts';

/** The longest identifier of an end user that upstreams of chat completions and Responses take. */
const USER_CHARS_MAX = 64;

/** The identifier of an end user as such upstreams take it: a longer one becomes its SHA-256, noted. */
export function shortUser(user: string, notes: Notes): string {
  if (user.length <= USER_CHARS_MAX) return user;
  notes.note('long_user');
  return createHash('sha256').update(user).digest('hex');
}
