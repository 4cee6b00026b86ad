import type { ResponseEvent } from '../../contract/stage.ts';
import { readProblem } from '../errors.ts';
import { isError } from '../read-error.ts';
import { isAbsent, isObject, present } from '../read-json.ts';
import { readEnd, saysReason } from '../stop-reasons.ts';
import type { Json, StreamReader } from '../translation/adapter.ts';
import { brokenAnswer, notComplete, parseEvent } from '../translation/answer-faults.ts';
import { type Emit, type ModelEvent, type StopReason, startOfAnswer } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { modelUsage } from '../translation/usage.ts';
import { newUsageReading } from '../usage/reading.ts';
import { type DeltaKind, type OutputItem, openItem, Parts } from './read-output.ts';
import { takeResponseUsage } from './reported-usage.ts';

/** What an event says of a text inside an item. */
interface TextEvent {
  readonly kind: DeltaKind;
  /** The field with the text. */
  readonly field: string;
  /** The field with the index inside the item. */
  readonly index: 'content_index' | 'summary_index';
  /** The item that has begun where no event said so; a call without its name cannot be made up for. */
  readonly item?: 'message' | 'reasoning';
}

const MESSAGE = { index: 'content_index', item: 'message' } as const;
const SUMMARY = { index: 'summary_index', item: 'reasoning' } as const;
const THOUGHT = { index: 'content_index', item: 'reasoning' } as const;
const CALL = { index: 'content_index' } as const;

/** Events that bring a piece of a text. */
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

/** What the status of an answer says that has failed. */
const FAILED: ReadonlySet<unknown> = new Set(['failed', 'cancelled']);

/** What it says of an answer that has ended. */
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
        ...present({ usage: modelUsage(reading) }),
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
