import {
  countAt,
  eachAt,
  flagAt,
  invalid,
  isAbsent,
  isObject,
  itemsOf,
  jsonTextAt,
  kindOf,
  listAt,
  nameAt,
  noteOthers,
  numberAt,
  objectAt,
  optional,
  present,
  textAt,
  textsAt,
} from '../read-json.ts';
import type {
  CacheTtl,
  Conversation,
  DocumentPart,
  ImagePart,
  Json,
  OutputFormat,
  Part,
  ReasoningPart,
  ReasoningRequest,
  TextPart,
  Tool,
  ToolChoice,
  ToolResultPart,
  Turn,
} from '../translation/conversation.ts';
import { effortNamed } from '../translation/features.ts';
import { bytesOf, filePart } from '../translation/files.ts';
import { type MadeReasoning, type Path, proofFromText, unprovenBlock } from '../translation/made-reasoning.ts';
import type { Notes, RuleName } from '../translation/rules.ts';
import { readSchema } from '../translation/tool-schemas.ts';

type Role = 'user' | 'assistant' | 'system';

type BlockReader = (block: Json, path: string, notes: Notes) => readonly Part[];

interface BlockKind {
  readonly roles: readonly Role[];
  readonly fields: ReadonlySet<string>;
  readonly read: BlockReader;
}

type BlockKinds = ReadonlyMap<string, BlockKind>;

const blockKinds = (
  ...rows: readonly (readonly [type: string, roles: readonly Role[], fields: string, read: BlockReader])[]
): BlockKinds =>
  new Map(
    rows.map(([type, roles, fields, read]) => [type, { roles, fields: new Set(['type', ...fields.split(' ')]), read }]),
  );

const asText =
  (rule: RuleName, textOf: (block: Json, path: string) => string): BlockReader =>
  (block, path, notes) => {
    notes.note(rule);
    const text = textOf(block, path);
    return text === '' ? [] : [{ kind: 'text', text, ...readCache(block, path, notes) }];
  };

/** Blocks that only the provider that made them can read; their fields don't matter. */
const PROVIDER_BLOCK = /^(server_tool_use|mcp_tool_use|mcp_tool_listing|fallback|[a-z_]+_tool_result)$/;

const USER: readonly Role[] = ['user'];
const ASSISTANT: readonly Role[] = ['assistant'];
const ALL: readonly Role[] = ['user', 'assistant', 'system'];

const BLOCKS = blockKinds(
  ['text', ALL, 'text cache_control citations', readText],
  ['image', USER, 'source cache_control transformations', readImage],
  ['document', USER, 'source cache_control citations context title', readDocument],
  ['search_result', USER, 'content source title cache_control citations', asText('search_result', searchResult)],
  ['thinking', ASSISTANT, 'thinking signature', readThinking],
  ['redacted_thinking', ASSISTANT, 'data', readRedacted],
  ['tool_use', ASSISTANT, 'id name input cache_control caller toolset_name', readToolUse],
  ['tool_result', USER, 'tool_use_id content is_error cache_control toolset_name', readToolResult],
  ['container_upload', USER, 'file_id cache_control', refuseFile],
  ['tool_addition', ALL, 'tool cache_control', readToolChange],
  ['tool_removal', ALL, 'tool cache_control', readToolChange],
  [
    'compaction',
    [...USER, ...ASSISTANT],
    'content encrypted_content signature tool_changes cache_control',
    asText('compaction_block', ({ content }, path) => (isAbsent(content) ? '' : textAt(content, `${path}.content`))),
  ],
);

const shared = (...types: string[]) => types.map((type) => [type, BLOCKS.get(type)!] as const);

/** What may stand in a document made of blocks; no documents, so that nothing nests. */
const DOCUMENT_BLOCKS: BlockKinds = new Map(shared('text', 'image'));

