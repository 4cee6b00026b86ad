import { parseBounded } from '../../../base/kit/json/bounded.ts';
import { isObject, present } from '../read-json.ts';
import type {
  CacheTtl,
  Conversation,
  DocumentPart,
  ImagePart,
  Json,
  Part,
  ReasoningPart,
  ReasoningRequest,
  Source,
  TextPart,
  Tool,
  ToolCallPart,
  ToolResultPart,
  Turn,
  UpstreamTarget,
} from '../translation/conversation.ts';
import { effortOf, lateInstructions, OPENING } from '../translation/features.ts';
import { takenImage } from '../translation/files.ts';
import type { Notes, RuleName } from '../translation/rules.ts';
import { type Accepted, createStrictSchemas, STRING_FORMATS, type StrictSchemas } from '../translation/tool-schemas.ts';

/** By the guide "Structured outputs", section "JSON Schema limitations", and the SDKs' transform_schema. */
export const accepted: Accepted = {
  refused_at_top: ['anyOf', 'oneOf', 'allOf'],
  explicit: false,
  dialect: true,
  property_name: /^[a-zA-Z0-9_.-]{1,64}$/,
  held: {
    keywords: new Set(['format', 'minItems']),
    formats: new Set([...STRING_FORMATS, 'uri']),
    min_items_max: 1,
    all_required: false,
    recursion: false,
    alternatives_at_top: true,
    fully_typed: false,
    most: { tools: 20, optional: 24, unions: 16 },
  },
  tool_name_chars: 128,
  stops: { most: Infinity, blank: false },
};

type Block = Record<string, unknown>;

interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: Block[];
}

/** Replaces an empty message: upstreams reject empty ones, and without it another message would be the last. */
const EMPTY_MESSAGE = '(empty message)';

function cacheControl(ttl: CacheTtl): Block {
  return ttl === '1h' ? { type: 'ephemeral', ttl } : { type: 'ephemeral' };
}

const mark = ({ cache }: { readonly cache?: CacheTtl }): Block =>
  cache === undefined ? {} : { cache_control: cacheControl(cache) };

/** Texts as blocks, without blank ones, which upstreams reject. */
function writeTexts(parts: readonly TextPart[], notes: Notes): Block[] {
  return parts.flatMap((part) => {
    if (part.text.trim() !== '') return [{ type: 'text', text: part.text, ...mark(part) }];
    if (part.text !== '') notes.note('blank_text');
    return [];
  });
}

function writeMessages(turns: readonly Turn[], notes: Notes): Message[] {
  const ids = createCallIds(notes);
  const messages: { role: Message['role']; results: Block[]; others: Block[] }[] = [];
  for (const [index, turn] of turns.entries()) {
    const role = turn.role === 'assistant' ? 'assistant' : 'user';
    const blocks = writeTurn(turn, `messages.${index}`, ids, notes);
    if (blocks.length === 0 && turn.role === 'user') {
      notes.note('empty_message');
      blocks.push({ type: 'text', text: EMPTY_MESSAGE });
    }
    if (blocks.length === 0) continue;
    if (messages.at(-1)?.role !== role) messages.push({ role, results: [], others: [] });
    const { results, others } = messages.at(-1)!;
    for (const block of blocks) (block.type === 'tool_result' ? results : others).push(block);
  }
  return messages.map(({ role, results, others }) => ({ role, content: [...results, ...others] }));
}

function writeTurn(turn: Turn, path: string, ids: CallIds, notes: Notes): Block[] {
  if (turn.role === 'instructions') return writeTexts(lateInstructions(turn, notes), notes);
  return turn.parts.flatMap((part) => writePart(part, path, ids, notes));
}

function writePart(part: Part, path: string, ids: CallIds, notes: Notes): Block[] {
  switch (part.kind) {
    case 'text':
      return writeTexts([part], notes);
    case 'image':
      return [writeImage(part, notes)];
    case 'document':
      return [writeDocument(part, path, notes)];
    case 'reasoning':
      return writeReasoning(part, notes);
    case 'tool_call':
      return [writeCall(part, ids, notes)];
    case 'tool_result':
      return [writeResult(part, path, ids, notes)];
    case 'refusal':
      notes.note('refusal_history');
      return writeTexts([{ kind: 'text', text: part.text }], notes);
  }
}

