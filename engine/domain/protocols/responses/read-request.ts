import {
  countAt,
  eachAt,
  flagAt,
  invalid,
  isAbsent,
  isObject,
  itemsOf,
  jsonTextAt,
  listAt,
  nameAt,
  noteOthers,
  numberAt,
  objectAt,
  objectsIn,
  optional,
  present,
  textAt,
  textsAt,
} from '../read-json.ts';
import { readAnswerFormat, readToolChoice } from '../translation/choices.ts';
import type {
  Conversation,
  DocumentPart,
  ImagePart,
  Json,
  Part,
  ReasoningPart,
  ReasoningRequest,
  RefusalPart,
  TextPart,
  Tool,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../translation/conversation.ts';
import { EFFORTS } from '../translation/conversation.ts';
import { addResult, effortNamed, readAccount, readBreakpoint } from '../translation/features.ts';
import { filePart, readFileData, readUrl } from '../translation/files.ts';
import { FREE_TEXT_PARAMETERS, freeTextArguments, withGrammar } from '../translation/free-text.ts';
import { isMadeItem, type MadeReasoning, type Path, proofFromText } from '../translation/made-reasoning.ts';
import type { Notes, RuleName } from '../translation/rules.ts';
import { readSchema } from '../translation/tool-schemas.ts';

/** Calls of tools that the client runs, such as shells; other protocols treat them as ordinary tools. */

const CALLS: ReadonlyMap<unknown, readonly [name: string, field: string]> = new Map([
  ['local_shell_call', ['local_shell', 'action']],
  ['shell_call', ['shell', 'action']],
  ['apply_patch_call', ['apply_patch', 'operation']],
  ['computer_call', ['computer', 'action']],
]);

const RESULTS: ReadonlySet<unknown> = new Set([...CALLS.keys()].map((type) => `${type}_output`));

/** Names of an item's call: one type has no `call_id`, but the identifier of the call's item. */
function namesOf({ call_id, id }: Json): readonly string[] {
  return [call_id, id].filter((name) => typeof name === 'string' && name !== '') as string[];
}

const isResult = ({ type }: Json): boolean => typeof type === 'string' && type.endsWith('_output');

function clientCalls(items: readonly unknown[]) {
  const results = new Set(items.flatMap((item) => (isObject(item) && isResult(item) ? namesOf(item) : [])));
  /** Identifiers of calls, by all their names, that have a result. */
  const answered = new Map<string, string>();
  for (const item of items) {
    if (!isObject(item) || !CALLS.has(item.type)) continue;
    const names = namesOf(item);
    if (names.some((name) => results.has(name))) for (const name of names) answered.set(name, names[0]!);
  }
  const idOf = (item: Json): string | undefined =>
    namesOf(item)
      .map((name) => answered.get(name))
      .find((id) => id !== undefined);

  return {
    /** Reads a call; `undefined` for other items, and for calls without a result. Raises invalid_request. */
    callOf(item: Json, param: string): ToolCallPart | undefined {
      const [name, field] = CALLS.get(item.type) ?? [];
      const id = idOf(item);
      if (name === undefined || id === undefined) return undefined;
      const at = `${param}.${field}`;
      // A computer call can have several actions, or none.
      const what =
        name === 'computer' && isAbsent(item.action) ? { actions: item.actions } : objectAt(item[field!], at);
      return { kind: 'tool_call', id, name, arguments: jsonTextAt(what, at) };
    },

    /** Reads a result; `undefined` for other items, and for results without a call. Raises invalid_request. */
    resultOf(item: Json, param: string): ToolResultPart | undefined {
      const call_id = RESULTS.has(item.type) ? idOf(item) : undefined;
      if (call_id === undefined) return undefined;
      const parts = partsOf(item.output, `${param}.output`);
      return { kind: 'tool_result', call_id, parts, is_error: item.status === 'failed' };
    },
  };
}

function partsOf(output: unknown, param: string): ToolResultPart['parts'] {
  if (output === undefined || output === null || output === '') return [];
  if (typeof output === 'string') return [{ kind: 'text', text: output }];
  if (isObject(output) && typeof output.image_url === 'string')
    return [{ kind: 'image', source: readUrl(output.image_url, `${param}.image_url`) } satisfies ImagePart];
  return [{ kind: 'text', text: jsonTextAt(output, param) }];
}

type ContentPart = TextPart | ImagePart | DocumentPart | RefusalPart;

function readContent(value: unknown, param: string, notes: Notes): ContentPart[] {
  if (typeof value === 'string') return value === '' ? [] : [{ kind: 'text', text: value }];
  if (!Array.isArray(value)) throw invalid(param, 'must be a string or an array of content parts');
  return eachAt(value, param, (part, at) => readPart(part, at, notes));
}

function readPart(part: Json, param: string, notes: Notes): ContentPart {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      if (itemsOf(part.annotations).length > 0) notes.note('annotations');
      return { kind: 'text', text: textAt(part.text, `${param}.text`), ...readBreakpoint(part, param, notes) };
    case 'refusal':
      return { kind: 'refusal', text: textAt(part.refusal, `${param}.refusal`) };
    case 'input_image':
      return readImage(part, param, notes);
    case 'input_file':
      return readFile(part, param, notes);
    case 'input_audio':
      return notes.reject('audio', param);
    default:
      throw invalid(`${param}.type`, 'must be input_text, input_image, input_file, output_text or refusal');
  }
}

