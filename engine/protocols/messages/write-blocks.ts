import type {
  CacheTtl,
  DocumentPart,
  ImagePart,
  Part,
  ReasoningPart,
  Source,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../translation/conversation.ts';
import { lateInstructions } from '../translation/features/late-instructions.ts';
import { takenImage } from '../translation/files.ts';
import type { Notes } from '../translation/notes.ts';
import { argumentsObject } from './arguments.ts';

/** A content block, tool or message of a request as it is written. */
export type Block = Record<string, unknown>;

/** A message of a request as it is written. */
export interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: Block[];
}

/** Stands for a message without any text, which upstreams refuse, and without which another would end the conversation. */
const EMPTY_MESSAGE = '(empty message)';

/** The mark on a block up to which the prompt is cached. */
export function cacheControl(ttl: CacheTtl): Block {
  return ttl === '1h' ? { type: 'ephemeral', ttl } : { type: 'ephemeral' };
}

const mark = ({ cache }: { readonly cache?: CacheTtl }): Block =>
  cache === undefined ? {} : { cache_control: cacheControl(cache) };

/** Texts as blocks; blank ones are left out, as upstreams refuse them. */
export function writeTexts(parts: readonly TextPart[], notes: Notes): Block[] {
  return parts.flatMap((part) => {
    if (part.text.trim() !== '') return [{ type: 'text', text: part.text, ...mark(part) }];
    if (part.text !== '') notes.note('blank_text');
    return [];
  });
}

/** Turns as messages that take turns, with the results of tools first. Raises not_translatable by a rule. */
export function writeMessages(turns: readonly Turn[], notes: Notes): Message[] {
  const ids = new CallIds(notes);
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
  const part = takenImage(image, 'messages', notes);
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
  if (!/^text\/|^application\/(json|xml|yaml)\b/.test(media_type)) return notes.refuse('document_type', path);
  return { type: 'text', media_type: 'text/plain', data: Buffer.from(source.data, 'base64').toString('utf8') };
}

function writeReasoning({ text, proof }: ReasoningPart, notes: Notes): Block[] {
  if (proof?.protocol !== 'messages') {
    notes.note('foreign_reasoning');
    return [];
  }
  // Where this upstream signs nothing, that is what it gave.
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
  // A result that is one text may be blank: the output of a program often is.
  if (parts.length === 1 && first?.kind === 'text' && first.cache === undefined) return { content: first.text };
  const content = parts.flatMap((part) => {
    if (part.kind === 'text') return writeTexts([part], notes);
    return [part.kind === 'image' ? writeImage(part, notes) : writeDocument(part, path, notes)];
  });
  return content.length === 0 ? {} : { content };
}

/** Identifiers of tool calls as upstreams take them: of few characters, and no two calls with the same. */
class CallIds {
  readonly #notes: Notes;
  readonly #used = new Set<string>();
  /** The identifier of the latest call by what the client calls it. */
  readonly #latest = new Map<string, string>();
  /** The number of the latest call among those whose identifiers look alike to upstreams. */
  readonly #numbers = new Map<string, number>();

  constructor(notes: Notes) {
    this.#notes = notes;
  }

  called(id: string): string {
    const plain = id.replace(/[^A-Za-z0-9_-]/g, '_');
    let number = this.#numbers.get(plain) ?? 0;
    let unique: string;
    do unique = ++number === 1 ? plain : `${plain}_${number}`;
    while (this.#used.has(unique));
    this.#numbers.set(plain, number);
    if (unique !== id) this.#notes.note('tool_call_id');
    this.#used.add(unique);
    this.#latest.set(id, unique);
    return unique;
  }

  answered(id: string): string {
    return this.#latest.get(id) ?? id.replace(/[^A-Za-z0-9_-]/g, '_');
  }
}
