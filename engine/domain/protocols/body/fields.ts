import type { ChatBound } from '../../../base/contract/config.ts';
import type { RequestBody } from '../../../base/contract/stage.ts';
import { fieldsOf } from '../../../base/kit/json/fields.ts';
import { isPrintableLine } from '../../../base/kit/text/printable.ts';
import { countAt, invalid, kindOf, listAt, optional } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';
import type { Unproven } from '../translation/made-reasoning.ts';

const TOOL_PREAMBLE_TOKENS = 1000;

/** Maximum tokens of one image, whatever its size in the body. */
export const IMAGE_TOKENS = 5000;

/** Maximum tokens of a document, a remote reference or a provider tool; the context window caps it. */
export const REFERENCE_TOKENS = 1_000_000;

/** Maximum uses of a tool in one response, whatever the request allows. */
export const TOOL_USES_MAX = 10_000;

export const NO_USES: Readonly<Record<string, number>> = Object.freeze({});

/** Size and cost of a request, read from its body. */
export interface BodyReading {
  /** The bound of the output in tokens; `undefined` without one. */
  readonly max_tokens: number | undefined;
  /** The bounds by field, because upstreams may not support all fields. */
  readonly output_bounds: Readonly<Record<string, number>>;
  /** Maximum model runs: each use of a provider tool reads the whole input again. `undefined`: unbounded. */
  readonly iterations: number | undefined;
  /** Whether the provider may summarize the conversation by further runs of the model. */
  readonly compacts: boolean;
  readonly choices: number;
  readonly tool_count: number;
  readonly tool_names: () => readonly string[];
  readonly message_count: number;
  readonly image_count: number;
  /** Maximum uses of billed provider tools, by name, if the request bounds them. */
  readonly server_tool_uses: Readonly<Record<string, number>>;
  readonly unproven_reasoning: Unproven | undefined;
  /** Whether there is state that only its provider can read: encrypted content, and references to stored items. */
  readonly holds_state: boolean;
  /** Tokens of referenced content, and tokens that the provider adds. */
  readonly unseen_tokens: number;
  /** Prompt cache lifetime by other fields than `cache_control`. */
  readonly cache_ttl: 'none' | '5m' | '1h';
}

/** The images of a conversation, the maximum tokens of its attachments, and whether only its provider can read them. */
export interface Attached {
  tokens: number;
  images: number;
  holds_state: boolean;
  unproven_reasoning?: Unproven;
}

/** The model that a body names. Raises invalid_request. */
export function modelIn(model: unknown): string {
  if (typeof model !== 'string' || model === '')
    throw invalid('model', `must be a non-empty string, not ${model === '' ? 'an empty one' : kindOf(model)}`);
  if (isPrintableLine(model)) return model;
  throw invalid('model', 'contains unprintable characters; no model has such a name');
}

/** An array by its key, empty where there is none. Raises invalid_request. */
export function listOf(body: Json, key: string): readonly unknown[] {
  return optional(body, key, listAt) ?? [];
}

export function outputBounds(
  body: Json,
  keys: readonly string[],
  least: 0 | 1 = 1,
): Pick<BodyReading, 'max_tokens' | 'output_bounds'> {
  const output_bounds: Record<string, number> = {};
  for (const key of keys) {
    const bound = optional(body, key, countAt);
    if (bound === undefined) continue;
    if (bound < least) throw invalid(key, 'must be 1 or more: some providers read 0 as "no limit"');
    output_bounds[key] = bound;
  }
  const bounds = Object.values(output_bounds);
  const other = largestOther(body, keys);
  if (other > 0) output_bounds.other = other;
  return { max_tokens: bounds.length === 0 ? undefined : Math.max(...bounds), output_bounds };
}

const OTHER_BOUNDS = [
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'max_new_tokens', 'max_tokens_to_sample'],
  ...['n_predict', 'num_predict', 'max_gen_len', 'max_length'],
] as const;

/** The largest bound in fields of other protocols, where 0 and less mean unbounded; 0 without any. */
function largestOther(body: Json, keys: readonly string[]): number {
  let largest = 0;
  for (const key of OTHER_BOUNDS) {
    const bound = body[key];
    if (bound === undefined || bound === null || keys.includes(key)) continue;
    largest = Math.max(largest, isBound(bound) ? bound : Number.MAX_SAFE_INTEGER);
  }
  return largest;
}

