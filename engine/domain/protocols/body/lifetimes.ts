import type { WantedTexts } from '../../../base/contract/request-body.ts';

/** Prompt cache lifetimes in requests: their places by API, and their shorter values. */

/** A value for an hour or more, and its shorter replacement. */
export interface Lifetime {
  readonly long: string;
  readonly short: string;
}

type Member = NonNullable<ReturnType<WantedTexts<Lifetime>['keys']['get']>>;
type Entry = readonly [key: string, member: Member];

const HOUR: Lifetime = { long: '1h', short: '5m' };
const HALF_A_DAY: Lifetime = { long: '12h', short: '30m' };
const DAY: Lifetime = { long: '24h', short: 'in_memory' };

interface Places {
  /** Top-level keys in addition to `tools`; the ones that clients mark most often first. */
  readonly prompt: readonly string[];
  /** Keys of blocks with nested blocks. */
  readonly within: readonly string[];
}

const ttl = (found: Lifetime): Member => ({ within: { keys: new Map([['ttl', { found }]]) } });

/** In every API: servers of other APIs that reach Messages models read it as well. */
const CACHE_CONTROL: Entry = ['cache_control', ttl(HOUR)];
const CACHING: Entry = ['caching', ttl(HOUR)];
const BREAKPOINT: Entry = ['prompt_cache_breakpoint', ttl(HALF_A_DAY)];
const OPTIONS: Entry = ['prompt_cache_options', ttl(HALF_A_DAY)];
const RETENTION: Entry = ['prompt_cache_retention', { found: DAY }];

function blocks({ within }: Places, ...marks: readonly Entry[]): WantedTexts<Lifetime> {
  const keys = new Map<string, Member>(marks);
  const block = { keys };
  for (const key of within) keys.set(key, { within: block });
  return block;
}

function request(places: Places, top: readonly Entry[], marks: readonly Entry[]): WantedTexts<Lifetime> {
  const keys = new Map<string, Member>(top);
  const prompt = { within: blocks(places, ...marks) };
  for (const key of places.prompt) keys.set(key, prompt);
  return { keys: keys.set('tools', { within: blocks(places, ...marks, CACHING) }) };
}

export const MESSAGES_LIFETIMES = request(
  { prompt: ['system', 'messages'], within: ['content', 'source', 'tool'] },
  [CACHE_CONTROL],
  [CACHE_CONTROL],
);

export const COMPAT_LIFETIMES = request(
  { prompt: ['messages', 'input'], within: ['content', 'function', 'output'] },
  [CACHE_CONTROL, OPTIONS, RETENTION],
  [CACHE_CONTROL, BREAKPOINT],
);