/** What may stand in a result: some of the blocks of a message, and two of its own. */
const RESULT_BLOCKS: BlockKinds = new Map([
  ...shared('text', 'image', 'document', 'search_result'),
  ...blockKinds(
    ['tool_reference', USER, 'tool_name cache_control', asText('tool_reference', toolReference)],
    ['browser_state', USER, 'tabs state_changes cache_control', asText('browser_state', browserState)],
  ),
]);

function readContent(content: unknown, role: Role, path: string, notes: Notes): Part[] {
  if (typeof content !== 'string' && !Array.isArray(content)) {
    throw invalid(path, `must be a string or an array of content blocks, not ${kindOf(content)}`);
  }
  return readBlocks(content, BLOCKS, role, path, notes);
}

function readBlocks(content: unknown, kinds: BlockKinds, role: Role, path: string, notes: Notes): Part[] {
  if (isAbsent(content)) return [];
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }];
  return eachAt(content, path, (block, at) => readBlock(block, kinds, role, at, notes)).flat();
}

function readBlock(block: Json, kinds: BlockKinds, role: Role, path: string, notes: Notes): readonly Part[] {
  const type = nameAt(block.type, `${path}.type`);
  const known = kinds.get(type);
  if (known === undefined) {
    notes.note(PROVIDER_BLOCK.test(type) ? 'provider_tool_history' : 'unknown_block');
    return [];
  }
  if (!known.roles.includes(role)) {
    throw invalid(`${path}.type`, `a block of type ${type} is not allowed in a message of the role ${role}`);
  }
  noteOthers(block, known.fields, notes);
  return known.read(block, path, notes);
}

function readCache(holder: Json, path: string, notes: Notes): { cache?: CacheTtl } {
  const control = optional(holder, 'cache_control', objectAt, path === '' ? '' : `${path}.`);
  if (control === undefined) return {};
  noteOthers(control, CACHE_FIELDS, notes);
  const { ttl } = control;
  if (!isAbsent(ttl) && ttl !== '5m' && ttl !== '1h') {
    throw invalid(`${path}${path && '.'}cache_control.ttl`, 'must be 5m or 1h');
  }
  return { cache: ttl === '1h' ? '1h' : '5m' };
}

const CACHE_FIELDS: ReadonlySet<string> = new Set(['type', 'ttl']);

function readText(block: Json, path: string, notes: Notes): readonly TextPart[] {
  const text = textAt(block.text, `${path}.text`);
  if (Array.isArray(block.citations) && block.citations.length > 0) notes.note('request_citations');
  return text === '' ? [] : [{ kind: 'text', text, ...readCache(block, path, notes) }];
}

function refuseFile(_block: Json, path: string, notes: Notes): never {
  return notes.reject('file_reference', `${path}.file_id`);
}

const SOURCE_FIELDS: ReadonlySet<string> = new Set(['type', 'media_type', 'data', 'url']);

function readSource(source: Json, path: string, notes: Notes): ImagePart['source'] | undefined {
  noteOthers(source, SOURCE_FIELDS, notes);
  switch (textAt(source.type, `${path}.type`)) {
    case 'base64':
      return bytesOf(nameAt(source.media_type, `${path}.media_type`), textAt(source.data, `${path}.data`));
    case 'url':
      return { kind: 'url', url: nameAt(source.url, `${path}.url`) };
    case 'file':
      return notes.reject('file_reference', `${path}.file_id`);
    default:
      return undefined;
  }
}

function readImage(block: Json, path: string, notes: Notes): readonly (ImagePart | DocumentPart)[] {
  const source = readSource(objectAt(block.source, `${path}.source`), `${path}.source`, notes);
  if (source === undefined) throw invalid(`${path}.source.type`, 'must be base64, url or file');
  if (isObject(block.transformations) && Object.keys(block.transformations).length > 0)
    notes.note('image_transformations');
  return [filePart({ kind: 'image', source, ...readCache(block, path, notes) })];
}

