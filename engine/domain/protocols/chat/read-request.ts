import {
  countAt,
  eachAt,
  flagAt,
  invalid,
  isAbsent,
  jsonTextAt,
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
import { readAnswerFormat, readToolChoice } from '../translation/choices.ts';
import type {
  CacheTtl,
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
  Turn,
} from '../translation/conversation.ts';
import { EFFORTS } from '../translation/conversation.ts';
import { addResult, effortNamed, readAccount, readBreakpoint } from '../translation/features.ts';
import { filePart, readFileData, readUrl } from '../translation/files.ts';
import { FREE_TEXT_PARAMETERS, freeTextArguments, withGrammar } from '../translation/free-text.ts';
import type { Notes, RuleName } from '../translation/rules.ts';
import { readSchema } from '../translation/tool-schemas.ts';

type ContentPart = TextPart | ImagePart | DocumentPart | RefusalPart;

const CACHE_FIELDS = ['type', 'cache_control', 'prompt_cache_breakpoint'];
const TEXT_FIELDS = new Set([...CACHE_FIELDS, 'text']);
const REFUSAL_FIELDS = new Set([...CACHE_FIELDS, 'refusal']);
const IMAGE_FIELDS = new Set([...CACHE_FIELDS, 'image_url']);
const FILE_FIELDS = new Set([...CACHE_FIELDS, 'file']);

function cacheMark(object: Json, param: string, notes: Notes): { readonly cache?: CacheTtl } {
  const control = optional(object, 'cache_control', objectAt, `${param}.`);
  if (control !== undefined) return { cache: control.ttl === '1h' ? '1h' : '5m' };
  return readBreakpoint(object, param, notes);
}

function readContent(content: unknown, param: string, notes: Notes): ContentPart[] {
  if (isAbsent(content)) return [];
  if (typeof content === 'string') return [{ kind: 'text', text: content }];
  if (!Array.isArray(content)) throw invalid(param, 'must be a string or an array of content parts');
  return eachAt(content, param, (part, at) => readPart(part, at, notes));
}

function readTexts(content: unknown, param: string, notes: Notes): TextPart[] {
  return readContent(content, param, notes).map((part, index) => {
    if (part.kind !== 'text') throw invalid(`${param}.${index}.type`, 'must be text in a message of this role');
    return part;
  });
}

function readPart(part: Json, param: string, notes: Notes): ContentPart {
  const mark = cacheMark(part, param, notes);
  switch (part.type) {
    case 'text':
      noteOthers(part, TEXT_FIELDS, notes);
      return { kind: 'text', text: textAt(part.text, `${param}.text`), ...mark };
    case 'refusal':
      noteOthers(part, REFUSAL_FIELDS, notes);
      return { kind: 'refusal', text: textAt(part.refusal, `${param}.refusal`) };
    case 'image_url':
      noteOthers(part, IMAGE_FIELDS, notes);
      return { ...readImage(part.image_url, `${param}.image_url`, notes), ...mark };
    case 'file':
      noteOthers(part, FILE_FIELDS, notes);
      return { ...readFile(objectAt(part.file, `${param}.file`), `${param}.file`, notes), ...mark };
    case 'input_audio':
      return notes.reject('audio', param);
    default:
      throw invalid(`${param}.type`, 'must be text, image_url, file, input_audio or refusal');
  }
}

const IMAGE_URL_FIELDS = new Set(['url', 'detail']);

function readImage(value: unknown, param: string, notes: Notes): ImagePart | DocumentPart {
  // Some clients give the URL itself.
  if (typeof value === 'string') return filePart({ kind: 'image', source: readUrl(value, param) });
  const image = objectAt(value, param);
  noteOthers(image, IMAGE_URL_FIELDS, notes);
  const source = readUrl(nameAt(image.url, `${param}.url`), `${param}.url`);
  const detail = optional(image, 'detail', textAt, `${param}.`);
  return filePart({ kind: 'image', source, ...(detail !== undefined && detail !== 'auto' && { detail }) });
}

const FILE_OBJECT_FIELDS = new Set(['file_data', 'file_id', 'filename']);

function readFile(file: Json, param: string, notes: Notes): ImagePart | DocumentPart {
  noteOthers(file, FILE_OBJECT_FIELDS, notes);
  if (isAbsent(file.file_data)) {
    if (!isAbsent(file.file_id)) notes.reject('file_reference', `${param}.file_id`);
    throw invalid(`${param}.file_data`, 'is required: a data: URL with the bytes of the file in base64');
  }
  const path = `${param}.file_data`;
  const source = readFileData(nameAt(file.file_data, path), path);
  return filePart({ kind: 'document', source, ...present({ name: optional(file, 'filename', textAt, `${param}.`) }) });
}

const MESSAGE_FIELDS = new Set(['role', 'content', 'name', 'cache_control']);
const TOOL_MESSAGE_FIELDS = new Set([...MESSAGE_FIELDS, 'tool_call_id']);
const ASSISTANT_FIELDS = new Set([
  ...MESSAGE_FIELDS,
  ...['refusal', 'tool_calls', 'function_call', 'audio', 'annotations', 'reasoning_content', 'reasoning'],
]);

function readMessages(value: unknown, notes: Notes): Pick<Conversation, 'instructions' | 'turns'> {
  const instructions: TextPart[] = [];
  const turns: { role: Turn['role']; parts: Part[] }[] = [];
  /** Name and id of the last call in the deprecated form, for its result. */
  let called: { readonly name: string; readonly id: string } | undefined;

  const noteFields = (message: Json, known: ReadonlySet<string>): void => {
    noteOthers(message, known, notes);
    // Some clients repeat the tool's name in its result, which is redundant.
    if (!isAbsent(message.name) && known !== TOOL_MESSAGE_FIELDS) notes.note('message_name');
  };

  /** Adds a message; a mark on it applies to its last part. */
  const add = (role: Turn['role'], parts: Part[], message: Json, param: string): void => {
    const mark = cacheMark(message, param, notes);
    const last = parts.at(-1);
    const marked = last !== undefined && 'cache' in mark && last.kind !== 'reasoning' && last.kind !== 'refusal';
    turns.push({ role, parts: marked ? [...parts.slice(0, -1), { ...last, ...mark }] : parts });
  };

  const readInstructions = (message: Json, param: string) => {
    noteFields(message, MESSAGE_FIELDS);
    if (isAbsent(message.content)) throw invalid(`${param}.content`, 'is required');
    const texts = readTexts(message.content, `${param}.content`, notes);
    if (turns.length > 0) return add('instructions', texts, message, param);
    const mark = cacheMark(message, param, notes);
    const last = texts.at(-1);
    for (const text of texts) instructions.push(text === last ? { ...text, ...mark } : text);
  };

  const readUserMessage = (message: Json, param: string): void => {
    noteFields(message, MESSAGE_FIELDS);
    if (isAbsent(message.content)) throw invalid(`${param}.content`, 'is required');
    add('user', withoutRefusals(readContent(message.content, `${param}.content`, notes), param), message, param);
  };

  const readFunctionCall = (call: Json, param: string): ToolCallPart => {
    notes.note('function_message');
    const name = nameAt(call.name, `${param}.function_call.name`);
    const id = `call_${turns.length}`;
    called = { name, id };
    return { kind: 'tool_call', id, name, arguments: textAt(call.arguments, `${param}.function_call.arguments`) };
  };

  const readAssistant = (message: Json, param: string): void => {
    noteFields(message, ASSISTANT_FIELDS);
    if (!isAbsent(message.audio)) notes.reject('audio', `${param}.audio`);
    const parts: Part[] = [...readThoughts(message, param), ...readContent(message.content, `${param}.content`, notes)];
    if (parts.some(({ kind }) => kind === 'image' || kind === 'document')) {
      throw invalid(`${param}.content`, 'must be text or refusal parts in a message of the assistant');
    }
    const refusal = optional(message, 'refusal', textAt, `${param}.`);
    if (refusal !== undefined && refusal !== '') parts.push({ kind: 'refusal', text: refusal });
    const readCalls = (calls: unknown, path: string) =>
      eachAt(calls, path, (call, at) => parts.push(readCall(call, at, notes)));
    optional(message, 'tool_calls', readCalls, `${param}.`);
    const call = optional(message, 'function_call', objectAt, `${param}.`);
    if (call !== undefined) parts.push(readFunctionCall(call, param));
    // Many clients add an empty text to a message without text; beside other parts it is ignored.
    const spoken = parts.filter((part) => part.kind !== 'text' || part.text !== '');
    add('assistant', spoken.length > 0 ? spoken : parts, message, param);
  };

  const readResult = (call_id: string, message: Json, param: string): void => {
    const content = withoutRefusals(readContent(message.content, `${param}.content`, notes), param);
    const parts = content.filter((part) => part.kind !== 'text' || part.text !== '');
    const mark = cacheMark(message, param, notes);
    addResult(turns, { kind: 'tool_result', call_id, parts, is_error: false, ...mark });
  };

  const readFunctionResult = (message: Json, param: string): void => {
    noteOthers(message, MESSAGE_FIELDS, notes);
    notes.note('function_message');
    const name = nameAt(message.name, `${param}.name`);
    if (called?.name !== name) throw invalid(`${param}.name`, 'must be the function that was called last');
    readResult(called.id, message, param);
  };

  const messages = eachAt(value, 'messages', (message, param) => {
    switch (message.role) {
      case 'system':
      case 'developer':
        return readInstructions(message, param);
      case 'user':
        return readUserMessage(message, param);
      case 'assistant':
        return readAssistant(message, param);
      case 'tool':
        noteFields(message, TOOL_MESSAGE_FIELDS);
        return readResult(nameAt(message.tool_call_id, `${param}.tool_call_id`), message, param);
      case 'function':
        return readFunctionResult(message, param);
      default:
        throw invalid(`${param}.role`, 'must be system, developer, user, assistant or tool');
    }
  });
  if (messages.length === 0) throw invalid('messages', 'must have at least one message');
  return { instructions, turns };
}

function withoutRefusals(parts: readonly ContentPart[], param: string): Exclude<ContentPart, RefusalPart>[] {
  return parts.map((part, index) => {
    if (part.kind === 'refusal') throw invalid(`${param}.content.${index}.type`, 'must not be refusal in this message');
    return part;
  });
}

function readThoughts(message: Json, param: string): ReasoningPart[] {
  const text =
    optional(message, 'reasoning_content', textAt, `${param}.`) ??
    (typeof message.reasoning === 'string' ? message.reasoning : undefined);
  return text === undefined || text === '' ? [] : [{ kind: 'reasoning', text }];
}

const CALLED_FIELDS = new Set(['name', 'arguments', 'parsed_arguments']);
const CALL_FIELDS = new Set(['id', 'type', 'function', 'custom', 'index', 'cache_control']);

function readCall(call: Json, param: string, notes: Notes): ToolCallPart {
  noteOthers(call, CALL_FIELDS, notes);
  const id = nameAt(call.id, `${param}.id`);
  const mark = cacheMark(call, param, notes);
  if (call.type === 'custom') {
    const custom = objectAt(call.custom, `${param}.custom`);
    const input = textAt(custom.input, `${param}.custom.input`);
    const name = nameAt(custom.name, `${param}.custom.name`);
    return { kind: 'tool_call', id, name, arguments: freeTextArguments(input), ...mark };
  }
  if (!isAbsent(call.type) && call.type !== 'function') throw invalid(`${param}.type`, 'must be function or custom');
  const fn = objectAt(call.function, `${param}.function`);
  noteOthers(fn, CALLED_FIELDS, notes);
  const path = `${param}.function.arguments`;
  // Some clients give the arguments as an object.
  const text =
    typeof fn.arguments === 'object' && fn.arguments !== null ? jsonTextAt(fn.arguments, path) : fn.arguments;
  return {
    kind: 'tool_call',
    id,
    name: nameAt(fn.name, `${param}.function.name`),
    arguments: isAbsent(text) || text === '' ? '{}' : textAt(text, path),
    ...mark,
  };
}

type ToolFields = Pick<Conversation, 'tools' | 'tool_choice' | 'parallel_tool_calls'>;

const FUNCTION_FIELDS = new Set(['name', 'description', 'parameters', 'strict', 'cache_control']);
const CUSTOM_FIELDS = new Set(['name', 'description', 'format']);
const TOOL_FIELDS = new Set(['type', 'function', 'custom', 'cache_control']);

function readTools(body: Json, notes: Notes): ToolFields {
  if (!isAbsent(body.functions)) notes.reject('functions', 'functions');
  if (!isAbsent(body.function_call)) notes.reject('functions', 'function_call');
  const all = eachAt(body.tools ?? [], 'tools', (tool, at) => readTool(tool, at, notes));
  const own = all.filter((tool) => tool !== undefined);
  if (own.length < all.length || !isAbsent(body.web_search_options)) {
    if (own.length === 0) notes.reject('only_provider_tools', all.length > 0 ? 'tools' : 'web_search_options');
    notes.note('provider_tool');
  }
  const parallel_tool_calls = optional(body, 'parallel_tool_calls', flagAt);
  return { ...readToolChoice(body.tool_choice, own, CHOICE_FORM, notes), ...present({ parallel_tool_calls }) };
}

function readTool(tool: Json, param: string, notes: Notes): Tool | undefined {
  const type = nameAt(tool.type ?? 'function', `${param}.type`);
  if (type !== 'function' && type !== 'custom') return undefined;
  noteOthers(tool, TOOL_FIELDS, notes);
  const read = type === 'function' ? readFunction : readCustom;
  return read(tool, objectAt(tool[type], `${param}.${type}`), param, notes);
}

function readFunction(tool: Json, fn: Json, param: string, notes: Notes): Tool {
  const path = `${param}.function.`;
  noteOthers(fn, FUNCTION_FIELDS, notes);
  return present({
    name: nameAt(fn.name, `${path}name`),
    parameters: readSchema(fn.parameters, `${path}parameters`),
    description: optional(fn, 'description', textAt, path),
    strict: optional(fn, 'strict', flagAt, path),
    ...cacheMark(fn, `${param}.function`, notes),
    ...cacheMark(tool, param, notes),
  });
}

function readCustom(tool: Json, custom: Json, param: string, notes: Notes): Tool {
  const path = `${param}.custom.`;
  noteOthers(custom, CUSTOM_FIELDS, notes);
  const format = optional(custom, 'format', objectAt, path);
  const spoken = optional(custom, 'description', textAt, path);
  const grammar = format?.type === 'grammar' ? objectAt(format.grammar, `${path}format.grammar`) : undefined;
  const description = grammar ? withGrammar(spoken, grammar, `${path}format.grammar`, notes) : spoken;
  const name = nameAt(custom.name, `${path}name`);
  return present({
    ...{ name, parameters: FREE_TEXT_PARAMETERS, free_text: true, description },
    ...cacheMark(tool, param, notes),
  });
}

const CHOICE_FORM = {
  /** The name in `{type: 'function', function: {name}}` or `{type: 'custom', custom: {name}}`. */
  nameOf(choice: Json, param: string) {
    const type = choice.type === 'custom' ? 'custom' : 'function';
    return nameAt(objectAt(choice[type], `${param}.${type}`).name, `${param}.${type}.name`);
  },
  allowedIn({ allowed_tools }: Json) {
    const path = 'tool_choice.allowed_tools';
    const allowed = objectAt(allowed_tools, path);
    const { mode } = allowed;
    if (mode !== 'auto' && mode !== 'required') throw invalid(`${path}.mode`, 'must be auto or required');
    return [allowed, path] as const;
  },
  reject(choice: unknown): never {
    objectAt(choice, 'tool_choice');
    const forms = 'must be none, auto, required, or an object of type function, custom or allowed_tools';
    throw invalid('tool_choice', forms);
  },
  rejects_none: false,
};

const DROPPED: Readonly<Record<string, RuleName>> = {
  logprobs: 'token_probabilities',
  top_logprobs: 'token_probabilities',
  logit_bias: 'logit_bias',
  prediction: 'prediction',
  moderation: 'moderation',
  prompt_cache_options: 'prompt_cache_options',
};

const FIELDS = new Set([
  ...Object.keys(DROPPED),
  ...['messages', 'model', 'audio', 'frequency_penalty', 'function_call', 'functions', 'max_completion_tokens'],
  ...['max_tokens', 'metadata', 'modalities', 'n', 'parallel_tool_calls', 'presence_penalty', 'prompt_cache_key'],
  ...['prompt_cache_retention', 'reasoning_effort', 'response_format', 'safety_identifier', 'seed', 'service_tier'],
  ...['stop', 'store', 'stream', 'stream_options', 'temperature', 'tool_choice', 'tools', 'top_k', 'top_p', 'user'],
  ...['verbosity', 'web_search_options'],
]);

const STREAM_FIELDS = new Set(['include_usage', 'include_obfuscation']);

/** Reads a client's request. Raises invalid_request, and not_translatable by a rule. */
export function readRequest(body: Json, notes: Notes): Conversation {
  noteOthers(body, FIELDS, notes);
  recordDropped(body, notes);
  refuseOthers(body, notes);
  return {
    model: nameAt(body.model, 'model'),
    ...readMessages(body.messages, notes),
    ...readTools(body, notes),
    ...readSampling(body),
    ...present({
      reasoning: readReasoning(body, notes),
      output_format: readAnswerFormat(body.response_format, 'response_format', notes, 'json_schema'),
      verbosity: optional(body, 'verbosity', textAt),
      ...readAccount(body, notes),
    }),
    stream: optional(body, 'stream', flagAt) ?? false,
  };
}

function recordDropped(body: Json, notes: Notes): void {
  for (const [field, rule] of Object.entries(DROPPED)) {
    const value = body[field];
    if (!isAbsent(value) && value !== false && value !== 0) notes.note(rule);
  }
  const options = optional(body, 'stream_options', objectAt) ?? {};
  noteOthers(options, STREAM_FIELDS, notes);
  if (options.include_obfuscation === true) notes.note('stream_obfuscation');
}

function refuseOthers(body: Json, notes: Notes): void {
  if ((optional(body, 'n', countAt) ?? 1) > 1) notes.reject('several_choices', 'n');
  const modalities = optional(body, 'modalities', listAt) ?? [];
  if (modalities.some((modality) => modality !== 'text')) notes.reject('audio', 'modalities');
}

function readSampling(body: Json): Partial<Conversation> {
  return present({
    max_output_tokens: optional(body, 'max_completion_tokens', countAt) ?? optional(body, 'max_tokens', countAt),
    temperature: optional(body, 'temperature', numberAt),
    // Default values are omitted: some upstreams reject top_p beside temperature, others have no penalties.
    top_p: unless(1, optional(body, 'top_p', numberAt)),
    top_k: optional(body, 'top_k', numberAt),
    frequency_penalty: unless(0, optional(body, 'frequency_penalty', numberAt)),
    presence_penalty: unless(0, optional(body, 'presence_penalty', numberAt)),
    seed: optional(body, 'seed', numberAt),
    stop: optional(body, 'stop', stopAt),
  });
}

function unless(usual: number, value: number | undefined): number | undefined {
  return value === usual ? undefined : value;
}

function stopAt(value: unknown, param: string): readonly string[] | undefined {
  const stop = typeof value === 'string' ? [value] : textsAt(value, param);
  return stop.length > 0 ? stop : undefined;
}

function readReasoning(body: Json, notes: Notes): ReasoningRequest | undefined {
  const effort = effortNamed(optional(body, 'reasoning_effort', textAt), EFFORTS, notes);
  return effort && { effort };
}
