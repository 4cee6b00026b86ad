/**
 * Identifiers of tool calls that not every protocol takes: some servers put a signature into them, with any characters and as long
 * as it is. Clients get identifiers of few characters; those that come back are the upstream's own again.
 * @module
 */

import { createHash } from 'node:crypto';
import type { Conversation, Part } from '../conversation.ts';

/** The longest identifier that every API takes. */
const CHARS_MAX = 64;

/** How an identifier begins that stands for one of other characters. */
const PREFIX = 'gwid_';

const isPlain = (id: string): boolean => /^[A-Za-z0-9_-]+$/.test(id) && !id.startsWith(PREFIX);

/** The identifier in letters, digits, `_` and `-`, from which `decodeCallId` has it again. */
export function encodeCallId(id: string): string {
  return isPlain(id) ? id : PREFIX + Buffer.from(id).toString('base64url');
}

/** What `encodeCallId` made this of; another identifier as it is. */
export function decodeCallId(id: string): string {
  if (!id.startsWith(PREFIX)) return id;
  const decoded = Buffer.from(id.slice(PREFIX.length), 'base64url').toString();
  return decoded !== '' && encodeCallId(decoded) === id ? decoded : id;
}

/** A short name for an identifier that is too long for some API, by a hash; a short one as it is. */
export function shortCallId(id: string): string {
  if (encodeCallId(id).length <= CHARS_MAX) return id;
  return `call_${createHash('sha256').update(id).digest('hex').slice(0, 40)}`;
}

/** The conversation with identifiers of calls as upstreams gave them. */
export function decodeCallIds(conversation: Conversation): Conversation {
  const decode = (part: Part): Part => {
    if (part.kind === 'tool_call') return { ...part, id: decodeCallId(part.id) };
    return part.kind === 'tool_result' ? { ...part, call_id: decodeCallId(part.call_id) } : part;
  };
  const isEncoded = (part: Part) =>
    (part.kind === 'tool_call' && part.id.startsWith(PREFIX)) ||
    (part.kind === 'tool_result' && part.call_id.startsWith(PREFIX));
  if (!conversation.turns.some(({ parts }) => parts.some(isEncoded))) return conversation;
  const turns = conversation.turns.map((turn) => ({ ...turn, parts: turn.parts.map(decode) }));
  return { ...conversation, turns };
}
