import { createHash } from 'node:crypto';
import type { Protocol } from '../../../base/contract/protocol.ts';
import { flagAt, invalid, isAbsent, objectAt, optional, textAt } from '../read-json.ts';
import type {
  CacheTtl,
  Conversation,
  Json,
  Maker,
  Part,
  ReasoningPart,
  ReasoningRequest,
  TextPart,
  ToolResultPart,
  Turn,
  UpstreamTarget,
} from './conversation.ts';
import { isMadeBy } from './made-reasoning.ts';
import type { Notes } from './rules.ts';
import type { Accepted } from './tool-schemas.ts';

/** Identifiers of calls can have any length and characters: clients get them encoded, upstreams decoded. */

const CHARS_MAX = 64;

const PREFIX = 'gwid_';

const isPlain = (id: string): boolean => /^[A-Za-z0-9_-]+$/.test(id) && !id.startsWith(PREFIX);

/** Encodes an identifier in letters, digits, `_` and `-`, reversibly by `decodeCallId`. */
export function encodeCallId(id: string): string {
  return isPlain(id) ? id : PREFIX + Buffer.from(id).toString('base64url');
}

/** Decodes an identifier of `encodeCallId`; returns others unchanged. */
export function decodeCallId(id: string): string {
  if (!id.startsWith(PREFIX)) return id;
  const decoded = Buffer.from(id.slice(PREFIX.length), 'base64url').toString();
  return decoded !== '' && encodeCallId(decoded) === id ? decoded : id;
}

/** Shortens an identifier that is too long for some API by a hash; returns a short one unchanged. */
export function shortCallId(id: string): string {
  if (encodeCallId(id).length <= CHARS_MAX) return id;
  return `call_${createHash('sha256').update(id).digest('hex').slice(0, 40)}`;
}

export function decodeCallIds(conversation: Conversation): Conversation {
  const decode = (part: Part): Part => {
    if (part.kind === 'tool_call') return { ...part, id: decodeCallId(part.id) };
    return part.kind === 'tool_result' ? { ...part, call_id: decodeCallId(part.call_id) } : part;
  };
  return { ...conversation, turns: withParts(conversation.turns, decode) };
}

function withParts(turns: readonly Turn[], map: (part: Part) => Part | readonly Part[]): readonly Turn[] {
  return turns.map((turn) => ({ ...turn, parts: turn.parts.flatMap(map) }));
}

const EFFORTS_BY_BUDGET = [
  [16_384, 'high'],
  [4096, 'medium'],
  [0, 'low'],
] as const;

/** The effort for a model without budgets: the requested one, else by the budget. */
export function effortOf({ effort, budget_tokens }: ReasoningRequest, notes: Notes): ReasoningRequest['effort'] {
  if (effort !== undefined || budget_tokens === undefined) return effort;
  notes.note('thinking_budget');
  return EFFORTS_BY_BUDGET.find(([from]) => budget_tokens >= from)?.[1] ?? 'low';
}

const USER_CHARS_MAX = 64;

/** An end-user identifier for these upstreams: a longer one becomes its SHA-256, noted. */
function shortUser(user: string, notes: Notes): string {
  if (user.length <= USER_CHARS_MAX) return user;
  notes.note('long_user');
  return createHash('sha256').update(user).digest('hex');
}

/** End user, account, storage and caching of a request in chat completions and Responses. Raises invalid_request. */
export function readAccount(body: Json, notes: Notes) {
  const user = optional(body, 'user', textAt);
  const identifier = optional(body, 'safety_identifier', textAt);
  if (user !== undefined && identifier !== undefined && user !== identifier) notes.note('second_user');
  const metadata = optional(body, 'metadata', objectAt) ?? {};
  const values = Object.values(metadata);
  // Clients choose the keys, so the error does not quote them.
  if (!values.every((value) => typeof value === 'string')) throw invalid('metadata', 'must have strings as values');
  return {
    user: user ?? identifier,
    metadata: values.length === 0 ? undefined : (metadata as Readonly<Record<string, string>>),
    service_tier: optional(body, 'service_tier', textAt),
    store: optional(body, 'store', flagAt),
    cache: readPromptCache(body),
  };
}

