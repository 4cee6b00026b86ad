import type { ResponseEvent } from '../../contract/stage.ts';
import { brokenAnswer, notComplete, parseEvent } from '../answer-parts.ts';
import { readProblem } from '../errors.ts';
import { isError } from '../read-error.ts';
import { isAbsent, isObject, present } from '../read-json.ts';
import { type AnswerParts, readEnd, saysReason } from '../stop-reasons.ts';
import {
  type Emit,
  type Json,
  type ModelEvent,
  type PartStart,
  type StopReason,
  type StreamReader,
  startOfAnswer,
} from '../translation/conversation.ts';
import { escapeFreeText, FREE_TEXT_END, FREE_TEXT_START } from '../translation/free-text.ts';
import type { Notes } from '../translation/rules.ts';
import { newUsageReading, usageIn } from '../usage.ts';
import { takeResponseUsage } from './reported-usage.ts';

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
class Parts {
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
interface OutputItem {
  beginPart(part: Json, inner: number, emit: Emit): void;
  delta(kind: DeltaKind, inner: number, text: string, emit: Emit): void;
  whole(kind: DeltaKind, inner: number, text: string, emit: Emit): void;
  endPart(inner: number, emit: Emit): void;
  done(item: Json, emit: Emit): void;
  close(emit: Emit): void;
}

/** What a piece belongs to. */
type DeltaKind = 'text' | 'refusal' | 'summary' | 'thought' | 'arguments' | 'input';

function openItem(item: Json, parts: Parts, emit: Emit): OutputItem {
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

interface TextEvent {
  readonly kind: DeltaKind;
  readonly field: string;
  readonly index: 'content_index' | 'summary_index';
  /** The item that has begun where no event said so; a call without its name cannot be made up for. */
  readonly item?: 'message' | 'reasoning';
}

const MESSAGE = { index: 'content_index', item: 'message' } as const;
const SUMMARY = { index: 'summary_index', item: 'reasoning' } as const;
const THOUGHT = { index: 'content_index', item: 'reasoning' } as const;
const CALL = { index: 'content_index' } as const;

const DELTAS: ReadonlyMap<string, TextEvent> = new Map([
  ['response.output_text.delta', { kind: 'text', field: 'delta', ...MESSAGE }],
  ['response.refusal.delta', { kind: 'refusal', field: 'delta', ...MESSAGE }],
  ['response.reasoning_summary_text.delta', { kind: 'summary', field: 'delta', ...SUMMARY }],
  ['response.reasoning_text.delta', { kind: 'thought', field: 'delta', ...THOUGHT }],
  ['response.function_call_arguments.delta', { kind: 'arguments', field: 'delta', ...CALL }],
  ['response.custom_tool_call_input.delta', { kind: 'input', field: 'delta', ...CALL }],
]);

/** Events that repeat a text whole; some servers send nothing of it before. */
const WHOLES: ReadonlyMap<string, TextEvent> = new Map([
  ['response.output_text.done', { kind: 'text', field: 'text', ...MESSAGE }],
  ['response.refusal.done', { kind: 'refusal', field: 'refusal', ...MESSAGE }],
  ['response.reasoning_summary_text.done', { kind: 'summary', field: 'text', ...SUMMARY }],
  ['response.reasoning_text.done', { kind: 'thought', field: 'text', ...THOUGHT }],
  ['response.function_call_arguments.done', { kind: 'arguments', field: 'arguments', ...CALL }],
  ['response.custom_tool_call_input.done', { kind: 'input', field: 'input', ...CALL }],
]);

const FAILED: ReadonlySet<unknown> = new Set(['failed', 'cancelled']);

const ENDED: ReadonlySet<unknown> = new Set(['completed', 'incomplete', ...FAILED]);

const CANCELLED = 'The upstream cancelled its answer. Send the request again.';

/** Reads one answer, as it streams or whole. */
export class ResponsesReader implements StreamReader {
  readonly #parts: Parts;
  readonly #notes: Notes;
  readonly #items = new Map<unknown, OutputItem | 'done'>();
  /** Items came that cannot be told from those that the last event repeats. */
  #nameless = false;
  /** The type of the open item that has no key. */
  #nameless_type: unknown;
  /** Indexes of items by their identifiers, as some servers tell the one here and the other there. */
  readonly #indexes = new Map<unknown, unknown>();
  #started = false;
  #over = false;

  constructor(notes: Notes) {
    this.#parts = new Parts(notes);
    this.#notes = notes;
  }

  read({ name, data }: ResponseEvent, emit: Emit) {
    if (this.#over || data === '[DONE]') return;
    if (name === 'error') return this.#fail(data, emit);
    const event = parseEvent(data);
    const { type } = event;
    if (typeof type !== 'string') {
      if (isError(event)) return this.#fail(event, emit);
      throw brokenAnswer('an event has no type');
    }
    const delta = DELTAS.get(type);
    if (delta !== undefined) return this.#readDelta(event, delta, emit);
    const whole = WHOLES.get(type);
    if (whole !== undefined) return this.#readWhole(event, whole, emit);
    switch (type) {
      case 'response.created':
      case 'response.in_progress':
      case 'response.queued':
        return this.#start(event.response, emit);
      case 'response.output_item.added':
        return void this.#open(event, objectIn(event, 'item'), emit);
      case 'response.content_part.added':
        return this.#itemOf(event)?.beginPart(objectIn(event, 'part'), innerOf(event, 'content_index'), emit);
      case 'response.content_part.done':
        return this.#itemOf(event)?.endPart(innerOf(event, 'content_index'), emit);
      case 'response.output_item.done':
        return this.#readDone(event, objectIn(event, 'item'), emit);
      case 'response.completed':
      case 'response.incomplete':
      case 'response.done':
      case 'response.failed':
      case 'response.cancelled':
        return this.#end(objectIn(event, 'response'), type.slice('response.'.length), emit, event.usage);
      case 'error':
        return this.#fail(event, emit);
      case 'keepalive':
        return emit({ type: 'ping' });
    }
  }

  get finished(): boolean {
    return this.#over;
  }

  end(): void {
    if (!this.#over) throw notComplete();
  }

  /** Reads a whole answer as if it had streamed. Raises upstream_invalid. */
  readDocument(response: Json, emit: Emit) {
    const { status } = response;
    if (!FAILED.has(status) && !Array.isArray(response.output)) throw brokenAnswer('the answer has no output');
    if (!isAbsent(status) && !ENDED.has(status)) throw brokenAnswer('the answer is not finished');
    this.#end(response, 'completed', emit);
  }

  /** Some servers call every end completed, or done, and say in its status which one it is. */
  #end(response: Json, name: string, emit: Emit, usage_beside?: unknown): void {
    const is_open = name === 'completed' || name === 'done';
    const status = is_open && ENDED.has(response.status) ? response.status : name;
    if (!FAILED.has(status)) this.#finish(response, status !== 'incomplete', emit, usage_beside);
    else this.#fail({ error: response.error ?? (status === 'failed' ? undefined : CANCELLED) }, emit);
  }

  #start(response: unknown, emit: Emit): void {
    if (this.#started) return;
    this.#started = true;
    emit(startOfAnswer(response));
  }

  #readDelta(event: Json, told: TextEvent, emit: Emit): void {
    const { delta } = event;
    if (typeof delta !== 'string') throw brokenAnswer('a delta is not a string');
    this.#itemFor(event, told, emit)?.delta(told.kind, innerOf(event, told.index), delta, emit);
  }

  #readWhole(event: Json, told: TextEvent, emit: Emit): void {
    const text = event[told.field];
    if (typeof text !== 'string' || text === '') return;
    this.#itemFor(event, told, emit)?.whole(told.kind, innerOf(event, told.index), text, emit);
  }

  /** The item of a text; some servers leave out that it begins. */
  #itemFor(event: Json, { item: type }: TextEvent, emit: Emit): OutputItem | undefined {
    const open = this.#itemOf(event);
    if (open !== undefined || type === undefined || this.#items.has(this.#keyOf(event))) return open;
    return this.#open(event, { type }, emit);
  }

  #itemOf(event: Json): OutputItem | undefined {
    return this.#openAt(this.#keyOf(event));
  }

