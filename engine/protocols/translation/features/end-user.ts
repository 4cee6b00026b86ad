import { createHash } from 'node:crypto';
import { invalid, objectAt, optional, textAt } from '../../read-json.ts';
import type { Json } from '../adapter.ts';
import type { Notes } from '../notes.ts';

/** The longest identifier of an end user that upstreams of chat completions and Responses take. */
const USER_CHARS_MAX = 64;

/** The identifier of an end user as such upstreams take it: a longer one becomes its SHA-256, noted. */
export function shortUser(user: string, notes: Notes): string {
  if (user.length <= USER_CHARS_MAX) return user;
  notes.note('long_user');
  return createHash('sha256').update(user).digest('hex');
}

/** Who the end user is, by clients of chat completions and Responses, which have two fields for it. Raises invalid_request. */
export function readUser(body: Json, notes: Notes): string | undefined {
  const user = optional(body, 'user', textAt);
  const identifier = optional(body, 'safety_identifier', textAt);
  if (user !== undefined && identifier !== undefined && user !== identifier) notes.note('second_user');
  return user ?? identifier;
}

/** `metadata` of a request; `undefined` without any. Raises invalid_request. */
export function readMetadata(body: Json): Readonly<Record<string, string>> | undefined {
  const metadata = optional(body, 'metadata', objectAt) ?? {};
  const values = Object.values(metadata);
  // Keys are the client's words and stay out of the error.
  if (!values.every((value) => typeof value === 'string')) throw invalid('metadata', 'must have strings as values');
  return values.length === 0 ? undefined : (metadata as Readonly<Record<string, string>>);
}
