/**
 * How long a request asks for its prompt to be kept: where each API reads that, and how it is made short.
 * @module
 */
import type { Protocol } from '../../contract/protocol.ts';
import type { WantedTexts } from '../../contract/request-body.ts';
import type { RequestBody } from '../../contract/stage.ts';
import type { Fields } from './fields.ts';

/** What asks for an hour or more, and the shorter lifetime to ask for. */
interface Lifetime {
  readonly long: string;
  readonly short: string;
}

type Member = NonNullable<ReturnType<WantedTexts<Lifetime>['keys']['get']>>;
type Entry = readonly [key: string, member: Member];

const HOUR: Lifetime = { long: '1h', short: '5m' };
const HALF_A_DAY: Lifetime = { long: '12h', short: '30m' };
const DAY: Lifetime = { long: '24h', short: 'in_memory' };

/** Where an API has the blocks of a prompt. Arguments and schemas are not there. */
interface Places {
  /** Keys at the top, beside `tools`; those that clients mark most often first. */
  readonly prompt: readonly string[];
  /** Keys of blocks under which there are more of them. */
  readonly within: readonly string[];
}

const MESSAGES: Places = { prompt: ['system', 'messages'], within: ['content', 'source', 'tool'] };
const COMPAT: Places = { prompt: ['messages', 'input'], within: ['content', 'function', 'output'] };

const ttl = (found: Lifetime): Member => ({ within: { keys: new Map([['ttl', { found }]]) } });

/** Every API has it: servers of the others that reach Messages models read it as well. */
const CACHE_CONTROL: Entry = ['cache_control', ttl(HOUR)];
/** On tools with which the provider reads something of its own. */
const CACHING: Entry = ['caching', ttl(HOUR)];
const BREAKPOINT: Entry = ['prompt_cache_breakpoint', ttl(HALF_A_DAY)];
const OPTIONS: Entry = ['prompt_cache_options', ttl(HALF_A_DAY)];
const RETENTION: Entry = ['prompt_cache_retention', { found: DAY }];

/** Blocks with these marks, and the blocks within them. */
function blocks({ within }: Places, ...marks: readonly Entry[]): WantedTexts<Lifetime> {
  const keys = new Map<string, Member>(marks);
  const block = { keys };
  for (const key of within) keys.set(key, { within: block });
  return block;
}

/** A request with these marks at its top, and others on its blocks. */
function request(places: Places, top: readonly Entry[], marks: readonly Entry[]): WantedTexts<Lifetime> {
  const keys = new Map<string, Member>(top);
  const prompt = { within: blocks(places, ...marks) };
  for (const key of places.prompt) keys.set(key, prompt);
  return { keys: keys.set('tools', { within: blocks(places, ...marks, CACHING) }) };
}

const OF_COMPAT = request(COMPAT, [CACHE_CONTROL, OPTIONS, RETENTION], [CACHE_CONTROL, BREAKPOINT]);

const LIFETIMES: Readonly<Record<Protocol, WantedTexts<Lifetime>>> = {
  messages: request(MESSAGES, [CACHE_CONTROL], [CACHE_CONTROL]),
  chat: OF_COMPAT,
  responses: OF_COMPAT,
};

/** Whether a parsed body asks for an hour or more where its API reads a lifetime. */
export function asksForHour(body: Fields, protocol: Protocol): boolean {
  return holdsLong(body, LIFETIMES[protocol]);
}

function holdsLong(value: object, wanted: WantedTexts<Lifetime>): boolean {
  if (Array.isArray(value)) {
    for (const inner of value) if (typeof inner === 'object' && inner !== null && holdsLong(inner, wanted)) return true;
    return false;
  }
  for (const [key, { found, within }] of wanted.keys) {
    const inner = (value as Fields)[key];
    if (inner === undefined || inner === null) continue;
    if (found !== undefined && inner === found.long) return true;
    if (within !== undefined && typeof inner === 'object' && holdsLong(inner, within)) return true;
  }
  return false;
}

/**
 * Asks for the short lifetime wherever a body asks for a long one, leaving every other byte as it is: `1h` of `cache_control`
 * becomes `5m`. Does nothing to a body that asks for none.
 * @param protocol of the body
 */
export async function shortenCache(body: RequestBody, protocol: Protocol): Promise<void> {
  await body.replaceTexts(LIFETIMES[protocol], ({ long, short }, text) => (text === long ? short : undefined));
}