function writeSource(source: Source): Block {
  if (source.kind === 'url') return { type: 'url', url: source.url };
  return { type: 'base64', media_type: source.media_type, data: source.data };
}

function writeImage(image: ImagePart, notes: Notes): Block {
  const part = takenImage(image, notes);
  if (part.kind === 'text') return { type: 'text', text: part.text, ...mark(part) };
  if (part.detail !== undefined && part.detail !== 'auto') notes.note('image_detail');
  return { type: 'image', source: writeSource(part.source), ...mark(part) };
}

function writeDocument(part: DocumentPart, path: string, notes: Notes): Block {
  const title = part.name === undefined ? {} : { title: part.name };
  return { type: 'document', source: documentSource(part.source, path, notes), ...title, ...mark(part) };
}

function documentSource(source: DocumentPart['source'], path: string, notes: Notes): Block {
  if (source.kind === 'text') return { type: 'text', media_type: 'text/plain', data: source.text };
  if (source.kind === 'url') return writeSource(source);
  const { media_type } = source;
  if (media_type === 'application/pdf') return writeSource(source);
  if (!/^text\/|^application\/(json|xml|yaml)\b/.test(media_type)) return notes.reject('document_type', path);
  return { type: 'text', media_type: 'text/plain', data: Buffer.from(source.data, 'base64').toString('utf8') };
}

function writeReasoning({ text, proof }: ReasoningPart, notes: Notes): Block[] {
  if (proof?.protocol !== 'messages') {
    notes.note('foreign_reasoning');
    return [];
  }
  // This upstream sent no signature.
  if (proof.kind === 'none') return text === '' ? [] : [{ type: 'thinking', thinking: text, signature: '' }];
  if (proof.kind === 'encrypted') return [{ type: 'redacted_thinking', data: proof.value }];
  return [{ type: 'thinking', thinking: text, signature: proof.value }];
}

function writeCall(part: ToolCallPart, ids: CallIds, notes: Notes): Block {
  let input = argumentsObject(part.arguments);
  if (input === undefined) {
    notes.note('broken_arguments');
    input = { arguments: part.arguments };
  }
  return { type: 'tool_use', id: ids.called(part.id), name: part.name, input, ...mark(part) };
}

