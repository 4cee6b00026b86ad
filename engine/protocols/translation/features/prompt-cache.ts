/**
 * What chat completions and Responses say about caching of prompts.
 * @module
 */

import { isAbsent, objectAt, optional, textAt } from '../../read-json.ts';
import type { Json } from '../adapter.ts';
import type { CacheTtl, Conversation } from '../conversation.ts';
import type { Notes } from '../notes.ts';

/** Reads what a request says about its prompt as a whole. Raises invalid_request. */
export function readPromptCache(body: Json): Conversation['cache'] {
  const key = optional(body, 'prompt_cache_key', textAt);
  const retention = optional(body, 'prompt_cache_retention', textAt);
  const options = optional(body, 'prompt_cache_options', objectAt);
  if (key === undefined && retention === undefined && options === undefined) return undefined;
  return {
    ...(key !== undefined && { key }),
    ttl: retention === '24h' ? '1h' : '5m',
    ...(options !== undefined && { long_marks: options.ttl === '12h', only_marked: options.mode === 'explicit' }),
  };
}

/** Reads the mark of a part. Raises invalid_request. */
export function readBreakpoint(part: Json, param: string, notes: Notes): { readonly cache?: CacheTtl } {
  const mark = optional(part, 'prompt_cache_breakpoint', objectAt, `${param}.`);
  if (mark === undefined) return {};
  // Its lifetimes are others than the two there are here.
  if (!isAbsent(mark.ttl)) notes.note('prompt_cache_options');
  return { cache: mark.ttl === '12h' ? '1h' : '5m' };
}

/** Fields for a request that wants its prompt cached; what is not said is `undefined`. */
export function writePromptCache(cache: Conversation['cache']) {
  return {
    prompt_cache_key: cache?.key,
    prompt_cache_retention: cache?.ttl === '1h' ? '24h' : undefined,
  };
}
