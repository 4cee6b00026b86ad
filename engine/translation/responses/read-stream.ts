import type { ResponseEvent } from '../../api.ts';
import { StageError } from '../../errors.ts';
import type { Json, StreamReader } from '../adapter.ts';
import { readProblem } from '../errors.ts';
import type { StopReason } from '../events.ts';
import type { Notes } from '../notes.ts';
import { isObject } from '../read-json.ts';
import { type DeltaKind, type Emit, type OutputItem, openItem, Parts } from './read-output.ts';
import { readUsage } from './read-usage.ts';

/** Events that bring a piece: what it belongs to, and where the index inside the item stands. */
const DELTAS = new Map<string, readonly [DeltaKind, string, string?]>([
  ['response.output_text.delta', ['text', 'content_index', 'message']],
  ['response.refusal.delta', ['refusal', 'content_index', 'message']],
  ['response.reasoning_summary_text.delta', ['summary', 'summary_index', 'reasoning']],
  ['response.reasoning_text.delta', ['thought', 'content_index', 'reasoning']],
  ['response.function_call_arguments.delta', ['arguments', 'content_index']],
  ['response.custom_tool_call_input.delta', ['input', 'content_index']],
]);

/** Reads an upstream's stream. */
export function createReader(notes: Notes): StreamReader {
  return new Reader(notes);
}

/** Reads one answer, as it streams or whole. */
export class Reader implements StreamReader {
  readonly #parts: Parts;
  readonly #items = new Map<unknown, OutputItem | 'done'>();
  /** Items came that cannot be told from those that the last event repeats. */
  #nameless = false;
  #started = false;
  #over = false;

  constructor(notes: Notes) {
    this.#parts = new Parts(notes);
  }

  read({ data }: ResponseEvent, emit: Emit) {
    if (this.#over || data === '[DONE]') return;
    const event = parse(data);
    const type = event.type as string;
    const delta = DELTAS.get(type);
    if (delta !== undefined) return this.#readDelta(event, delta, emit);
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
        return this.#finish(objectIn(event, 'response'), type === 'response.completed', emit);
      case 'response.failed':
        return this.#fail({ error: objectIn(event, 'response').error }, emit);
      case 'error':
        return this.#fail({ error: isObject(event.error) ? event.error : { ...event, type: undefined } }, emit);
      case 'keepalive':
        return emit({ type: 'ping' });
    }
  }

  end(): void {
    if (this.#over) return;
    throw new StageError('upstream_failed', 'The upstream ended its stream before the answer was complete.');
  }

  /** Reads a whole answer as if it had streamed. Raises upstream_invalid. */
  readDocument(response: Json, emit: Emit) {
    if (response.status === 'failed') return this.#fail({ error: response.error }, emit);
    if (!Array.isArray(response.output)) throw notTheApi('the answer has no output');
    if (response.status !== undefined && response.status !== 'completed' && response.status !== 'incomplete') {
      throw notTheApi('the answer is not finished');
    }
    this.#finish(response, response.status !== 'incomplete', emit);
  }

  #start(response: unknown, emit: Emit): void {
    if (this.#started) return;
    this.#started = true;
    const { id, model } = isObject(response) ? response : ({} as Json);
    emit({
      type: 'start',
      ...(typeof id === 'string' && id !== '' && { id }),
      ...(typeof model === 'string' && model !== '' && { model }),
    });
  }

  #readDelta(event: Json, [kind, index, type]: readonly [DeltaKind, string, string?], emit: Emit): void {
    const { delta } = event;
    if (typeof delta !== 'string') throw notTheApi('a delta is not a string');
    // Some servers leave out that an item begins; a call without its name cannot be made up for.
    const item =
      this.#itemOf(event) ?? (type && !this.#items.has(keyOf(event)) ? this.#open(event, { type }, emit) : undefined);
    item?.delta(kind, innerOf(event, index), delta, emit);
  }

  #itemOf(event: Json): OutputItem | undefined {
    const item = this.#items.get(keyOf(event));
    return item === 'done' ? undefined : item;
  }

  #open(event: Json, item: Json, emit: Emit): OutputItem {
    this.#start(undefined, emit);
    const key = keyOf(event, item);
    // Servers that neither count items nor name them send one after the other.
    this.#itemOf({ output_index: key })?.close(emit);
    const opened = openItem(item, this.#parts, emit);
    this.#items.set(key, opened);
    return opened;
  }

  #readDone(event: Json, item: Json, emit: Emit): void {
    const key = keyOf(event, item);
    if (this.#items.get(key) === 'done') return;
    const opened = this.#itemOf({ output_index: key }) ?? this.#open(event, item, emit);
    opened.done(item, emit);
    if (key === null) {
      this.#items.delete(key);
      this.#nameless = true;
    } else this.#items.set(key, 'done');
  }

  #finish(response: Json, completed: boolean, emit: Emit): void {
    this.#start(response, emit);
    const repeated = Array.isArray(response.output) && !this.#nameless ? response.output : [];
    for (const [output_index, item] of repeated.entries()) {
      if (isObject(item) && !this.#isDone(output_index, item)) this.#readDone({ output_index }, item, emit);
    }
    for (const item of this.#items.values()) if (item !== 'done') item.close(emit);
    this.#over = true;
    const usage = readUsage(response.usage);
    const reason = completed ? this.#parts.reason : cutReason(response.incomplete_details);
    emit({ type: 'end', reason, ...(usage && { usage }) });
  }

  /** Servers that do not count items are told apart by identifiers. */
  #isDone(output_index: number, { id }: Json): boolean {
    return this.#items.get(output_index) === 'done' || (id !== undefined && this.#items.get(id) === 'done');
  }

  #fail(body: Json, emit: Emit): void {
    this.#over = true;
    emit({ type: 'error', problem: readProblem('responses', undefined, body) });
  }
}

function parse(data: string): Json {
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch {
    throw notTheApi('an event is not JSON');
  }
  if (!isObject(event) || typeof event.type !== 'string') throw notTheApi('an event has no type');
  return event;
}

function objectIn(event: Json, key: string): Json {
  const value = event[key];
  if (!isObject(value)) throw notTheApi(`an event has no ${key}`);
  return value;
}

function notTheApi(what: string): StageError {
  return new StageError('upstream_invalid', `The upstream answered with something that is not the API: ${what}.`);
}

/** What an item is known by: its index, or its identifier at servers that do not count. */
function keyOf(event: Json, item?: Json): unknown {
  return event.output_index ?? event.item_id ?? item?.id ?? null;
}

function innerOf(event: Json, key: string): number {
  const value = event[key];
  return typeof value === 'number' ? value : 0;
}

function cutReason(details: unknown): StopReason {
  const reason = isObject(details) ? details.reason : undefined;
  if (reason === 'content_filter') return 'content_filter';
  return reason === 'steered' || reason === 'max_messages' ? 'paused' : 'max_tokens';
}