function readDocument(block: Json, path: string, notes: Notes): readonly Part[] {
  const at = `${path}.source`;
  const name = optional(block, 'title', textAt, `${path}.`);
  const context = optional(block, 'context', textAt, `${path}.`);
  if (isObject(block.citations) && block.citations.enabled === true) notes.note('request_citations');
  const about: TextPart[] = [];
  if (context !== undefined && context !== '') {
    notes.note('document_context');
    about.push({ kind: 'text', text: context });
  }
  const more = { ...(name && { name }), ...readCache(block, path, notes) };
  const source = objectAt(block.source, at);
  if (source.type === 'content') return [...about, ...readContentDocument(source, at, more, notes)];
  const made =
    source.type === 'text'
      ? ({ kind: 'text', text: textAt(source.data, `${at}.data`) } as const)
      : readSource(source, at, notes);
  if (made === undefined) throw invalid(`${at}.type`, 'must be base64, text, content, url or file');
  return [...about, filePart({ kind: 'document', source: made, ...more })];
}

function readContentDocument(
  source: Json,
  at: string,
  more: Pick<DocumentPart, 'name' | 'cache'>,
  notes: Notes,
): readonly Part[] {
  notes.note('document_content');
  const parts = readBlocks(source.content, DOCUMENT_BLOCKS, 'user', `${at}.content`, notes);
  if (!parts.every((part) => part.kind === 'text')) return parts;
  const text = parts.map((part) => part.text).join('\n\n');
  return [{ kind: 'document', source: { kind: 'text', text }, ...more }];
}

function searchResult(block: Json, path: string): string {
  const title = textAt(block.title, `${path}.title`);
  const source = textAt(block.source, `${path}.source`);
  const texts = eachAt(block.content, `${path}.content`, ({ text }, at) => textAt(text, `${at}.text`));
  return [`${title}\n${source}`, ...texts].join('\n\n');
}

function thought(text: string, proof: string, kind: 'signature' | 'encrypted'): ReasoningPart {
  return present({ kind: 'reasoning', text, proof: proofFromText(proof, { protocol: 'messages', kind }) });
}

function readThinking(block: Json, path: string): readonly ReasoningPart[] {
  const text = textAt(block.thinking, `${path}.thinking`);
  const signature = optional(block, 'signature', textAt, `${path}.`) ?? '';
  return text === '' && signature === '' ? [] : [thought(text, signature, 'signature')];
}

function readRedacted(block: Json, path: string): readonly ReasoningPart[] {
  return [thought('', nameAt(block.data, `${path}.data`), 'encrypted')];
}

function noteOrigin({ caller, toolset_name }: Json, notes: Notes): void {
  const direct = !isObject(caller) || caller.type === 'direct';
  if (!direct || !isAbsent(toolset_name)) notes.note('tool_call_origin');
}

function readToolUse(block: Json, path: string, notes: Notes): readonly Part[] {
  noteOrigin(block, notes);
  const id = nameAt(block.id, `${path}.id`);
  const name = nameAt(block.name, `${path}.name`);
  const input = objectAt(block.input, `${path}.input`);
  return [
    { kind: 'tool_call', id, name, arguments: jsonTextAt(input, `${path}.input`), ...readCache(block, path, notes) },
  ];
}

function readToolResult(block: Json, path: string, notes: Notes): readonly Part[] {
  noteOrigin(block, notes);
  const call_id = nameAt(block.tool_use_id, `${path}.tool_use_id`);
  const parts = readBlocks(block.content, RESULT_BLOCKS, 'user', `${path}.content`, notes) as ToolResultPart['parts'];
  const is_error = optional(block, 'is_error', flagAt, `${path}.`) ?? false;
  return [{ kind: 'tool_result', call_id, parts, is_error, ...readCache(block, path, notes) }];
}

function readToolChange(_block: Json, _place: string, notes: Notes): readonly Part[] {
  notes.note('tool_changes');
  return [];
}

function toolReference({ tool_name }: Json, path: string): string {
  return `Tool: ${nameAt(tool_name, `${path}.tool_name`)}`;
}