function readImage(part: Json, param: string, notes: Notes): ImagePart | DocumentPart {
  if (!isAbsent(part.file_id)) notes.reject('file_reference', `${param}.file_id`);
  const detail = optional(part, 'detail', textAt, `${param}.`);
  return filePart({
    kind: 'image',
    source: readUrl(nameAt(part.image_url, `${param}.image_url`), `${param}.image_url`),
    ...(detail !== undefined && detail !== 'auto' && { detail }),
    ...readBreakpoint(part, param, notes),
  });
}

function readFile(part: Json, param: string, notes: Notes): ImagePart | DocumentPart {
  if (!isAbsent(part.file_id)) notes.reject('file_reference', `${param}.file_id`);
  if (!isAbsent(part.detail) && part.detail !== 'auto') notes.note('file_detail');
  const name = optional(part, 'filename', textAt, `${param}.`);
  const url = optional(part, 'file_url', nameAt, `${param}.`);
  const data = optional(part, 'file_data', nameAt, `${param}.`);
  if (url === undefined && data === undefined) throw invalid(param, 'must have file_data or file_url');
  const source = url === undefined ? readFileData(data!, `${param}.file_data`) : readUrl(url, `${param}.file_url`);
  return filePart(present({ kind: 'document', source, name, ...readBreakpoint(part, param, notes) }));
}

const CLIENT_KINDS = ['function', 'custom', 'namespace'];

const LOST_OPTIONS = ['async', 'allowed_callers', 'defer_loading', 'output_schema'];

const keyOf = (namespace: string | undefined, name: string): string => JSON.stringify([namespace ?? null, name]);

const joinedName = (namespace: string | undefined, name: string): string =>
  namespace === undefined ? name : `${namespace}__${name}`;

