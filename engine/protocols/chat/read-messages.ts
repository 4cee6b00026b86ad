import { invalid, isAbsent, jsonTextAt, listAt, nameAt, noteOthers, objectAt, optional, textAt } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type {
  Part,
  ReasoningPart,
  RefusalPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../translation/conversation.ts';
import { freeTextArguments } from '../translation/features/free-text.ts';
import type { Notes } from '../translation/notes.ts';
import { type ContentPart, cacheMark, readContent, readTexts } from './read-content.ts';

/** The messages of a request, in the words of a conversation. */
export interface ReadMessages {
  readonly instructions: TextPart[];
  readonly turns: Turn[];
}

const FIELDS = new Set(['role', 'content', 'name', 'cache_control']);
const TOOL_FIELDS = new Set([...FIELDS, 'tool_call_id']);
const ASSISTANT_FIELDS = new Set([
  ...FIELDS,
  'refusal',
  'tool_calls',
  'function_call',
  'audio',
  'annotations',
  'reasoning_content',
  'reasoning',
]);

/** Reads the messages of a request. Raises invalid_request and not_translatable. */
export function readMessages(value: unknown, notes: Notes): ReadMessages {
  const messages = listAt(value, 'messages');
  if (messages.length === 0) throw invalid('messages', 'must have at least one message');
  const reader = new MessageReader(notes);
  for (const [index, message] of messages.entries()) {
    reader.read(objectAt(message, `messages.${index}`), `messages.${index}`);
  }
  return reader;
}

class MessageReader implements ReadMessages {
  readonly instructions: TextPart[] = [];
  readonly turns: Turn[] = [];
  readonly #notes: Notes;
  /** Results of the tool messages that stand together; a part of the last turn. */
  #results: Part[] | undefined;
  /** Name and id of the last call in the deprecated form, for the message that answers it. */
  #function: { readonly name: string; readonly id: string } | undefined;

  constructor(notes: Notes) {
    this.#notes = notes;
  }

  read(message: Json, param: string): void {
    const { role } = message;
    if (role !== 'tool' && role !== 'function') this.#results = undefined;
    if (role === 'system' || role === 'developer') this.#readInstructions(message, param);
    else if (role === 'user') this.#readUser(message, param);
    else if (role === 'assistant') this.#readAssistant(message, param);
    else if (role === 'tool') this.#readResult(message, param);
    else if (role === 'function') this.#readFunctionResult(message, param);
    else throw invalid(`${param}.role`, 'must be system, developer, user, assistant or tool');
  }

  #noteFields(message: Json, known: ReadonlySet<string>): void {
    noteOthers(message, known, this.#notes);
    // Some clients repeat the name of the tool in its result, where it says nothing new.
    if (!isAbsent(message.name) && known !== TOOL_FIELDS) this.#notes.note('message_name');
  }

  /** A mark on a message is one on its last part. */
  #add(role: Turn['role'], parts: readonly Part[], message: Json, param: string): void {
    const mark = cacheMark(message, param, this.#notes);
    const last = parts.at(-1);
    const marked = last !== undefined && 'cache' in mark && last.kind !== 'reasoning' && last.kind !== 'refusal';
    this.turns.push({ role, parts: marked ? [...parts.slice(0, -1), { ...last, ...mark }] : parts });
  }

  #readInstructions(message: Json, param: string): void {
    this.#noteFields(message, FIELDS);
    if (isAbsent(message.content)) throw invalid(`${param}.content`, 'is required');
    const texts = readTexts(message.content, `${param}.content`, this.#notes);
    if (this.turns.length > 0) {
      this.#add('instructions', texts, message, param);
      return;
    }
    const mark = cacheMark(message, param, this.#notes);
    const last = texts.at(-1);
    for (const text of texts) this.instructions.push(text === last ? { ...text, ...mark } : text);
  }

  #readUser(message: Json, param: string): void {
    this.#noteFields(message, FIELDS);
    if (isAbsent(message.content)) throw invalid(`${param}.content`, 'is required');
    const parts = withoutRefusals(readContent(message.content, `${param}.content`, this.#notes), param);
    this.#add('user', parts, message, param);
  }

  #readAssistant(message: Json, param: string): void {
    this.#noteFields(message, ASSISTANT_FIELDS);
    if (!isAbsent(message.audio)) this.#notes.refuse('audio', `${param}.audio`);
    const parts: Part[] = [
      ...readReasoning(message, param),
      ...readContent(message.content, `${param}.content`, this.#notes),
    ];
    if (parts.some(({ kind }) => kind === 'image' || kind === 'document')) {
      throw invalid(`${param}.content`, 'must be text or refusal parts in a message of the assistant');
    }
    const refusal = optional(message, 'refusal', textAt, `${param}.`);
    if (refusal !== undefined && refusal !== '') parts.push({ kind: 'refusal', text: refusal });
    const calls = optional(message, 'tool_calls', listAt, `${param}.`) ?? [];
    for (const [index, call] of calls.entries()) {
      const path = `${param}.tool_calls.${index}`;
      parts.push(readCall(objectAt(call, path), path, this.#notes));
    }
    const call = optional(message, 'function_call', objectAt, `${param}.`);
    if (call !== undefined) parts.push(this.#readFunctionCall(call, param));
    // A message without text has an empty one in many clients; beside other parts it says nothing.
    const said = parts.filter((part) => part.kind !== 'text' || part.text !== '');
    this.#add('assistant', said.length > 0 ? said : parts, message, param);
  }

  #readFunctionCall(call: Json, param: string): ToolCallPart {
    this.#notes.note('function_message');
    const name = nameAt(call.name, `${param}.function_call.name`);
    const id = `call_${this.turns.length}`;
    this.#function = { name, id };
    return { kind: 'tool_call', id, name, arguments: textAt(call.arguments, `${param}.function_call.arguments`) };
  }

  #readFunctionResult(message: Json, param: string): void {
    noteOthers(message, FIELDS, this.#notes);
    this.#notes.note('function_message');
    const name = nameAt(message.name, `${param}.name`);
    if (this.#function?.name !== name) throw invalid(`${param}.name`, 'must be the function that was called last');
    this.#addResult(this.#function.id, message, param);
  }

  #readResult(message: Json, param: string): void {
    this.#noteFields(message, TOOL_FIELDS);
    this.#addResult(nameAt(message.tool_call_id, `${param}.tool_call_id`), message, param);
  }

  #addResult(call_id: string, message: Json, param: string): void {
    const content = withoutRefusals(readContent(message.content, `${param}.content`, this.#notes), param);
    // A result that is empty is an empty text here.
    const parts = content.filter((part) => part.kind !== 'text' || part.text !== '');
    const result: ToolResultPart = {
      kind: 'tool_result',
      call_id,
      parts,
      is_error: false,
      ...cacheMark(message, param, this.#notes),
    };
    if (this.#results === undefined) {
      this.#results = [];
      this.turns.push({ role: 'user', parts: this.#results });
    }
    this.#results.push(result);
  }
}

function withoutRefusals(parts: readonly ContentPart[], param: string): Exclude<ContentPart, RefusalPart>[] {
  return parts.map((part, index) => {
    if (part.kind === 'refusal') throw invalid(`${param}.content.${index}.type`, 'must not be refusal in this message');
    return part;
  });
}

function readReasoning(message: Json, param: string): ReasoningPart[] {
  const text =
    optional(message, 'reasoning_content', textAt, `${param}.`) ??
    (typeof message.reasoning === 'string' ? message.reasoning : undefined);
  return text === undefined || text === '' ? [] : [{ kind: 'reasoning', text }];
}

const FUNCTION_FIELDS = new Set(['name', 'arguments', 'parsed_arguments']);
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
  noteOthers(fn, FUNCTION_FIELDS, notes);
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