export function isBound(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

/** The bounds plus a budget that only some providers count as output. 0 stays: some read it as unbounded. */
export function withThinking(
  { max_tokens, output_bounds }: ReturnType<typeof outputBounds>,
  budget: number,
): ReturnType<typeof outputBounds> {
  const widened = Object.entries(output_bounds).map(([key, bound]) => [
    key,
    bound === 0 ? 0 : Math.min(bound + budget, Number.MAX_SAFE_INTEGER),
  ]);
  return { max_tokens, output_bounds: Object.fromEntries(widened) };
}

/** The largest budget for thinking beside the bound of the output; 0 without one. */
export function thinkingBudget({ thinking, reasoning, thinking_budget, chat_template_kwargs }: Json): number {
  const budgets = [
    fieldsOf(thinking).budget_tokens,
    fieldsOf(reasoning).max_tokens,
    thinking_budget,
    fieldsOf(chat_template_kwargs).thinking_budget,
  ];
  return Math.max(0, ...budgets.filter((budget) => Number.isSafeInteger(budget)).map(Number));
}

export function iterationsOf(uses: number | undefined): number | undefined {
  return uses === undefined ? undefined : Math.min(TOOL_USES_MAX, uses + 1);
}

export function nothingAttached(): Attached {
  return { tokens: 0, images: 0, holds_state: false };
}

export function namesFile(part: Json): boolean {
  return part.file_id != null || fieldsOf(part.source).file_id != null || fieldsOf(part.file).file_id != null;
}

/** Counts an image; only an inline image has a bounded size. */
export function addImage(attached: Attached, is_inline: boolean): void {
  attached.images++;
  attached.tokens += is_inline ? IMAGE_TOKENS : REFERENCE_TOKENS;
}

/** Counts a part that only its provider, or the server it names, can read. */
export function addReference(attached: Attached, part: Json): void {
  attached.tokens += REFERENCE_TOKENS;
  if (namesFile(part)) attached.holds_state = true;
}

/** Counts stored content of the provider: its length is unknown, and no other provider has it. */
export function addKept(attached: Attached): void {
  attached.tokens += REFERENCE_TOKENS;
  attached.holds_state = true;
}

export function isDataUrl(value: unknown): boolean {
  return typeof value === 'string' && value.slice(0, 5).toLowerCase() === 'data:';
}

/** What all protocols read alike; with tools, as with calls in the history, the provider adds a preamble. */
export function readingOf(
  tools: readonly unknown[],
  messages: readonly unknown[],
  attached: Attached,
  run_by_provider: boolean,
  has_tools = tools.length > 0,
) {
  const preamble = has_tools || run_by_provider ? TOOL_PREAMBLE_TOKENS : 0;
  return {
    choices: 1,
    tool_count: tools.length,
    tool_names: () => toolNames(tools),
    message_count: messages.length,
    image_count: attached.images,
    unproven_reasoning: attached.unproven_reasoning,
    holds_state: attached.holds_state,
    unseen_tokens: attached.tokens + preamble + (run_by_provider ? REFERENCE_TOKENS : 0),
  };
}

/** The prompt cache lifetime in fields of chat completions and Responses. */
export function keyedCache(body: Json): BodyReading['cache_ttl'] {
  const { prompt_cache_key: key, prompt_cache_retention: retention, prompt_cache_options: options } = body;
  if (retention === '24h' || fieldsOf(options).ttl === '12h') return '1h';
  return key == null && retention == null && options == null ? 'none' : '5m';
}

const AUDIO_TYPE = /^.{0,40}audio/i;

/** Whether a part of a conversation is audio; some servers recognise it by its keys. */
export function isAudio(part: unknown): boolean {
  const { type, input_audio, audio_url } = fieldsOf(part);
  return (typeof type === 'string' && AUDIO_TYPE.test(type)) || input_audio != null || audio_url != null;
}

/** Keys under which a part of a conversation defines tools, as additions or after a compaction. */
export const TOOL_DEFINITIONS = ['tool', 'tools', 'definition', 'tool_changes'] as const;

const AROUND_TOOLS = /^(?:tool_addition|tool_removal|tool_definition|\w+_reference)$/;

const NO_TOOLS: readonly unknown[] = Object.freeze([]);

/** Tools defined in messages, and in these parts of them. */
export function definedTools(messages: readonly unknown[], parts = NO_TOOLS): readonly unknown[] {
  const open: unknown[] = [];
  for (const message of messages) {
    const { tools } = fieldsOf(message);
    if (Array.isArray(tools)) open.push(tools);
  }
  for (const part of parts) open.push(definitionsIn(part));
  if (open.length === 0) return NO_TOOLS;
  const tools: unknown[] = [];
  while (open.length > 0) {
    const value = open.pop();
    if (Array.isArray(value)) {
      for (const each of value) open.push(each);
      continue;
    }
    open.push(...definitionsIn(value));
    if (isTool(value)) tools.push(value);
  }
  return tools;
}

function definitionsIn(part: unknown): readonly unknown[] {
  const fields = fieldsOf(part);
  return TOOL_DEFINITIONS.map((key) => fields[key]).filter((value) => typeof value === 'object' && value !== null);
}

function isTool(value: unknown): boolean {
  const { type }: Json = fieldsOf(value);
  return typeof value === 'object' && value !== null && (typeof type !== 'string' || !AROUND_TOOLS.test(type));
}

const PLAIN: ReadonlySet<unknown> = new Set(['function', 'custom', undefined, null]);

const AROUND_NAME = ['function', 'custom'] as const;

const NAME_LENGTH_MAX = 128;

/** Names of tools, and types of tools other than plain functions, without duplicates, in any of the protocols. */
function toolNames(tools: readonly unknown[]): readonly string[] {
  const names = new Set<string>();
  const add = (name: unknown) => {
    if (typeof name === 'string' && name !== '') names.add(name.slice(0, NAME_LENGTH_MAX));
  };
  for (const tool of tools) {
    const fields = fieldsOf(tool);
    add(fields.name);
    for (const key of AROUND_NAME) add(fieldsOf(fields[key]).name);
    if (!PLAIN.has(fields.type)) add(fields.type);
  }
  return [...names];
}

/** The other output bound field of chat completions. */
export function otherBound(field: ChatBound): ChatBound {
  return field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
}

/** Moves the bound of a chat request to the only field that its upstream accepts. A request with both stays. */
export function spellBound(body: RequestBody, field: ChatBound): void {
  const other = otherBound(field);
  const bound = body.value(other);
  if (typeof bound !== 'number') return;
  const found = body.value(field);
  if (found === undefined) body.rename(other, field);
  else if (found === null) body.rewrite(field, bound);
}
