import type { TextKind } from '../../contract/rewriting.ts';
import { isObject } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { Path } from './edit-json.ts';

/** A text that comes in pieces. */
export interface TextId {
  /** Tells it from every other of the answer. */
  readonly key: string;
  /** What it is part of: a content block, a choice, an item. */
  readonly part: unknown;
  readonly kind: TextKind;
}

/**
 * What stands at a place of an event or a document.
 * `text`: a whole text. `json`: a JSON text as a string. `piece` and `json_piece`: the next piece of one; `last` where nothing
 * follows. `values`: a value whose strings are texts. `proof`: what proves a text, which was whole, or came in pieces.
 * `put`: something that would tell the texts once more, and what takes its place. `skip`: nothing here is part of the answer.
 */
export type Place =
  | { readonly is: 'text' | 'json' | 'values'; readonly kind: TextKind }
  | { readonly is: 'piece' | 'json_piece'; readonly id: TextId; readonly last?: boolean }
  | { readonly is: 'proof'; readonly of: string | TextId }
  | { readonly is: 'put'; readonly json: string }
  | { readonly is: 'skip' };

/** Where the texts of an answer stand, in one protocol. */
export interface AnswerTexts {
  /** What stands at a place; `undefined` for what has no text, or has some deeper inside. */
  placeOf(path: Path, event: Json): Place | undefined;
  /** Whether a text that came in pieces has ended before this event. */
  endsBefore(event: Json, id: TextId): boolean;
  /** One more piece of a text that came with `event`, there at `path`. */
  pieceLike(event: Json, path: Path, text: string): Json;
  /** The field in which events are counted. */
  readonly counter?: string;
  /** Events with the same name say different texts; those with another say the same once more. */
  readonly repeats?: boolean;
}

/** Keys of strings that are no texts: names, identifiers, words of the protocol, and bytes in letters. */
const NO_TEXTS: ReadonlySet<string | undefined> = new Set([
  'b64_json',
  'call_id',
  'code',
  'container_id',
  'conversation',
  'data',
  'encrypted_content',
  'event_id',
  'file_id',
  'finish_reason',
  'format',
  'id',
  'inference_geo',
  'item_id',
  'media_type',
  'model',
  'name',
  'namespace',
  'native_finish_reason',
  'object',
  'obfuscation',
  'param',
  'phase',
  'previous_response_id',
  'provider',
  'reasoning_opaque',
  'request_id',
  'response_id',
  'role',
  'service_tier',
  'signature',
  'status',
  'stop_reason',
  'stop_sequence',
  'system_fingerprint',
  'thought_signature',
  'thought_signatures',
  'tool_use_id',
  'type',
]);

/** The innermost key of a path. */
export function keyOf(path: Path): string | undefined {
  return path.findLast((step) => typeof step === 'string');
}

/** A text wherever a string is not known to be none, so that what nobody has heard of is looked through as well. */
export function textUnlessKnown(path: Path, kind: TextKind = 'other'): Place | undefined {
  return NO_TEXTS.has(keyOf(path)) ? undefined : { is: 'text', kind };
}

/** The value at the end of a path. */
export function valueAt(value: unknown, path: Path): unknown {
  let found = value;
  for (const step of path) found = isObject(found) || Array.isArray(found) ? (found as Json)[step] : undefined;
  return found;
}

/** Answers of which nothing is known. Of their streams nobody could say which strings go on in the next event. */
export const unknownTexts: AnswerTexts = {
  placeOf: (path) => textUnlessKnown(path),
  endsBefore: () => false,
  pieceLike: (event) => event,
};