/** The tools by name, joined with their namespace if they have one. Add all before the first lookup. */
function createToolBook(notes: Notes) {
  const tools = new Map<string, Tool>();
  let names: Map<string, string> | undefined;
  let has_provider_tools = false;

  const put = (key: string, tool: Tool): void => {
    if (!tools.has(key)) tools.set(key, tool);
  };
  const assigned = (): Map<string, string> => {
    names ??= assignNames(tools);
    return names;
  };

  const addNamespace = (group: Json, param: string): void => {
    const namespace = nameAt(group.name, `${param}.name`);
    notes.note('tool_namespace');
    eachAt(group.tools, `${param}.tools`, (inner, at) => {
      const tool = readTool(inner, at, notes);
      put(keyOf(namespace, tool.name), { ...tool, address: { name: tool.name, namespace } });
    });
  };

  const addSearch = (tool: Json, param: string): void => {
    notes.note('tool_search');
    const description = optional(tool, 'description', textAt, `${param}.`);
    const parameters = readSchema(tool.parameters, `${param}.parameters`);
    const address = { name: 'tool_search', search: true };
    put(SEARCH_KEY, present({ name: 'tool_search', description, parameters, address }));
  };

  const add = (tool: Json, param: string) => {
    if (tool.type === 'namespace') return addNamespace(tool, param);
    if (tool.type === 'tool_search' && tool.execution === 'client') return addSearch(tool, param);
    if (typeof tool.type !== 'string')
      throw invalid(`${param}.type`, `must be one of ${CLIENT_KINDS.join(', ')} or a tool of the provider`);
    if (!CLIENT_KINDS.includes(tool.type)) has_provider_tools = true;
    else put(keyOf(undefined, nameAt(tool.name, `${param}.name`)), readTool(tool, param, notes));
  };

  return {
    addAll(value: unknown, param: string): void {
      eachAt(value, param, add);
    },
    /** The tools, with their addresses for the client. Raises not_translatable if none can be called. */
    tools(): Tool[] {
      const all = [...tools].map(([key, tool]) => (tool.address ? { ...tool, name: assigned().get(key)! } : tool));
      if (has_provider_tools) {
        if (all.length === 0) notes.reject('only_provider_tools', 'tools');
        notes.note('provider_tool');
      }
      return all;
    },
    /** The name of a tool in the conversation, even for an unlisted tool. */
    nameOf: (namespace: string | undefined, name: string): string =>
      assigned().get(keyOf(namespace, name)) ?? joinedName(namespace, name),
    search: (): string => assigned().get(SEARCH_KEY) ?? 'tool_search',
  };
}

type ToolBook = ReturnType<typeof createToolBook>;

const SEARCH_KEY = 'tool_search';

/** Plain names come first: they stay as they are whatever stands before them. */
function assignNames(tools: ReadonlyMap<string, Tool>): Map<string, string> {
  const names = new Map<string, string>();
  const taken = new Set<string>();
  const { plain = [], addressed = [] } = Object.groupBy(tools, ([, { address }]) => (address ? 'addressed' : 'plain'));
  for (const [key, { name: own, address }] of [...plain, ...addressed]) {
    const wanted = joinedName(address?.namespace, own);
    let name = wanted;
    for (let next = 2; taken.has(name); next++) name = `${wanted}_${next}`;
    taken.add(name);
    names.set(key, name);
  }
  return names;
}

function readTool(tool: Json, param: string, notes: Notes): Tool {
  const name = nameAt(tool.name, `${param}.name`);
  const description = optional(tool, 'description', textAt, `${param}.`);
  if (LOST_OPTIONS.some((key) => !isAbsent(tool[key]) && tool[key] !== false)) notes.note('tool_options');
  if (tool.type === 'custom') {
    const format = optional(tool, 'format', objectAt, `${param}.`);
    const written =
      format?.type === 'grammar' ? withGrammar(description, format, `${param}.format`, notes) : description;
    return present({ name, description: written, parameters: FREE_TEXT_PARAMETERS, free_text: true });
  }
  if (tool.type !== 'function') throw invalid(`${param}.type`, 'must be function or custom');
  const parameters = readSchema(tool.parameters, `${param}.parameters`);
  return present({ name, description, parameters, strict: tool.strict === true || undefined });
}

const choiceForm = (book: ToolBook, notes: Notes) => ({
  nameOf(choice: Json, param: string) {
    if (choice.type !== 'function' && choice.type !== 'custom') return undefined;
    const namespace = optional(choice, 'namespace', nameAt, `${param}.`);
    return book.nameOf(namespace, nameAt(choice.name, `${param}.name`));
  },
  allowedIn(choice: Json) {
    notes.note('allowed_tools');
    return [choice, 'tool_choice'] as const;
  },
  reject(choice: unknown): never {
    if (typeof choice === 'string') throw invalid('tool_choice', 'must be auto, none, required or an object');
    textAt(objectAt(choice, 'tool_choice').type, 'tool_choice.type');
    return notes.reject('provider_tool_choice', 'tool_choice');
  },
  rejects_none: true,
});