/** JSON.parse and JSON with what Node has and the types do not: the text of a number, and numbers written as such text. */
type ExactJson = {
  parse(text: string, revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown;
  rawJSON(text: string): unknown;
};

/** Texts with a number that may be more precise than a number of JavaScript can be. */
const LONG_NUMBER = /\d{16}|\d[eE]/;

/**
 * Arguments of a tool call as an object; `undefined` where they are none, or have too many values or levels. The empty text is an object
 * without fields. To be written with JSON.stringify only: long numbers are kept as they were written.
 */
export function argumentsObject(text: string): Json | undefined {
  if (text.trim() === '') return {};
  try {
    const plain = parseBounded(text);
    const value = LONG_NUMBER.test(text) ? parseExactly(text) : plain;
    return isObject(value) ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}

function parseExactly(text: string): unknown {
  const json = JSON as unknown as ExactJson;
  return json.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && String(value) !== source ? json.rawJSON(source) : value,
  );
}

function writeResult(part: ToolResultPart, path: string, ids: CallIds, notes: Notes): Block {
  return {
    type: 'tool_result',
    tool_use_id: ids.answered(part.call_id),
    ...resultContent(part.parts, path, notes),
    ...(part.is_error && { is_error: true }),
    ...mark(part),
  };
}

function resultContent(parts: ToolResultPart['parts'], path: string, notes: Notes): Block {
  const [first] = parts;
  // A result with a single text may be blank, as program output often is.
  if (parts.length === 1 && first?.kind === 'text' && first.cache === undefined) return { content: first.text };
  const content = parts.flatMap((part) => {
    if (part.kind === 'text') return writeTexts([part], notes);
    return [part.kind === 'image' ? writeImage(part, notes) : writeDocument(part, path, notes)];
  });
  return content.length === 0 ? {} : { content };
}

type CallIds = ReturnType<typeof createCallIds>;

/** Gives calls valid, unique identifiers, and their results the same. */
function createCallIds(notes: Notes) {
  const plainId = (id: string): string => id.replace(/[^A-Za-z0-9_-]/g, '_');
  const used = new Set<string>();
  /** The identifier of the latest call, by the client's identifier. */
  const latest = new Map<string, string>();
  /** Number of calls whose identifiers are equal for upstreams. */
  const numbers = new Map<string, number>();
  return {
    called(id: string): string {
      const plain = plainId(id);
      let number = numbers.get(plain) ?? 0;
      let unique: string;
      do unique = ++number === 1 ? plain : `${plain}_${number}`;
      while (used.has(unique));
      numbers.set(plain, number);
      if (unique !== id) notes.note('tool_call_id');
      used.add(unique);
      latest.set(id, unique);
      return unique;
    },
    answered: (id: string): string => latest.get(id) ?? plainId(id),
  };
}

const MARKS_MAX = 4;

interface Prompt {
  readonly tools: readonly Block[];
  readonly system: readonly Block[];
  readonly messages: readonly Message[];
}

const UNMARKABLE: ReadonlySet<unknown> = new Set(['thinking', 'redacted_thinking']);

/** Marks the prompt for a client that caches it whole; upstreams reject a longer lifetime after a shorter one. */
function markPrompt(cache: Conversation['cache'], prompt: Prompt, notes: Notes): void {
  const marked = marksOf(prompt);
  const long = cache?.long_marks ? marked.length : marked.findLastIndex(isLong) + 1;
  for (const block of marked.slice(0, long)) block.cache_control = cacheControl('1h');
  if (cache === undefined || cache.only_marked || marked.length > 0) return;
  const ttl = cache.long_marks ? '1h' : cache.ttl;
  const last_message = prompt.messages.at(-1)?.content.findLast(({ type }) => !UNMARKABLE.has(type));
  for (const block of [prompt.tools.at(-1), prompt.system.at(-1), last_message]) {
    if (block !== undefined) block.cache_control = cacheControl(ttl);
  }
  notes.note('prompt_cache');
}

const isLong = ({ cache_control }: Block): boolean => (cache_control as Block).ttl === '1h';

function limitMarks(prompt: Prompt, notes: Notes): void {
  const marked = marksOf(prompt);
  if (marked.length <= MARKS_MAX) return;
  notes.note('cache_marks');
  for (const block of marked.slice(0, -MARKS_MAX)) delete block.cache_control;
}

function marksOf({ tools, system, messages }: Prompt): Block[] {
  const inner = ({ content }: Block): Block[] => (Array.isArray(content) ? (content as Block[]) : []);
  const blocks = [...tools, ...system, ...messages.flatMap(({ content }) => content)];
  return blocks.flatMap((block) => [...inner(block), block].filter((one) => one.cache_control !== undefined));
}

const BUDGET_MIN = 1024;

const BUDGETS = { minimal: 1024, low: 1024, medium: 8192, high: 16_384, xhigh: 24_576, max: 32_000 } as const;

interface Thinking {
  readonly on: boolean;
  readonly thinking?: Block;
  readonly effort?: string;
}

function writeThinking(
  { reasoning, tool_choice }: Conversation,
  target: UpstreamTarget,
  messages: readonly Message[],
  max_tokens: number,
  notes: Notes,
): Thinking {
  if (reasoning === undefined) return { on: false };
  if (reasoning.effort === 'none') return silent(target, notes);
  const obstacle = obstacleTo(target, tool_choice, messages, max_tokens);
  if (obstacle !== undefined) {
    notes.note(obstacle);
    return { on: false };
  }
  return target.thinking === 'adaptive' ? adaptive(reasoning, notes) : budgeted(reasoning, max_tokens, notes);
}

/** No thinking: some adaptive models reject `disabled`, and without `thinking` most do not think. */
function silent(target: UpstreamTarget, notes: Notes): Thinking {
  if (target.thinking === 'none') return { on: false };
  if (target.thinking === 'budget') return { on: false, thinking: { type: 'disabled' } };
  notes.note('thinking_effort');
  return { on: false };
}

function obstacleTo(
  target: UpstreamTarget,
  tool_choice: Conversation['tool_choice'],
  messages: readonly Message[],
  max_tokens: number,
): RuleName | undefined {
  if (target.thinking === 'none') return 'no_thinking';
  if (tool_choice?.kind === 'any' || tool_choice?.kind === 'tool') return 'thinking_with_forced_tool';
  if (target.thinking === 'adaptive') return undefined;
  // Models with a budget must have begun with their own thinking; adaptive models need not.
  if (answersForeignCalls(messages)) return 'thinking_in_tool_loop';
  if (max_tokens <= BUDGET_MIN) return 'thinking_without_room';
  return undefined;
}

function answersForeignCalls(messages: readonly Message[]): boolean {
  if (messages.at(-1)?.content[0]?.type !== 'tool_result') return false;
  const first = messages.at(-2)?.content[0]?.type;
  return first !== 'thinking' && first !== 'redacted_thinking';
}

function display({ show }: ReasoningRequest): Block {
  if (show === undefined) return {};
  return { display: show ? 'summarized' : 'omitted' };
}

function adaptive(requested: ReasoningRequest, notes: Notes): Thinking {
  const thinking = { type: 'adaptive', ...display(requested) };
  const effort = effortOf(requested, notes);
  if (effort === 'minimal') notes.note('thinking_effort');
  return { on: true, thinking, ...(effort !== undefined && { effort: effort === 'minimal' ? 'low' : effort }) };
}

function budgeted(requested: ReasoningRequest, max_tokens: number, notes: Notes): Thinking {
  const effort = requested.effort === undefined || requested.effort === 'none' ? 'medium' : requested.effort;
  // A budget by effort must leave tokens for the response; a budget of the client must only fit.
  const wanted = requested.budget_tokens ?? Math.min(BUDGETS[effort], Math.floor(max_tokens / 2));
  const budget_tokens = Math.min(Math.max(wanted, BUDGET_MIN), max_tokens - 1);
  if (budget_tokens !== requested.budget_tokens) notes.note('thinking_effort');
  return { on: true, thinking: { type: 'enabled', budget_tokens, ...display(requested) } };
}

const JSON_ONLY = 'Answer with one JSON object and nothing else: no words around it and no code fence.';

const SCHEMA_ONLY =
  'Answer with one JSON value and nothing else: no words around it and no code fence. It must match this JSON Schema:';

export function writeRequest(conversation: Conversation, target: UpstreamTarget, notes: Notes): Json {
  noteUnsaid(conversation, notes);
  const held = createStrictSchemas(accepted, notes);
  const format = writeFormat(conversation, held, notes);
  const system = writeSystem(conversation, format !== undefined, notes);
  const messages = writeMessages(conversation.turns, notes);
  mendEnds(system, messages, notes);
  const tools = conversation.tools.map((tool) => writeTool(tool, held, notes));
  const called = tools.length === 0 ? calledTools(conversation, notes) : [];
  markPrompt(conversation.cache, { system, tools, messages }, notes);
  limitMarks({ system, tools, messages }, notes);
  const max_tokens = conversation.max_output_tokens ?? target.default_output_tokens ?? target.max_output_tokens;
  const { on, thinking, effort } = writeThinking(conversation, target, messages, max_tokens, notes);
  const output_config = present({ effort, format });
  return {
    model: conversation.model,
    max_tokens,
    ...(system.length > 0 && { system }),
    messages,
    ...(tools.length > 0 && { tools, ...writeChoice(conversation) }),
    ...(called.length > 0 && { tools: called, tool_choice: { type: 'none' } }),
    ...(thinking && { thinking }),
    ...(Object.keys(output_config).length > 0 && { output_config }),
    ...(conversation.user !== undefined && { metadata: { user_id: conversation.user } }),
    ...writeStops(conversation, notes),
    ...writeSampling(conversation, on, notes),
    ...writeTier(conversation, notes),
    stream: conversation.stream,
  };
}

function noteUnsaid(conversation: Conversation, notes: Notes): void {
  const { seed, frequency_penalty, presence_penalty, verbosity, store, metadata } = conversation;
  if (seed !== undefined) notes.note('seed');
  if ((frequency_penalty ?? 0) !== 0 || (presence_penalty ?? 0) !== 0) notes.note('penalties');
  if (verbosity !== undefined && verbosity !== 'medium') notes.note('verbosity');
  if (store === true) notes.note('store');
  if (metadata !== undefined && Object.keys(metadata).length > 0) notes.note('metadata');
}

/** A response format that the upstream cannot enforce becomes an instruction. */
function writeSystem({ instructions, output_format }: Conversation, is_strict: boolean, notes: Notes): Block[] {
  const system = writeTexts(instructions, notes);
  if (output_format === undefined || is_strict) return system;
  const schema = output_format.kind === 'json_schema' ? output_format.schema : {};
  if (Object.keys(schema).length === 0) {
    notes.note('json_object_mode');
    return [...system, { type: 'text', text: JSON_ONLY }];
  }
  notes.note('output_schema');
  return [...system, { type: 'text', text: `${SCHEMA_ONLY}\n${JSON.stringify(schema)}` }];
}

/** Upstreams require a message, the user's first, and no white space at the end of a text to continue. */
function mendEnds(system: Block[], messages: Message[], notes: Notes): void {
  if (messages.length === 0 && system.length > 0) {
    notes.note('instructions_only');
    messages.push({ role: 'user', content: [system.pop()!] });
  }
  if (messages[0]?.role === 'assistant') {
    notes.note('assistant_first');
    messages.unshift({ role: 'user', content: [{ type: 'text', text: OPENING }] });
  }
  const last = messages.at(-1);
  const end = last?.role === 'assistant' ? last.content.at(-1) : undefined;
  if (typeof end?.text === 'string' && /\s$/.test(end.text)) {
    notes.note('trailing_space');
    end.text = end.text.trimEnd();
  }
}

function writeTool(tool: Tool, held: StrictSchemas, notes: Notes): Block {
  const { name, description, free_text, cache } = tool;
  if (free_text) notes.note('free_text_tool');
  const { schema, strict } = held.tool(tool);
  return {
    name,
    ...(description && { description }),
    input_schema: schema,
    ...(strict && { strict }),
    ...(cache && { cache_control: cacheControl(cache) }),
  };
}

function calledTools({ turns }: Conversation, notes: Notes): Block[] {
  const names = new Set(
    turns.flatMap(({ parts }) => parts.flatMap((part) => (part.kind === 'tool_call' ? part.name : []))),
  );
  if (names.size > 0) notes.note('tools_of_history');
  return [...names].map((name) => ({ name, input_schema: { type: 'object' } }));
}

function writeChoice({ tool_choice, parallel_tool_calls }: Conversation): Block {
  if (tool_choice?.kind === 'none') return { tool_choice: { type: 'none' } };
  const single = parallel_tool_calls === false;
  if (tool_choice === undefined && !single) return {};
  const { kind, ...named } = tool_choice ?? { kind: 'auto' };
  return { tool_choice: { type: kind, ...named, ...(single && { disable_parallel_tool_use: true }) } };
}

function writeFormat({ output_format }: Conversation, held: StrictSchemas, notes: Notes): Block | undefined {
  if (output_format?.kind !== 'json_schema') return undefined;
  if (output_format.name !== undefined || output_format.description !== undefined) notes.note('output_format_name');
  const schema = held.answer(output_format);
  return schema && { type: 'json_schema', schema };
}

function writeStops({ stop }: Conversation, notes: Notes): Block {
  const stop_sequences = (stop ?? []).filter((text) => text.trim() !== '');
  if (stop_sequences.length < (stop?.length ?? 0)) notes.note('blank_stop');
  return stop_sequences.length === 0 ? {} : { stop_sequences };
}

const TOP_P_WHILE_THINKING = 0.95;

function writeSampling({ temperature, top_p, top_k }: Conversation, thinking: boolean, notes: Notes): Block {
  if (thinking) {
    const keep_top_p = top_p !== undefined && top_p >= TOP_P_WHILE_THINKING;
    const loses = (temperature ?? 1) !== 1 || top_k !== undefined || (top_p !== undefined && !keep_top_p);
    if (loses) notes.note('sampling_while_thinking');
    return keep_top_p ? { top_p } : {};
  }
  if (temperature !== undefined && temperature > 1) notes.note('temperature_range');
  // Neutral values are omitted: models reject both parameters together.
  const both = temperature !== undefined && top_p !== undefined && top_p !== 1;
  if (both) notes.note('temperature_and_top_p');
  if (temperature === undefined) return present({ top_p, top_k });
  return present({ temperature: Math.min(temperature, 1), top_k });
}

function writeTier({ service_tier }: Conversation, notes: Notes): Block {
  if (service_tier === undefined || service_tier === 'auto') return {};
  if (service_tier === 'default') return { service_tier: 'standard_only' };
  notes.note('service_tier');
  return {};
}