function browserState({ tabs, state_changes }: Json, path: string): string {
  const state = { tabs: listAt(tabs, `${path}.tabs`), ...(!isAbsent(state_changes) && { state_changes }) };
  return jsonTextAt(state, path);
}

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'] as const;

const CONFIG_FIELDS: ReadonlySet<string> = new Set(['effort', 'format', 'task_budget']);
const THINKING_FIELDS: ReadonlySet<string> = new Set(['type', 'budget_tokens', 'display']);

function readReasoning(body: Json, notes: Notes): ReasoningRequest | undefined {
  const effort = readEffort(body, notes);
  const thinking = optional(body, 'thinking', objectAt);
  if (thinking === undefined) return effort && { effort };
  noteOthers(thinking, THINKING_FIELDS, notes);
  switch (thinking.type) {
    case 'disabled':
      if (effort !== undefined) notes.note('effort_without_thinking');
      return { effort: 'none' };
    case 'enabled':
      return {
        ...(effort && { effort }),
        budget_tokens: countAt(thinking.budget_tokens, 'thinking.budget_tokens'),
        ...readDisplay(thinking, notes),
      };
    case 'between_tools':
      notes.note('thinking_between_tools');
      return { ...(effort && { effort }) };
    case 'adaptive':
      return { ...(effort && { effort }), ...readDisplay(thinking, notes) };
    default:
      throw invalid('thinking.type', 'must be adaptive, enabled, between_tools or disabled');
  }
}

function readEffort(body: Json, notes: Notes): ReasoningRequest['effort'] {
  const config = optional(body, 'output_config', objectAt);
  if (config === undefined) return undefined;
  noteOthers(config, CONFIG_FIELDS, notes);
  if (!isAbsent(config.task_budget)) notes.note('task_budget');
  return effortNamed(optional(config, 'effort', textAt, 'output_config.'), EFFORTS, notes);
}

/** Reads the display; unknown values of newer clients count as visible. */
function readDisplay(thinking: Json, notes: Notes): Pick<ReasoningRequest, 'show'> {
  const display = optional(thinking, 'display', textAt, 'thinking.');
  if (display === undefined) return {};
  if (display !== 'summarized' && display !== 'omitted') notes.note('thinking_display');
  return { show: display !== 'omitted' };
}

const TOOL_FIELDS: ReadonlySet<string> = new Set(
  [
    ['type', 'name', 'description', 'input_schema', 'cache_control', 'strict'],
    ['input_examples', 'defer_loading', 'eager_input_streaming', 'allowed_callers'],
  ].flat(),
);

function readTools(body: Json, notes: Notes): Pick<Conversation, 'tools' | 'tool_choice' | 'parallel_tool_calls'> {
  const entries = eachAt(body.tools ?? [], 'tools', (tool) => tool);
  const listed = entries.flatMap((tool, index) => (isProviders(tool) ? [] : [readTool(tool, `tools.${index}`, notes)]));
  const added = new Map(addedTools(body, notes).map((tool) => [tool.name, tool]));
  for (const { name } of listed) added.delete(name);
  const tools = [...listed, ...added.values()];
  const servers = optional(body, 'mcp_servers', listAt) ?? [];
  const provider_entry = entries.findIndex(isProviders);
  if (provider_entry !== -1 || servers.length > 0) {
    if (tools.length === 0) {
      notes.reject('only_provider_tools', provider_entry === -1 ? 'mcp_servers' : `tools.${provider_entry}`);
    }
    notes.note('provider_tool');
  }
  const provider_names = new Set(entries.filter(isProviders).map(({ name }) => name));
  return { tools, ...readChoice(body, provider_names, notes) };
}

/** Tools defined by blocks in the middle of the conversation; `readContent` checks all other blocks. */
function addedTools({ messages }: Json, notes: Notes): Tool[] {
  return itemsOf(messages).flatMap((message, at) => {
    return contentOf(message).flatMap((block, index) => {
      const tool = isObject(block) && block.type === 'tool_addition' && isObject(block.tool) ? block.tool : {};
      if (tool.type !== 'tool_definition') return [];
      const path = `messages.${at}.content.${index}.tool.definition`;
      const definition = objectAt(tool.definition, path);
      return isProviders(definition) ? [] : [readTool(definition, path, notes)];
    });
  });
}