function describeFound(value: unknown, book: ToolBook): string {
  const names = objectsIn(value).flatMap((tool) => {
    if (typeof tool.name !== 'string') return [];
    if (tool.type !== 'namespace') return [book.nameOf(undefined, tool.name)];
    const namespace = tool.name;
    return objectsIn(tool.tools).flatMap(({ name }) =>
      typeof name === 'string' ? [book.nameOf(namespace, name)] : [],
    );
  });
  return names.length === 0 ? 'No tools were found.' : `These tools can be called now: ${names.join(', ')}`;
}

/** Adds the tools defined in the input, on which the names of calls depend. Raises invalid_request. */
function addToolsOfInput(input: unknown, book: ToolBook): void {
  for (const [index, item] of itemsOf(input).entries()) {
    if (isObject(item) && (item.type === 'additional_tools' || item.type === 'tool_search_output')) {
      book.addAll(item.tools, `input.${index}.tools`);
    }
  }
}

const ROLES: Readonly<Record<string, Turn['role']>> = {
  user: 'user',
  assistant: 'assistant',
  system: 'instructions',
  developer: 'instructions',
};

function readInput(input: unknown, book: ToolBook, notes: Notes): Pick<Conversation, 'instructions' | 'turns'> {
  const instructions: TextPart[] = [];
  const turns: { role: Turn['role']; parts: Part[] }[] = [];
  if (isAbsent(input)) return { instructions, turns };
  if (typeof input === 'string')
    return { instructions, turns: [{ role: 'user', parts: [{ kind: 'text', text: input }] }] };
  const items = listAt(input, 'input');
  const calls = clientCalls(items);

  /** Consecutive items of the model are one turn. */
  const say = (part: Part): void => {
    const last = turns.at(-1);
    if (last?.role === 'assistant') last.parts.push(part);
    else turns.push({ role: 'assistant', parts: [part] });
  };

  const readMessage = (item: Json, param: string): void => {
    if (item.type === undefined && item.content === undefined && typeof item.id === 'string')
      notes.reject('kept_conversation', param);
    const role = typeof item.role === 'string' && Object.hasOwn(ROLES, item.role) ? ROLES[item.role] : undefined;
    if (role === undefined) throw invalid(`${param}.role`, 'must be user, assistant, system or developer');
    if (!isAbsent(item.phase)) notes.note('message_phase');
    const parts = readContent(item.content, `${param}.content`, notes);
    if (parts.length === 0 && role !== 'user') return;
    if (role === 'instructions' && turns.length === 0 && parts.every((part) => part.kind === 'text')) {
      for (const part of parts) instructions.push(part);
    } else if (role === 'assistant') {
      for (const part of parts) say(part);
    } else turns.push({ role, parts });
  };

  /** Reads a tool search. A search of the provider has no call identifier, but its tools were added. */
  const readSearch = (item: Json, param: string) => {
    if (item.execution === 'server' || typeof item.call_id !== 'string') return notes.note('provider_tool_history');
    const id = nameAt(item.call_id, `${param}.call_id`);
    if (item.type === 'tool_search_call') {
      const args = jsonTextAt(item.arguments ?? {}, `${param}.arguments`);
      return say({ kind: 'tool_call', id, name: book.search(), arguments: args });
    }
    const text = describeFound(item.tools, book);
    addResult(turns, { kind: 'tool_result', call_id: id, parts: [{ kind: 'text', text }], is_error: false });
  };

  const readOther = (item: Json, param: string): void => {
    const type = textAt(item.type, `${param}.type`);
    if (type === 'item_reference') notes.reject('kept_conversation', param);
    if (type.startsWith('compaction')) notes.reject('compaction_item', param);
    const call = calls.callOf(item, param);
    const result = calls.resultOf(item, param);
    if (call !== undefined) say(call);
    if (result !== undefined) addResult(turns, result);
    if (call !== undefined || result !== undefined) notes.note('client_tool_history');
    else notes.note(type === 'configuration_update' ? 'provider_options' : 'provider_tool_history');
  };

  eachAt(items, 'input', (item, param) => {
    switch (item.type) {
      case undefined:
      case null:
      case 'message':
        return readMessage(item, param);
      case 'reasoning':
        return say(readReasoning(item, param, notes));
      case 'function_call':
      case 'custom_tool_call':
        return say(readCall(item, param, book));
      case 'function_call_output':
      case 'custom_tool_call_output':
        return addResult(turns, readResult(item, param, notes));
      case 'tool_search_call':
      case 'tool_search_output':
        return readSearch(item, param);
      case 'additional_tools':
        return;
      default:
        return readOther(item, param);
    }
  });
  return { instructions, turns };
}

