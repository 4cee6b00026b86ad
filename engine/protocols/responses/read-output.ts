import { isObject } from '../read-json.ts';
import type { AnswerParts } from '../stop-reasons.ts';
import type { Json } from '../translation/adapter.ts';
import type { Emit, PartStart } from '../translation/events.ts';
import { escapeFreeText, FREE_TEXT_END, FREE_TEXT_START } from '../translation/features/free-text.ts';
import type { Notes } from '../translation/notes.ts';

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** One part of the answer: how much of its text has been passed on. */
class OpenPart {
  readonly index: number;
  #length = 0;
  #ended = false;

  constructor(index: number, part: PartStart, emit: Emit) {
    this.index = index;
    emit({ type: 'part_start', index, part });
  }

  get empty(): boolean {
    return this.#length === 0;
  }

  add(text: string, emit: Emit, encoded = text): void {
    if (this.#ended || text === '') return;
    this.#length += text.length;
    emit({ type: 'part_delta', index: this.index, text: encoded });
  }

  /** What is missing of the whole text, which counts where pieces were left out. */
  missing(whole: string): string {
    return whole.length > this.#length ? whole.slice(this.#length) : '';
  }

  end(emit: Emit): void {
    if (this.#ended) return;
    this.#ended = true;
    emit({ type: 'part_end', index: this.index });
  }
}

/** Hands out the indexes of the parts of one answer, and remembers what decides why it ended. */
export class Parts {
  readonly notes: Notes;
  #next = 0;
  #kinds = new Set<PartStart['kind']>();

  constructor(notes: Notes) {
    this.notes = notes;
  }

  open(part: PartStart, emit: Emit): OpenPart {
    this.#kinds.add(part.kind);
    return new OpenPart(this.#next++, part, emit);
  }

  /** What decides why a completed answer ended. */
  get said(): AnswerParts {
    return { has_calls: this.#kinds.has('tool_call'), has_refusal: this.#kinds.has('refusal') };
  }

  /** An identifier for a call that came without one. */
  get nextCallId(): string {
    return `call_${this.#next}`;
  }
}

/** One item of the output, as it streams; `done` has it whole and closes its parts. */
export interface OutputItem {
  /** A part with this index inside the item has begun. */
  beginPart(part: Json, inner: number, emit: Emit): void;
  /** A piece of the part with this index inside the item. */
  delta(kind: DeltaKind, inner: number, text: string, emit: Emit): void;
  /** The whole text of the part with this index inside the item. */
  whole(kind: DeltaKind, inner: number, text: string, emit: Emit): void;
  /** The part with this index inside the item has ended. */
  endPart(inner: number, emit: Emit): void;
  done(item: Json, emit: Emit): void;
  close(emit: Emit): void;
}

/** What a piece belongs to. */
export type DeltaKind = 'text' | 'refusal' | 'summary' | 'thought' | 'arguments' | 'input';

/** An item that has begun, by its type. */
export function openItem(item: Json, parts: Parts, emit: Emit): OutputItem {
  switch (item.type) {
    case 'message':
      return new MessageItem(parts);
    case 'reasoning':
      return new ReasoningItem(parts);
    case 'function_call':
    case 'custom_tool_call':
      return new CallItem(item, parts, emit);
    default:
      parts.notes.note('answer_provider_tool');
      return SKIPPED;
  }
}

const SKIPPED: OutputItem = { beginPart() {}, delta() {}, whole() {}, endPart() {}, done() {}, close() {} };

/** Some servers leave the type out. */
const TEXT_PARTS: ReadonlySet<unknown> = new Set([undefined, null, 'output_text', 'text', 'refusal']);

class MessageItem implements OutputItem {
  readonly #parts: Parts;
  readonly #content = new Map<number, OpenPart>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  beginPart({ type }: Json, inner: number, emit: Emit): void {
    this.#part(inner, type === 'refusal' ? 'refusal' : 'text', emit);
  }

  delta(kind: DeltaKind, inner: number, text: string, emit: Emit): void {
    this.#part(inner, kind === 'refusal' ? 'refusal' : 'text', emit).add(text, emit);
  }

  whole(kind: DeltaKind, inner: number, text: string, emit: Emit): void {
    const part = this.#part(inner, kind === 'refusal' ? 'refusal' : 'text', emit);
    part.add(part.missing(text), emit);
  }

  endPart(inner: number, emit: Emit): void {
    this.#content.get(inner)?.end(emit);
  }

  done(item: Json, emit: Emit): void {
    if (item.phase === 'commentary') this.#parts.notes.note('answer_phase');
    for (const [inner, content] of (Array.isArray(item.content) ? item.content : []).entries()) {
      if (!isObject(content)) continue;
      if (!TEXT_PARTS.has(content.type)) {
        this.#parts.notes.note('answer_unknown_part');
        continue;
      }
      if (Array.isArray(content.annotations) && content.annotations.length > 0)
        this.#parts.notes.note('answer_citations');
      const is_refusal = content.type === 'refusal';
      const whole = textOf(is_refusal ? content.refusal : content.text);
      const part = whole === '' ? this.#content.get(inner) : this.#part(inner, is_refusal ? 'refusal' : 'text', emit);
      part?.add(part.missing(whole), emit);
    }
    this.close(emit);
  }

  close(emit: Emit): void {
    for (const part of this.#content.values()) part.end(emit);
  }

  #part(inner: number, kind: 'text' | 'refusal', emit: Emit): OpenPart {
    let part = this.#content.get(inner);
    if (part === undefined) {
      part = this.#parts.open({ kind }, emit);
      this.#content.set(inner, part);
    }
    return part;
  }
}

class ReasoningItem implements OutputItem {
  readonly #parts: Parts;
  #part: OpenPart | undefined;
  /** Which of summary and thought is passed on: the one that came first. */
  #kind: DeltaKind | undefined;
  #inner = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  delta(kind: DeltaKind, inner: number, text: string, emit: Emit) {
    this.#kind ??= kind;
    if (this.#kind !== kind) return this.#parts.notes.note('second_reasoning');
    const part = this.#opened(emit);
    part.add(inner > this.#inner && !part.empty ? `\n\n${text}` : text, emit);
    this.#inner = inner;
  }

  whole(kind: DeltaKind, inner: number, text: string, emit: Emit): void {
    if (this.#part === undefined || inner > this.#inner) this.delta(kind, inner, text, emit);
  }

  beginPart(): void {}

  endPart(): void {}

  done(item: Json, emit: Emit): void {
    const summary = joined(item.summary);
    const whole = this.#kind === 'thought' || summary === '' ? joined(item.content) : summary;
    const encrypted = textOf(item.encrypted_content);
    if (whole !== '' || encrypted !== '') {
      const part = this.#opened(emit);
      part.add(part.missing(whole), emit);
      if (encrypted !== '') emit({ type: 'proof', index: part.index, proof: proofOf(item, encrypted) });
    }
    this.close(emit);
  }

  close(emit: Emit): void {
    this.#part?.end(emit);
  }

  #opened(emit: Emit): OpenPart {
    this.#part ??= this.#parts.open({ kind: 'reasoning' }, emit);
    return this.#part;
  }
}

function proofOf({ id }: Json, value: string) {
  return {
    protocol: 'responses',
    kind: 'encrypted',
    value,
    ...(typeof id === 'string' && id !== '' && { id }),
  } as const;
}

function joined(value: unknown): string {
  const texts = (Array.isArray(value) ? value : []).filter(isObject).map(({ text }) => textOf(text));
  return texts.filter((text) => text !== '').join('\n\n');
}

class CallItem implements OutputItem {
  readonly #part: OpenPart;
  readonly #free_text: boolean;
  #begun = false;

  constructor(item: Json, parts: Parts, emit: Emit) {
    this.#free_text = item.type === 'custom_tool_call';
    const id = textOf(item.call_id) || textOf(item.id) || parts.nextCallId;
    const name = textOf(item.name);
    const namespace = textOf(item.namespace);
    this.#part = parts.open({ kind: 'tool_call', id, name: namespace === '' ? name : `${namespace}__${name}` }, emit);
    this.#add(textOf(this.#free_text ? item.input : item.arguments), emit);
  }

  delta(_kind: DeltaKind, _inner: number, text: string, emit: Emit): void {
    this.#add(text, emit);
  }

  whole(_kind: DeltaKind, _inner: number, text: string, emit: Emit): void {
    this.#add(this.#part.missing(text), emit);
  }

  beginPart(): void {}

  endPart(): void {}

  done(item: Json, emit: Emit): void {
    this.#add(this.#part.missing(textOf(this.#free_text ? item.input : item.arguments)), emit);
    this.close(emit);
  }

  close(emit: Emit): void {
    if (this.#free_text) {
      this.#begin(emit);
      emit({ type: 'part_delta', index: this.#part.index, text: FREE_TEXT_END });
    }
    this.#part.end(emit);
  }

  #add(text: string, emit: Emit): void {
    if (text === '') return;
    if (this.#free_text) this.#begin(emit);
    this.#part.add(text, emit, this.#free_text ? escapeFreeText(text) : text);
  }

  #begin(emit: Emit): void {
    if (this.#begun) return;
    this.#begun = true;
    emit({ type: 'part_delta', index: this.#part.index, text: FREE_TEXT_START });
  }
}