  #openAt(key: unknown): OutputItem | undefined {
    const item = this.#items.get(key);
    return item === 'done' ? undefined : item;
  }

  /** What an item is known by: its index, or its identifier where it is not counted. */
  #keyOf(event: Json, item?: Json): unknown {
    const id = event.item_id ?? item?.id ?? null;
    return event.output_index ?? this.#indexes.get(id) ?? id;
  }

  #open(event: Json, item: Json, emit: Emit): OutputItem {
    this.#start(undefined, emit);
    const key = this.#keyOf(event, item);
    // Servers that neither count items nor name them send one after the other.
    this.#openAt(key)?.close(emit);
    const opened = openItem(item, this.#parts, emit);
    this.#items.set(key, opened);
    if (typeof item.id === 'string') this.#indexes.set(item.id, key);
    if (key === null) this.#nameless_type = item.type;
    return opened;
  }

  #readDone(event: Json, item: Json, emit: Emit): void {
    const key = this.#keyOf(event, item);
    if (this.#items.get(key) === 'done') return;
    const opened = this.#openAt(key) ?? this.#takeNameless(item) ?? this.#open(event, item, emit);
    opened.done(item, emit);
    if (key === null) {
      this.#items.delete(key);
      this.#nameless = true;
    } else this.#items.set(key, 'done');
  }

  /** The item that came in pieces which did not say whose they are, where this can be it. */
  #takeNameless({ type }: Json): OutputItem | undefined {
    const item = this.#nameless_type === type ? this.#openAt(null) : undefined;
    if (item !== undefined) this.#items.delete(null);
    return item;
  }

  #finish(response: Json, completed: boolean, emit: Emit, usage_beside?: unknown): void {
    this.#start(response, emit);
    const repeated = Array.isArray(response.output) && !this.#nameless ? response.output : [];
    // Nothing can be a repetition where nothing came before.
    const is_first = this.#items.size === 0;
    for (const [output_index, item] of repeated.entries()) {
      if (isObject(item) && (is_first || !this.#isDone(output_index, item)))
        this.#readDone({ output_index }, item, emit);
    }
    for (const item of this.#items.values()) if (item !== 'done') item.close(emit);
    this.#over = true;
    const reading = newUsageReading();
    takeResponseUsage(reading, response, true, usage_beside);
    const end = readEnd(completed ? 'completed' : cutWord(response.incomplete_details), this.#parts.said, this.#notes);
    if ('problem' in end) emit({ type: 'error', problem: end.problem });
    else
      emit({
        type: 'end',
        reason: completed ? end.reason : cutReason(end.reason),
        ...present({ usage: usageIn(reading) }),
      });
  }

  /** Some servers count the items they repeat anew, and others give them new identifiers. */
  #isDone(output_index: number, { id }: Json): boolean {
    return this.#items.get(output_index) === 'done' || this.#items.get(this.#indexes.get(id) ?? id) === 'done';
  }

  #fail(body: unknown, emit: Emit): void {
    this.#over = true;
    emit({ type: 'error', problem: readProblem(undefined, body) });
  }
}

/** Reads an upstream's whole answer. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const events: ModelEvent[] = [];
  new ResponsesReader(notes).readDocument(document, (event) => events.push(event));
  return events;
}

function objectIn(event: Json, key: string): Json {
  const value = event[key];
  if (!isObject(value)) throw brokenAnswer(`an event has no ${key}`);
  return value;
}

function innerOf(event: Json, key: string): number {
  const value = event[key];
  return typeof value === 'number' ? value : 0;
}

/** Why an answer is incomplete; not every server says it. */
function cutWord(details: unknown): string {
  const reason = isObject(details) ? details.reason : undefined;
  return saysReason(reason) ? reason : 'max_output_tokens';
}

/** An answer that is incomplete has not ended like a whole one, whatever its reason says. */
function cutReason(reason: StopReason): StopReason {
  return reason === 'finished' || reason === 'tool_calls' ? 'max_tokens' : reason;
}
