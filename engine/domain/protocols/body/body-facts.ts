import type { IncomingHttpHeaders } from 'node:http';
import { StageError } from '../../../base/contract/errors.ts';
import type { Protocol } from '../../../base/contract/protocol.ts';
import type { WantedTexts } from '../../../base/contract/request-body.ts';
import type { CacheLifetime } from '../../../base/contract/services.ts';
import type { RequestBody } from '../../../base/contract/stage.ts';
import { definitionNamed, definitionOf } from '../definitions.ts';
import { flagAt, invalid, isObject, kindOf, optional } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';
import { type BodyReading, modelIn } from './fields.ts';
import type { Lifetime } from './lifetimes.ts';
import { type PrivilegedChoice, type PrivilegedValue, readPrivileged } from './read-privileged.ts';
import { readSession, type SessionReading } from './session.ts';

/** Whether a parsed body requests an hour or more where its API reads a lifetime. */
export function asksForHour(body: Json, protocol: string): boolean {
  return holdsLong(body, definitionOf(protocol).lifetimes);
}

function holdsLong(value: object, wanted: WantedTexts<Lifetime>): boolean {
  if (Array.isArray(value)) {
    for (const inner of value) if (typeof inner === 'object' && inner !== null && holdsLong(inner, wanted)) return true;
    return false;
  }
  for (const [key, { found, within }] of wanted.keys) {
    const inner = (value as Json)[key];
    if (inner === undefined || inner === null) continue;
    if (found !== undefined && inner === found.long) return true;
    if (within !== undefined && typeof inner === 'object' && holdsLong(inner, within)) return true;
  }
  return false;
}

/** Replaces long cache lifetimes in a body of a protocol by short ones, and keeps all other bytes. */
export async function shortenCache(body: RequestBody, protocol: Protocol): Promise<void> {
  await body.replaceTexts(definitionOf(protocol).lifetimes, ({ long, short }, text) =>
    text === long ? short : undefined,
  );
}

/** The error for a body that is certainly of another API; `base_path` of the public URL is before API paths. */
function otherApi(protocol: string, body: Json, base_path: string): StageError | undefined {
  const served = definitionNamed(protocol);
  const [meant, field] = served?.meantFor(body) ?? [];
  if (served === undefined || meant === undefined) return undefined;
  const { name, path } = definitionOf(meant);
  const where = `which this gateway serves at POST ${base_path}${path}; this path serves the ${served.name} API`;
  return invalid(field!, `is of the ${name} API, ${where}`);
}

const BYTES_PER_TOKEN = 4;

/** Facts about a request body for routing and money, in any protocol. */
export interface BodyFacts extends Omit<BodyReading, 'unseen_tokens'> {
  readonly model: string;
  readonly stream: boolean;
  readonly input_tokens_estimate: number;
  /** At most, as no tokenizer makes more tokens than bytes; with referenced content and additions of the provider. */
  readonly input_tokens_max: number;
  /** The longest cache lifetime in any interpretation of the body, for its maximum cost. */
  readonly cache_ttl: CacheLifetime;
  /** The longest requested cache lifetime at places of its API. */
  readonly cache_requested: CacheLifetime;
  readonly served: Readonly<Partial<Record<(typeof SERVED)[number], string>>>;
  /** Fields beside `model` that decide over models, prices or accounts, by their path; `undefined` without any. */
  readonly privileged: Readonly<Record<string, PrivilegedChoice>> | undefined;
  readonly session?: SessionReading;
}

interface BodyOptions {
  readonly isModel?: (text: string) => boolean;
  readonly session_headers?: IncomingHttpHeaders | undefined;
  /** The path of the public URL, for errors that name a path. */
  readonly base_path?: string;
}

const SERVED = ['service_tier', 'speed', 'inference_geo'] as const;

/** Reads the body of a request. Raises invalid_request, invalid_json, invalid_encoding. */
export async function readBodyFacts(
  protocol: string,
  body: RequestBody,
  { isModel, session_headers, base_path = '' }: BodyOptions = {},
): Promise<BodyFacts> {
  const { known_keys, readBody } = definitionOf(protocol);
  const { json: fields, text } = await body.skim(known_keys);
  if (!isObject(fields))
    throw new StageError('invalid_request', `The request body must be a JSON object, not ${kindOf(fields)}.`);
  const misplaced = otherApi(protocol, fields, base_path);
  if (misplaced !== undefined) throw misplaced;
  if (fields.model === undefined) throw invalid('model', 'is required; GET /v1/models lists the models');
  const model = modelIn(fields.model);
  const stream = optional(fields, 'stream', flagAt) === true;
  const { unseen_tokens, cache_ttl, ...reading } = readBody(fields);
  const { bytes } = body;
  const found = readPrivileged(fields, isModel);
  const cache = lifetimesOf(text, cache_ttl, () => asksForHour(fields, protocol));
  return {
    ...reading,
    model,
    stream,
    input_tokens_estimate: Math.ceil(bytes.length / BYTES_PER_TOKEN),
    input_tokens_max: bytes.length + unseen_tokens,
    cache_ttl: cache.most,
    cache_requested: cache.requested,
    served: servedAs(fields, found),
    privileged: found.length === 0 ? undefined : byPath(found),
    ...(session_headers !== undefined && {
      session: readSession(fields, session_headers, membersOf(body, fields, text)),
    }),
  };
}

