import { invalid, isAbsent, isObject, jsonTextAt, listAt, nameAt, objectAt, optional, textAt } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { Part, ReasoningPart, TextPart, ToolResultPart, Turn } from '../translation/conversation.ts';
import { freeTextArguments } from '../translation/features/free-text.ts';
import type { Notes } from '../translation/notes.ts';
import { proofFromText } from '../translation/proof.ts';
import { ClientCalls } from './read-client-calls.ts';
import { readContent } from './read-content.ts';
import { describeFound, type ToolBook } from './read-tools.ts';

/** What the input of a request says. */
export interface ReadInput {
  readonly instructions: readonly TextPart[];
  readonly turns: readonly Turn[];
}

/** Adds the tools that stand in the input, which the names of calls depend on. Raises invalid_request. */
export function addToolsOfInput(input: unknown, book: ToolBook): void {
  if (!Array.isArray(input)) return;
  for (const [index, item] of input.entries()) {
    if (isObject(item) && (item.type === 'additional_tools' || item.type === 'tool_search_output')) {
      book.addAll(item.tools, `input.${index}.tools`);
    }
  }
}

/** Reads `input`. Raises invalid_request and not_translatable. */
export function readInput(input: unknown, book: ToolBook, notes: Notes): ReadInput {
  if (isAbsent(input)) return { instructions: [], turns: [] };
  if (typeof input === 'string')
    return { instructions: [], turns: [{ role: 'user', parts: [{ kind: 'text', text: input }] }] };
  const items = listAt(input, 'input');
  const reader = new InputReader(book, new ClientCalls(items), notes);
  for (const [index, item] of items.entries()) {
    reader.read(objectAt(item, `input.${index}`), `input.${index}`);
  }
  return reader;
}

const ROLES: Readonly<Record<string, Turn['role']>> = {
  user: 'user',
  assistant: 'assistant',
  system: 'instructions',
  developer: 'instructions',
};

class InputReader implements ReadInput {
  readonly instructions: TextPart[] = [];
  readonly turns: { role: Turn['role']; parts: Part[] }[] = [];
  readonly #book: ToolBook;
  readonly #calls: ClientCalls;
  readonly #notes: Notes;

  constructor(book: ToolBook, calls: ClientCalls, notes: Notes) {
    this.#book = book;
    this.#calls = calls;
    this.#notes = notes;
  }

  read(item: Json, param: string) {
    switch (item.type) {
      case undefined:
      case null:
      case 'message':
        return this.#readMessage(item, param);
      case 'reasoning':
        return this.#say(readReasoning(item, param, this.#notes));
      case 'function_call':
      case 'custom_tool_call':
        return this.#readCall(item, param);
      case 'function_call_output':
      case 'custom_tool_call_output':
        return this.#answer(this.#readResult(item, param));
      case 'tool_search_call':
      case 'tool_search_output':
        return this.#readSearch(item, param);
      case 'additional_tools':
        return;
      default:
        return this.#readOther(item, param);
    }
  }

  #readMessage(item: Json, param: string) {
    if (item.type === undefined && item.content === undefined && typeof item.id === 'string') {
      return this.#notes.refuse('kept_conversation', param);
    }
    const role = typeof item.role === 'string' && Object.hasOwn(ROLES, item.role) ? ROLES[item.role] : undefined;
    if (role === undefined) throw invalid(`${param}.role`, 'must be user, assistant, system or developer');
    if (!isAbsent(item.phase)) this.#notes.note('message_phase');
    const parts = readContent(item.content, `${param}.content`, this.#notes);
    if (parts.length === 0 && role !== 'user') return;
    if (role === 'instructions' && this.turns.length === 0 && parts.every((part) => part.kind === 'text')) {
      for (const part of parts) this.instructions.push(part);
    } else if (role === 'assistant') {
      for (const part of parts) this.#say(part);
    } else {
      this.turns.push({ role, parts });
    }
  }