function readCall(item: Json, param: string, book: ToolBook): ToolCallPart {
  const namespace = optional(item, 'namespace', nameAt, `${param}.`);
  const id = nameAt(item.call_id, `${param}.call_id`);
  const name = book.nameOf(namespace, nameAt(item.name, `${param}.name`));
  const args =
    item.type === 'function_call'
      ? textAt(item.arguments, `${param}.arguments`)
      : freeTextArguments(textAt(item.input, `${param}.input`));
  return { kind: 'tool_call', id, name, arguments: args };
}

function readResult(item: Json, param: string, notes: Notes): ToolResultPart {
  const call_id = nameAt(item.call_id, `${param}.call_id`);
  const parts = readContent(item.output, `${param}.output`, notes).map((part) =>
    part.kind === 'refusal' ? { kind: 'text' as const, text: part.text } : part,
  );
  return { kind: 'tool_result', call_id, parts, is_error: false };
}

function readReasoning(item: Json, param: string, notes: Notes): ReasoningPart {
  const summary = textsOf(item.summary, `${param}.summary`);
  const content = textsOf(item.content, `${param}.content`);
  if (summary.length > 0 && content.length > 0) notes.note('reasoning_content');
  const text = (summary.length > 0 ? summary : content).join('\n\n');
  const encrypted = optional(item, 'encrypted_content', textAt, `${param}.`);
  if (encrypted === undefined || encrypted === '') return { kind: 'reasoning', text };
  const id = optional(item, 'id', textAt, `${param}.`);
  const own = present({ protocol: 'responses', kind: 'encrypted', id: id || undefined } as const);
  return present({ kind: 'reasoning', text, proof: proofFromText(encrypted, own) });
}

function textsOf(value: unknown, param: string): string[] {
  return isAbsent(value) ? [] : eachAt(value, param, ({ text }, at) => textAt(text, `${at}.text`));
}

const FIELDS: ReadonlySet<string> = new Set([
  ...['access_programs', 'background', 'client_metadata', 'context_management', 'conversation', 'image', 'include'],
  ...['input', 'instructions', 'max_output_tokens', 'max_tool_calls', 'metadata', 'model', 'moderation'],
  ...['parallel_tool_calls', 'previous_response_id', 'prompt', 'prompt_cache_key', 'prompt_cache_options'],
  ...['prompt_cache_retention', 'reasoning', 'safety_identifier', 'service_tier', 'store', 'stream', 'stream_options'],
  ...['temperature', 'text', 'tool_choice', 'tools', 'top_logprobs', 'top_p', 'truncation', 'user'],
]);

const REFUSED: readonly (readonly [string, RuleName])[] = [
  ['previous_response_id', 'kept_conversation'],
  ['conversation', 'kept_conversation'],
  ['prompt', 'prompt_template'],
  ['background', 'background'],
];