/** Members of a body with the ends of their texts; as they were skimmed where a text turns out to be none. */
function membersOf(body: RequestBody, skimmed: Json, text: Text): (key: string) => unknown {
  return (key) => {
    if (typeof text !== 'string') return skimmed[key];
    try {
      return body.value(key);
    } catch {
      return skimmed[key];
    }
  };
}

/** Privileged values in the form of the fact `request.privileged_fields`. */
export function byPath(privileged: readonly PrivilegedValue[]): Record<string, PrivilegedChoice> {
  const by_path: Record<string, PrivilegedChoice> = Object.create(null);
  for (const { param, rule, value } of privileged) {
    by_path[param] = { field: rule.name, ...(value !== undefined && { value }) };
  }
  return by_path;
}

/** The tiers and speeds of a fallback count as requested: the most expensive is reserved, whichever model responds. */
function servedAs(body: Json, privileged: readonly PrivilegedValue[]): BodyFacts['served'] {
  const served: Partial<Record<(typeof SERVED)[number], string>> = {};
  for (const name of SERVED) if (typeof body[name] === 'string') served[name] = body[name];
  for (const { param, rule, value } of privileged) {
    const name = SERVED.find((known) => known === rule.name);
    if (name === undefined || value === undefined) continue;
    if (privileged.some((other) => other.rule === rule && other.value !== value)) {
      throw invalid(param, `requests another ${name} than the rest of the request; use the same one`);
    }
    served[name] = value;
  }
  return served;
}

/** The searched text: without the ends of long texts, which cannot contain lifetimes, or complete. */
type Text = string | Buffer;

/** Bytes in which the native search is fast enough in the worst case, which is not linear. */
const SEARCHED_BYTES = 1024 * 1024;
const WINDOW_BYTES = 65_536;
const OVERLAP = 8;

/** Whether a pattern of fewer than `OVERLAP` characters matches; every match has `rare`, which begins rarely. */
function holds(text: Text, pattern: RegExp, rare: string): boolean {
  const first = text.length <= SEARCHED_BYTES ? text.indexOf(rare) : 0;
  if (first < 0) return false;
  for (let from = Math.max(0, first - OVERLAP); from < text.length; from += WINDOW_BYTES) {
    const to = from + WINDOW_BYTES + OVERLAP;
    if (pattern.test(typeof text === 'string' ? text.slice(from, to) : text.toString('latin1', from, to))) return true;
  }
  return false;
}

/** The longest lifetime in any reading of a body, and the requested one; `keyed`: by other fields than marks. */
function lifetimesOf(text: Text, keyed: CacheLifetime, asksForHour: () => boolean) {
  const is_marked = isMarked(text);
  const short = keyed !== 'none' || is_marked ? '5m' : 'none';
  if (keyed !== '1h' && !mayAskForHour(text, is_marked)) return { most: short, requested: short } as const;
  return { most: '1h', requested: asksForHour() ? '1h' : short } as const;
}

/** Whether anything may be marked. A search for a string with a rare first byte is several times as fast. */
function isMarked(text: Text): boolean {
  const has_control = text.includes('_control') && text.includes('cache_control');
  return has_control || hasBreakpoint(text) || text.includes('"caching"');
}

/** Escapes that could hide a lifetime: the most expensive is assumed. No lifetime has others, as in `\u003c`. */
const ESCAPED_LETTER = /\\u00(?:3[0-9]|[46][1-9a-f]|5[0-9af]|7[0-9a])/i;

function mayAskForHour(text: Text, is_marked: boolean): boolean {
  if (is_marked && holds(text, /"1h"/, '1h"')) return true;
  if (is_marked && holds(text, /"12h"/, '12h"') && hasBreakpoint(text)) return true;
  return holds(text, ESCAPED_LETTER, '\\u00');
}

function hasBreakpoint(text: Text): boolean {
  return text.includes('_breakpoint') && text.includes('prompt_cache_breakpoint');
}