/** The same for an upstream; `tiers` are the ones that it has. */
export function writeAccount({ user, service_tier, cache }: Conversation, tiers: ReadonlySet<string>, notes: Notes) {
  const has_tier = service_tier !== undefined && tiers.has(service_tier);
  if (service_tier !== undefined && !has_tier) notes.note('service_tier');
  return {
    user: user === undefined ? undefined : shortUser(user, notes),
    service_tier: has_tier ? service_tier : undefined,
    prompt_cache_key: cache?.key,
    prompt_cache_retention: cache?.ttl === '1h' ? '24h' : undefined,
  };
}

/** An effort that a client named; an unknown one is noted. */
export function effortNamed<Effort extends string>(said: string | undefined, known: readonly Effort[], notes: Notes) {
  const effort = known.find((name) => name === said);
  if (said !== undefined && effort === undefined) notes.note('unknown_effort');
  return effort;
}

/** Adds a result of a tool: consecutive results are one turn, the following message of the user is the next. */
export function addResult(turns: { role: Turn['role']; parts: Part[] }[], result: ToolResultPart): void {
  const last = turns.at(-1);
  if (last?.role === 'user' && last.parts.at(-1)?.kind === 'tool_result') last.parts.push(result);
  else turns.push({ role: 'user', parts: [result] });
}

const ERROR_PREFIX = 'Error: ';

/** The content of a failed tool result, for protocols without a flag: its text begins with "Error". */
export function asError<P extends ToolResultPart['parts'][number]>(
  parts: readonly P[],
  notes: Notes,
): readonly (P | TextPart)[] {
  const [first, ...rest] = parts;
  if (first?.kind === 'text' && first.text.startsWith(ERROR_PREFIX)) return parts;
  notes.note('result_error');
  if (first?.kind === 'text') return [{ ...first, text: ERROR_PREFIX + first.text }, ...rest];
  const what = parts.length === 0 ? 'the tool failed.' : 'see what follows.';
  return [{ kind: 'text', text: ERROR_PREFIX + what }, ...parts];
}

export function fitModel(conversation: Conversation, target: UpstreamTarget, notes: Notes): Conversation {
  const { max_output_tokens, sampling } = target;
  const is_too_long = (conversation.max_output_tokens ?? 0) > max_output_tokens;
  if (is_too_long) notes.note('output_bound');
  const bounded = is_too_long ? { ...conversation, max_output_tokens } : conversation;
  const { temperature, top_p, top_k, ...rest } = bounded;
  if (sampling || (temperature === undefined && top_p === undefined && top_k === undefined)) return bounded;
  notes.note('no_sampling');
  return rest;
}

/**
 * Removes reasoning of other Messages or Responses upstreams, which this provider would reject, and state of other chat
 * upstreams, whose reasoning stays as text. Reasoning without an origin is left to its protocol.
 */
export function fitReasoning(
  conversation: Conversation,
  maker: Maker,
  notes: Notes,
  isProven: (protocol: Protocol) => boolean,
): Conversation {
  const isForeign = ({ proof }: ReasoningPart): boolean => {
    if (proof?.upstream === undefined) return false;
    // In a protocol without proofs, reasoning is ordinary text.
    if (proof.kind === 'none' && !isProven(proof.protocol)) return false;
    return !isMadeBy(proof, maker) || (proof.kind === 'state' && proof.protocol !== maker.protocol);
  };
  const fit = (part: Part): readonly Part[] => {
    if (part.kind !== 'reasoning' || !isForeign(part)) return [part];
    const { kind, protocol } = part.proof!;
    notes.note(kind === 'state' ? 'foreign_state' : 'foreign_reasoning');
    if (kind !== 'state' || part.text === '') return [];
    return [{ ...part, proof: { protocol, kind: 'none', value: '' } }];
  };
  return { ...conversation, turns: withParts(conversation.turns, fit) };
}

