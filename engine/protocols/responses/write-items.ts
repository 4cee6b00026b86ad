import { present } from '../read-json.ts';
import type {
  Conversation,
  DocumentPart,
  ImagePart,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../translation/conversation.ts';
import { asError } from '../translation/features/error-results.ts';
import { freeTextOf, freeTextTools } from '../translation/features/free-text.ts';
import { DOCUMENT_NAME, documentText, takenImage, urlOf } from '../translation/files.ts';
import type { Notes } from '../translation/notes.ts';

type Item = Record<string, unknown>;

/** Writes the conversation as `input`. Instructions are a developer message, as only that keeps them in separate blocks. */
export function writeItems(conversation: Conversation, notes: Notes): Item[] {
  const writer = new ItemWriter(conversation, notes);
  writer.writeMessage('developer', conversation.instructions);
  for (const turn of conversation.turns) writer.writeTurn(turn);
  return writer.withoutLone();
}

const ROLES = { user: 'user', assistant: 'assistant', instructions: 'developer' } as const;

class ItemWriter {
  readonly items: Item[] = [];
  readonly #notes: Notes;
  readonly #free_text: ReadonlySet<string>;
  /** Calls of free-text tools, whose results are of their own kind. */
  readonly #custom_calls = new Set<string>();

  constructor({ tools }: Conversation, notes: Notes) {
    this.#notes = notes;
    this.#free_text = freeTextTools(tools);
  }

  /** Parts in a row that stand in messages are one message; calls, results and reasoning are items of their own. */
  writeTurn({ role, parts }: Turn): void {
    const before = this.items.length;
    let said: Part[] = [];
    for (const part of parts) {
      const item = this.#ownItem(part);
      if (item === undefined) {
        said.push(part);
        continue;
      }
      this.writeMessage(ROLES[role], said);
      said = [];
      this.items.push(...item);
    }
    this.writeMessage(ROLES[role], said);
    // Without a message that says nothing the one before would be answered.
    if (role === 'user' && this.items.length === before)
      this.items.push({ type: 'message', role, content: [{ type: 'input_text', text: '' }] });
  }

  /** The items without reasoning that led to nothing, as in an answer that was broken off: the protocol refuses it. */
  withoutLone(): Item[] {
    const kept: Item[] = [];
    for (const item of this.items.toReversed()) {
      if (item.type !== 'reasoning' || isSaidByModel(kept.at(-1))) kept.push(item);
      else this.#notes.note('lone_reasoning');
    }
    return kept.reverse();
  }

  writeMessage(role: (typeof ROLES)[Turn['role']], parts: readonly Part[]): void {
    const content = parts.flatMap((part) => this.#content(role, part));
    if (content.length > 0) this.items.push({ type: 'message', role, content });
  }

  #ownItem(part: Part): Item[] | undefined {
    if (part.kind === 'tool_call') return [this.#call(part)];
    if (part.kind === 'tool_result') return [this.#result(part)];
    if (part.kind === 'reasoning') return this.#reasoning(part);
    return undefined;
  }

  #content(role: string, part: Part): Item[] {
    if (part.kind === 'refusal') {
      if (role !== 'assistant') return part.text === '' ? [] : [{ type: 'input_text', text: part.text }];
      return [{ type: 'refusal', refusal: part.text }];
    }
    if (part.kind !== 'text' && part.kind !== 'image' && part.kind !== 'document') return [];
    if (role !== 'assistant') return this.#input(part);
    if (part.kind === 'text') {
      this.#noteCache(part);
      return part.text === '' ? [] : [{ type: 'output_text', text: part.text }];
    }
    this.#notes.note('assistant_file');
    return [];
  }

  #input(part: TextPart | ImagePart | DocumentPart): Item[] {
    this.#noteCache(part);
    if (part.kind === 'text') return part.text === '' ? [] : [{ type: 'input_text', text: part.text }];
    if (part.kind === 'image') {
      const taken = takenImage(part, 'responses', this.#notes);
      if (taken.kind === 'text') return [{ type: 'input_text', text: taken.text }];
      return [{ type: 'input_image', image_url: urlOf(taken.source), detail: taken.detail ?? 'auto' }];
    }
    return [this.#document(part)];
  }

  #document({ source, name }: DocumentPart): Item {
    if (source.kind === 'text') {
      return { type: 'input_text', text: documentText(source.text, name, this.#notes) };
    }
    if (source.kind === 'url') return present({ type: 'input_file', filename: name, file_url: source.url });
    return { type: 'input_file', filename: name ?? DOCUMENT_NAME, file_data: urlOf(source) };
  }

  #call({ id, name, arguments: args, cache }: ToolCallPart): Item {
    if (cache !== undefined) this.#notes.note('part_cache');
    if (!this.#free_text.has(name)) return { type: 'function_call', call_id: id, name, arguments: args };
    this.#custom_calls.add(id);
    return { type: 'custom_tool_call', call_id: id, name, input: freeTextOf(args) };
  }

  #result({ call_id, parts, is_error, cache }: ToolResultPart): Item {
    if (cache !== undefined) this.#notes.note('part_cache');
    const said = is_error ? asError(parts, this.#notes) : parts;
    const content = said.flatMap((part) => this.#input(part));
    const only = content.length === 1 ? content[0]!.text : undefined;
    return {
      type: this.#custom_calls.has(call_id) ? 'custom_tool_call_output' : 'function_call_output',
      call_id,
      output: content.length === 0 ? '' : (only ?? content),
    };
  }

  #reasoning({ text, proof }: ReasoningPart): Item[] {
    if (proof?.protocol !== 'responses' || proof.kind === 'none') {
      this.#notes.note('foreign_reasoning');
      return [];
    }
    return [
      present({
        type: 'reasoning',
        id: proof.id,
        summary: text === '' ? [] : [{ type: 'summary_text', text }],
        encrypted_content: proof.value,
      }),
    ];
  }

  #noteCache({ cache }: { readonly cache?: unknown }): void {
    if (cache !== undefined) this.#notes.note('part_cache');
  }
}

function isSaidByModel(item: Item | undefined): boolean {
  const { type, role } = item ?? {};
  return role === 'assistant' || type === 'reasoning' || type === 'function_call' || type === 'custom_tool_call';
}