const isProviders = ({ type }: Json): boolean => !isAbsent(type) && type !== 'custom';

function readTool(tool: Json, path: string, notes: Notes): Tool {
  noteOthers(tool, TOOL_FIELDS, notes);
  noteSettings(tool, notes);
  return present({
    description: optional(tool, 'description', textAt, `${path}.`) || undefined,
    strict: optional(tool, 'strict', flagAt, `${path}.`),
    name: nameAt(tool.name, `${path}.name`),
    parameters: readSchema(tool.input_schema, `${path}.input_schema`),
    ...readCache(tool, path, notes),
  });
}

function noteSettings(
  { input_examples, defer_loading, eager_input_streaming, allowed_callers }: Json,
  notes: Notes,
): void {
  if (Array.isArray(input_examples) && input_examples.length > 0) notes.note('tool_examples');
  if (defer_loading === true) notes.note('tool_loading');
  if (eager_input_streaming === true) notes.note('tool_streaming');
  if (Array.isArray(allowed_callers) && allowed_callers.some((caller) => caller !== 'direct'))
    notes.note('tool_callers');
}

const CHOICE_FIELDS: ReadonlySet<string> = new Set(['type', 'name', 'disable_parallel_tool_use']);

function readChoice(
  body: Json,
  provider_names: ReadonlySet<unknown>,
  notes: Notes,
): Pick<Conversation, 'tool_choice' | 'parallel_tool_calls'> {
  const choice = optional(body, 'tool_choice', objectAt);
  if (!isObject(choice)) return {};
  noteOthers(choice, CHOICE_FIELDS, notes);
  const single = optional(choice, 'disable_parallel_tool_use', flagAt, 'tool_choice.');
  const parallel = single === undefined ? {} : { parallel_tool_calls: !single };
  // A dropped tool cannot be forced.
  if (choice.type === 'tool' && provider_names.has(choice.name)) return parallel;
  return { tool_choice: choiceOf(choice), ...parallel };
}

function choiceOf({ type, name }: Json): ToolChoice {
  if (type === 'auto' || type === 'any' || type === 'none') return { kind: type };
  if (type === 'tool') return { kind: 'tool', name: nameAt(name, 'tool_choice.name') };
  throw invalid('tool_choice.type', 'must be auto, any, none or tool');
}

const FIELDS: ReadonlySet<string> = new Set(
  [
    ['model', 'messages', 'system', 'max_tokens', 'stream', 'tools', 'tool_choice', 'thinking', 'output_config'],
    ['output_format', 'metadata', 'stop_sequences', 'temperature', 'top_p', 'top_k', 'service_tier', 'cache_control'],
    ['mcp_servers', 'thread'],
  ].flat(),
);

const PROVIDER_FIELDS: Readonly<Record<string, RuleName>> = {
  container: 'container',
  context_management: 'context_management',
  compaction: 'compaction',
  safeguards: 'safeguards',
  tags: 'tags',
  speed: 'speed',
  inference_geo: 'inference_geo',
  diagnostics: 'diagnostics',
  fallbacks: 'fallbacks',
  fallback_credit_token: 'fallbacks',
  billing_policy: 'billing',
  user_profile_id: 'billing',
  workspace_id: 'billing',
  betas: 'betas',
};

const KNOWN: ReadonlySet<string> = new Set([...FIELDS, ...Object.keys(PROVIDER_FIELDS)]);