/** Instructions in the middle of a conversation, as marked texts of the user. */
export function lateInstructions({ parts }: Turn, notes: Notes): TextPart[] {
  notes.note('instructions_turn');
  const texts = parts.filter((part) => part.kind === 'text' && part.text !== '') as TextPart[];
  return texts.map((part) => ({ ...part, text: `<system_message>\n${part.text}\n</system_message>` }));
}

function readPromptCache(body: Json): Conversation['cache'] {
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
  // Its lifetimes differ from the two lifetimes here.
  if (!isAbsent(mark.ttl)) notes.note('prompt_cache_options');
  return { cache: mark.ttl === '12h' ? '1h' : '5m' };
}

/** Models whose template or vendor wants users and assistants in turn, not counting calls and results. */
const STRICT_MODELS =
  /(?:^|[^a-z])(?:mi[sx]tral|ministral|devstral|codestral|magistral|mathstral|pixtral|voxtral|gemma|command-r|llama-?2)/i;

/** Whether the model of this name requires alternating turns. */
export function takesTurns(model: string): boolean {
  return STRICT_MODELS.test(model);
}

/** Inserted before a conversation that the model begins. */
export const OPENING = '(The conversation begins.)';

/** Assistant text inserted between tool results and the next user text. */
export const RESULTS_SEEN = 'I have the results.';

const HASH_LENGTH = 8;

function* namesIn({ tools, tool_choice, turns }: Conversation): Generator<string> {
  for (const { name } of tools) yield name;
  if (tool_choice?.kind === 'tool') yield tool_choice.name;
  for (const { parts } of turns) for (const part of parts) if (part.kind === 'tool_call') yield part.name;
}

/** Shortens a name deterministically, so that prompts stay equal for the upstream's cache. */
function shorten(name: string, length_max: number, taken: ReadonlySet<string>): string {
  const start = name.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, length_max - HASH_LENGTH - 1);
  for (let attempt = 0; ; attempt++) {
    const hash = createHash('sha256').update(attempt === 0 ? name : `${attempt}:${name}`);
    const short = `${start}_${hash.digest('hex').slice(0, HASH_LENGTH)}`;
    if (!taken.has(short)) return short;
  }
}

function uniqueTools(conversation: Conversation, notes: Notes): Conversation {
  const { tools } = conversation;
  const first = new Map(tools.toReversed().map((tool) => [tool.name, tool]));
  if (first.size === tools.length) return conversation;
  notes.note('duplicate_tool');
  return { ...conversation, tools: tools.filter((tool) => first.get(tool.name) === tool) };
}

/** Gives tools unique names that the upstream accepts; `restore` gives the client's name of one. */
export function renameTools(given: Conversation, { tool_name_chars: length_max }: Accepted, notes: Notes) {
  const conversation = uniqueTools(given, notes);
  const names = new Set(namesIn(conversation));
  const fits = (name: string) => name.length <= length_max && /^[A-Za-z0-9_-]+$/.test(name);
  const long = [...names].filter((name) => !fits(name));
  if (long.length === 0) return { conversation, restore: (name: string) => name };
  notes.note('tool_name');
  const short_of = new Map<string, string>();
  for (const name of long) {
    const short = shorten(name, length_max, names);
    names.add(short);
    short_of.set(name, short);
  }
  const name_of = new Map([...short_of].map(([name, short]) => [short, name]));
  const rename = (name: string) => short_of.get(name) ?? name;
  const { tools, tool_choice, turns } = conversation;
  const renamed: Conversation = {
    ...conversation,
    tools: tools.map((tool) => ({ ...tool, name: rename(tool.name) })),
    ...(tool_choice?.kind === 'tool' && { tool_choice: { kind: 'tool', name: rename(tool_choice.name) } }),
    turns: withParts(turns, (part) => (part.kind === 'tool_call' ? { ...part, name: rename(part.name) } : part)),
  };
  return { conversation: renamed, restore: (name: string) => name_of.get(name) ?? name };
}