const DROPPED: readonly (readonly [string, RuleName, unknown?])[] = [
  ['access_programs', 'provider_options'],
  ['client_metadata', 'client_metadata'],
  ['context_management', 'provider_options'],
  ['image', 'provider_options'],
  ['max_tool_calls', 'provider_tool_calls'],
  ['moderation', 'provider_options'],
  ['prompt_cache_options', 'prompt_cache_options'],
  ['top_logprobs', 'token_probabilities', 0],
  ['truncation', 'truncation', 'disabled'],
];

/** Reads a request. Raises invalid_request if it violates the protocol, not_translatable by a rule. */
export function readRequest(body: Json, notes: Notes): Conversation {
  for (const [key, rule] of REFUSED) if (!isAbsent(body[key]) && body[key] !== false) notes.reject(rule, key);
  if (optional(body, 'prompt_cache_options', objectAt)?.prewarm === true)
    notes.reject('cache_prewarm', 'prompt_cache_options.prewarm');
  if (body.generate === false) notes.reject('cache_prewarm', 'generate');
  noteOthers(body, FIELDS, notes);
  for (const [key, rule, ordinary] of DROPPED) if (!isAbsent(body[key]) && body[key] !== ordinary) notes.note(rule);
  noteIncluded(body, notes);
  if (optional(body, 'stream_options', objectAt)?.include_obfuscation === true) notes.note('stream_obfuscation');

  const book = createToolBook(notes);
  if (!isAbsent(body.tools)) book.addAll(body.tools, 'tools');
  addToolsOfInput(body.input, book);
  const { instructions, turns } = readInput(body.input, book, notes);
  const first = optional(body, 'instructions', textAt);
  if (turns.length === 0 && instructions.length === 0 && !first)
    throw invalid('input', 'must be a string, or an array with at least one known item');
  return {
    model: nameAt(body.model, 'model'),
    instructions: first === undefined || first === '' ? instructions : [{ kind: 'text', text: first }, ...instructions],
    turns,
    ...readToolChoice(body.tool_choice, book.tools(), choiceForm(book, notes), notes),
    ...readSettings(body, notes),
    stream: optional(body, 'stream', flagAt) ?? false,
  };
}

function noteIncluded(body: Json, notes: Notes): void {
  for (const name of optional(body, 'include', textsAt) ?? []) {
    if (name === 'message.output_text.logprobs') notes.note('token_probabilities');
    else if (name !== 'reasoning.encrypted_content') notes.note('include');
  }
}

function readSettings(body: Json, notes: Notes) {
  const text = optional(body, 'text', objectAt);
  return present({
    parallel_tool_calls: optional(body, 'parallel_tool_calls', flagAt),
    max_output_tokens: optional(body, 'max_output_tokens', countAt),
    temperature: optional(body, 'temperature', numberAt),
    top_p: optional(body, 'top_p', numberAt),
    reasoning: readReasoningRequest(optional(body, 'reasoning', objectAt), notes),
    output_format: text && readAnswerFormat(text.format, 'text.format', notes),
    verbosity: text && optional(text, 'verbosity', textAt, 'text.'),
    ...readAccount(body, notes),
  });
}

function readReasoningRequest(requested: Json | undefined, notes: Notes): ReasoningRequest | undefined {
  if (requested === undefined) return undefined;
  const written = optional(requested, 'effort', textAt, 'reasoning.');
  const summary =
    optional(requested, 'summary', textAt, 'reasoning.') ??
    optional(requested, 'generate_summary', textAt, 'reasoning.');
  const has_style = summary === 'concise' || summary === 'detailed';
  if (has_style || !isAbsent(requested.context) || !isAbsent(requested.mode)) notes.note('reasoning_options');
  const effort = effortNamed(written, EFFORTS, notes);
  const show = summary === undefined ? undefined : summary !== 'none';
  return effort === undefined && show === undefined ? undefined : present({ effort, show });
}

export function findMadeReasoning({ input }: Json): MadeReasoning {
  const items = itemsOf(input);
  return {
    paths: items.flatMap((item, index): Path[] => (isObject(item) && isMadeItem(item) ? [['input', index]] : [])),
  };
}