/** Reads a client's request. Raises invalid_request if it violates the protocol, not_translatable by a rule. */
export function readRequest(body: Json, notes: Notes): Conversation {
  noteThread(body, notes);
  for (const [field, rule] of Object.entries(PROVIDER_FIELDS)) if (!isAbsent(body[field])) notes.note(rule);
  noteOthers(body, KNOWN, notes);
  const optionals = present({
    reasoning: readReasoning(body, notes),
    output_format: readFormat(body),
    user: readUser(body, notes) || undefined,
  });
  const { cache: ttl } = readCache(body, '', notes);
  const turns = eachAt(body.messages, 'messages', (message, at) => readTurn(message, at, notes)).flat();
  if (turns.at(-1)?.role === 'assistant') notes.note('begun_answer');
  return {
    model: nameAt(body.model, 'model'),
    instructions: (optional(body, 'system', (system) => readContent(system, 'system', 'system', notes)) ??
      []) as TextPart[],
    turns,
    ...readTools(body, notes),
    max_output_tokens: countAt(body.max_tokens, 'max_tokens'),
    ...readSampling(body),
    ...optionals,
    ...(ttl && { cache: { ttl } }),
    stream: optional(body, 'stream', flagAt) ?? false,
  };
}

/** Clients recover from a lost thread by sending the whole conversation as a new one. */
function noteThread(body: Json, notes: Notes): void {
  const thread = optional(body, 'thread', objectAt);
  if (thread === undefined) return;
  if (thread.type !== 'create') notes.reject('thread', 'thread', { details: { error_code: 'thread_not_found' } });
  notes.note('thread_create');
}

const MESSAGE_FIELDS: ReadonlySet<string> = new Set(['role', 'content']);

const ROLES = { user: 'user', assistant: 'assistant', system: 'instructions' } as const;

function readTurn(message: Json, path: string, notes: Notes): readonly Turn[] {
  noteOthers(message, MESSAGE_FIELDS, notes);
  const role = textAt(message.role, `${path}.role`);
  if (role !== 'user' && role !== 'assistant' && role !== 'system') {
    throw invalid(`${path}.role`, 'must be user, assistant or system');
  }
  // A message of the role system may change settings without a text.
  const content = message.content ?? (role === 'system' ? [] : undefined);
  const parts = readContent(content, role, `${path}.content`, notes);
  if (parts.length === 0) return role === 'user' && isText(content) ? [{ role, parts }] : [];
  // Results first, as in the common form; upstreams of this protocol reject any other order.
  const first_other = parts.findIndex(({ kind }) => kind !== 'tool_result');
  const in_order = first_other === -1 || !parts.slice(first_other).some(({ kind }) => kind === 'tool_result');
  if (in_order) return [{ role: ROLES[role], parts }];
  notes.note('tool_result_order');
  const results = parts.filter(({ kind }) => kind === 'tool_result');
  return [{ role: ROLES[role], parts: [...results, ...parts.filter(({ kind }) => kind !== 'tool_result')] }];
}

function isText(content: unknown): boolean {
  return !Array.isArray(content) || content.every((block) => isObject(block) && block.type === 'text');
}

function readSampling(body: Json): Partial<Conversation> {
  return present({
    temperature: optional(body, 'temperature', numberAt),
    top_p: optional(body, 'top_p', numberAt),
    top_k: optional(body, 'top_k', countAt),
    stop: optional(body, 'stop_sequences', stopsAt),
    service_tier: optional(body, 'service_tier', tierAt),
  });
}

function stopsAt(value: unknown, param: string): readonly string[] | undefined {
  const stops = textsAt(value, param);
  return stops.length === 0 ? undefined : stops;
}

/** `auto` is the default of every protocol. */
function tierAt(value: unknown, param: string): string | undefined {
  const tier = nameAt(value, param);
  return tier === 'auto' ? undefined : tier === 'standard_only' ? 'default' : tier;
}

function readFormat(body: Json): OutputFormat | undefined {
  const config = optional(body, 'output_config', objectAt) ?? {};
  const [path, format] = isAbsent(config.format)
    ? (['output_format', optional(body, 'output_format', objectAt)] as const)
    : (['output_config.format', objectAt(config.format, 'output_config.format')] as const);
  if (format === undefined) return undefined;
  if (format.type !== 'json_schema') throw invalid(`${path}.type`, 'must be json_schema');
  // This protocol always enforces the schema.
  return { kind: 'json_schema', schema: objectAt(format.schema, `${path}.schema`), strict: true };
}