  /** All that the model says in a row is one turn. */
  #say(part: Part): void {
    const last = this.turns.at(-1);
    if (last?.role === 'assistant') last.parts.push(part);
    else this.turns.push({ role: 'assistant', parts: [part] });
  }

  /** Results in a row are one turn; what the user says after them is the next. */
  #answer(result: ToolResultPart): void {
    const last = this.turns.at(-1);
    if (last?.role === 'user' && last.parts.at(-1)?.kind === 'tool_result') last.parts.push(result);
    else this.turns.push({ role: 'user', parts: [result] });
  }

  #readCall(item: Json, param: string): void {
    const namespace = optional(item, 'namespace', nameAt, `${param}.`);
    const id = nameAt(item.call_id, `${param}.call_id`);
    const name = this.#book.nameOf(namespace, nameAt(item.name, `${param}.name`));
    const args =
      item.type === 'function_call'
        ? textAt(item.arguments, `${param}.arguments`)
        : freeTextArguments(textAt(item.input, `${param}.input`));
    this.#say({ kind: 'tool_call', id, name, arguments: args });
  }

  #readResult(item: Json, param: string): ToolResultPart {
    const call_id = nameAt(item.call_id, `${param}.call_id`);
    const parts = readContent(item.output, `${param}.output`, this.#notes).map((part) =>
      part.kind === 'refusal' ? { kind: 'text' as const, text: part.text } : part,
    );
    return { kind: 'tool_result', call_id, parts, is_error: false };
  }

  /** A search that the provider ran has no call identifier; its tools were added all the same. */
  #readSearch(item: Json, param: string) {
    if (item.execution === 'server' || typeof item.call_id !== 'string')
      return this.#notes.note('provider_tool_history');
    const id = nameAt(item.call_id, `${param}.call_id`);
    if (item.type === 'tool_search_call') {
      const args = jsonTextAt(item.arguments ?? {}, `${param}.arguments`);
      const name = this.#book.search ?? 'tool_search';
      return this.#say({ kind: 'tool_call', id, name, arguments: args });
    }
    const text = describeFound(item.tools, this.#book);
    this.#answer({ kind: 'tool_result', call_id: id, parts: [{ kind: 'text', text }], is_error: false });
  }

  #readOther(item: Json, param: string): void {
    const type = textAt(item.type, `${param}.type`);
    if (type === 'item_reference') this.#notes.refuse('kept_conversation', param);
    if (type.startsWith('compaction')) this.#notes.refuse('compaction_item', param);
    const call = this.#calls.callOf(item, param);
    const result = this.#calls.resultOf(item, param);
    if (call !== undefined) this.#say(call);
    if (result !== undefined) this.#answer(result);
    if (call !== undefined || result !== undefined) this.#notes.note('client_tool_history');
    else this.#notes.note(type === 'configuration_update' ? 'provider_options' : 'provider_tool_history');
  }
}

function readReasoning(item: Json, param: string, notes: Notes): ReasoningPart {
  const summary = textsOf(item.summary, `${param}.summary`);
  const content = textsOf(item.content, `${param}.content`);
  if (summary.length > 0 && content.length > 0) notes.note('reasoning_content');
  const text = (summary.length > 0 ? summary : content).join('\n\n');
  const encrypted = optional(item, 'encrypted_content', textAt, `${param}.`);
  if (encrypted === undefined || encrypted === '') return { kind: 'reasoning', text };
  const id = optional(item, 'id', textAt, `${param}.`);
  const proof = proofFromText(encrypted, {
    protocol: 'responses',
    kind: 'encrypted',
    ...(id !== undefined && id !== '' && { id }),
  });
  return { kind: 'reasoning', text, ...(proof && { proof }) };
}

function textsOf(value: unknown, param: string): string[] {
  if (isAbsent(value)) return [];
  return listAt(value, param).map((part, index) =>
    textAt(objectAt(part, `${param}.${index}`).text, `${param}.${index}.text`),
  );
}