const METADATA_FIELDS: ReadonlySet<string> = new Set(['user_id']);

function readUser(body: Json, notes: Notes): string | undefined {
  const metadata = optional(body, 'metadata', objectAt);
  if (metadata === undefined) return undefined;
  noteOthers(metadata, METADATA_FIELDS, notes);
  return optional(metadata, 'user_id', textAt, 'metadata.');
}

/**
 * Reasoning blocks that a translation has made, and those with an empty signature unless `keeps_unsigned`; messages of nothing
 * else go as a whole, as the protocol takes no empty ones.
 */
export function findMadeReasoning(body: Json, keeps_unsigned: boolean): MadeReasoning {
  const { messages, thinking } = body;
  const all = itemsOf(messages);
  const made = all.map((message) => madeBlocks(message, keeps_unsigned));
  const paths = made.flatMap((blocks, at): Path[] => {
    if (blocks.length === 0) return [];
    if (blocks.length === contentOf(all[at]).length) return [['messages', at]];
    return blocks.map((index) => ['messages', at, 'content', index]);
  });
  const may_think = paths.length > 0 && isObject(thinking) && thinking.type === 'enabled';
  return { paths, ...(may_think && !mayGoOn(all, made) && { without_thinking: clearings(body) }) };
}

const contentOf = (message: unknown): readonly unknown[] => (isObject(message) ? itemsOf(message.content) : []);

function madeBlocks(message: unknown, keeps_unsigned: boolean): readonly number[] {
  if (!isObject(message) || message.role !== 'assistant') return [];
  return contentOf(message).flatMap((block, index) => {
    const unproven = isObject(block) ? unprovenBlock(block) : undefined;
    return unproven === 'made' || (unproven === 'unsigned' && !keeps_unsigned) ? [index] : [];
  });
}

function hasResults(message: unknown): boolean {
  return contentOf(message).some((block) => isObject(block) && block.type === 'tool_result');
}

function firstKept(blocks: readonly unknown[], made: readonly number[]): unknown {
  let index = 0;
  while (made[index] === index) index++;
  return blocks[index];
}

const isAssistant = (message: unknown): boolean => isObject(message) && message.role === 'assistant';

/**
 * Whether the model may think: after a question it may. After results of tools it may go on where the answer that called them
 * begins with a thought still, or nothing is lost since the last question. In an answer to a request that was kept from
 * thinking there is none, though the client knows nothing of that.
 */
function mayGoOn(messages: readonly unknown[], made: readonly (readonly number[])[]): boolean {
  let lost = false;
  let first: unknown;
  let at = messages.length;
  for (let answers = 0; at > 0; answers++) {
    // Consecutive user messages are one message for providers, and may contain instructions.
    let has_results = false;
    for (; at > 0 && !isAssistant(messages[at - 1]); at--) has_results ||= hasResults(messages[at - 1]);
    if (!has_results) break;
    for (; at > 0 && isAssistant(messages[at - 1]); at--) {
      lost ||= made[at - 1]!.length > 0;
      if (answers === 0) first = firstKept(contentOf(messages[at - 1]), made[at - 1]!) ?? first;
    }
  }
  return !lost || (isObject(first) && (first.type === 'thinking' || first.type === 'redacted_thinking'));
}

/** Context edits that clear thinking are rejected if the model does not think. */
function clearings({ context_management }: Json): Path[] {
  const edits = isObject(context_management) ? itemsOf(context_management.edits) : [];
  return edits.flatMap((edit, index): Path[] => {
    const clears = isObject(edit) && typeof edit.type === 'string' && edit.type.startsWith('clear_thinking_');
    return clears ? [['context_management', 'edits', index]] : [];
  });
}
