import { createHash } from 'node:crypto';
import { isObject } from '../read-json.ts';
import type { CallState, Json } from '../translation/adapter.ts';
import { brokenAnswer } from '../translation/answer-faults.ts';
import type { Emit } from '../translation/events.ts';
import { shortCallId } from '../translation/features/call-ids.ts';
import { escapeFreeText, FREE_TEXT_END, FREE_TEXT_START } from '../translation/features/free-text.ts';
import { JsonProgress } from './json-progress.ts';
import type { StateCollector } from './provider-state.ts';

/** A call as it streams in. It starts for the client when its name is known. */
interface Call {
  /** Where the upstream counts it; `undefined` where it does not count. */
  readonly slot: number | undefined;
  id: string;
  /** What the client calls it; empty until it has started. */
  client_id: string;
  /** What its upstream wants back with it, as far as no thought has taken it along. */
  state: CallState | undefined;
  name: string;
  /** Called with plain text, which is put into JSON. */
  readonly plain: boolean;
  /** Index of its part; `undefined` until it has started, and then `waiting` is empty. */
  part: number | undefined;
  waiting: string;
  ended: boolean;
  readonly progress: JsonProgress;
}

/** Says once more what an answer is, so that identifiers made of it differ between answers. */
export interface AnswerName {
  readonly id: string;
  readonly created: number;
}

/**
 * Reads calls of tools out of deltas. Upstreams differ: some leave out indices or identifiers, send a name late or twice,
 * or count every call as the first.
 */
export class CallReader {
  readonly #emit: Emit;
  readonly #nextPart: () => number;
  readonly #collector: StateCollector;
  readonly #beforeStart: () => void;
  readonly #calls: Call[] = [];
  /** Those that have not ended. */
  readonly #open = new Set<Call>();
  /** Those whose state no thought has taken along. */
  readonly #stateful = new Set<Call>();
  readonly #last_in_slot = new Map<number | undefined, Call>();
  readonly #last_with_id = new Map<string, Call>();

  /** @param beforeStart is called before a call starts, with its state in `takeStates` */
  constructor(emit: Emit, nextPart: () => number, collector: StateCollector, beforeStart: () => void) {
    this.#emit = emit;
    this.#nextPart = nextPart;
    this.#collector = collector;
    this.#beforeStart = beforeStart;
  }

  /** Whether any call came. */
  get any(): boolean {
    return this.#calls.length > 0;
  }

  /** Whether a call lacks its name or the end of its arguments. */
  get cut(): boolean {
    return this.#calls.some(
      ({ name, plain, progress }) => name === '' || (!plain && progress.begun && !progress.complete),
    );
  }

  /** State of calls that have started, or are about to, by the identifiers that clients know; each is taken once. */
  takeStates(): Readonly<Record<string, CallState>> {
    const found = [...this.#stateful].filter(({ client_id }) => client_id !== '');
    const states = Object.fromEntries(found.map(({ client_id, state }) => [client_id, state!]));
    for (const call of found) {
      call.state = undefined;
      this.#stateful.delete(call);
    }
    return states;
  }

  /** Takes one entry of `tool_calls`. */
  read(delta: Json, answer: AnswerName): void {
    const { function: fn, custom } = delta;
    const body = isObject(fn) ? fn : isObject(custom) ? custom : {};
    const id = typeof delta.id === 'string' ? delta.id : '';
    const name = typeof body.name === 'string' ? body.name : '';
    const text = textOf(body.arguments ?? body.input);
    const plain = !isObject(fn) && isObject(custom);
    const call = this.#find(delta.index, id, name, text) ?? this.#begin(delta.index, id, name, plain);
    if (call.id === '') this.#setId(call, id);
    if (call.name === '') call.name = name;
    this.#setState(call, this.#collector.addCall(call.state, delta));
    this.#append(call, text, answer);
  }

  /** Ends calls whose arguments are whole; something else has begun. */
  endComplete(): void {
    for (const call of this.#open) if (call.progress.complete) this.#end(call);
  }

  /** Ends all calls. Raises upstream_invalid where one has no name. */
  endAll(): void {
    if (this.#calls.some(({ name }) => name === '')) throw brokenAnswer('a call of a tool has no name');
    for (const call of this.#open) this.#end(call);
  }

  #find(index: unknown, id: string, name: string, text: string): Call | undefined {
    const slot = typeof index === 'number' ? index : undefined;
    const call = slot === undefined && id !== '' ? this.#last_with_id.get(id) : this.#last_in_slot.get(slot);
    if (call === undefined) return undefined;
    // The same slot with another id and a name, or with a name after whole arguments, is a call of its own.
    const another = id !== '' && call.id !== '' && id !== call.id;
    const repeated = id === '' && call.progress.complete && text !== '';
    return name !== '' && call.name !== '' && (another || repeated) ? undefined : call;
  }

  #begin(index: unknown, id: string, name: string, plain: boolean): Call {
    this.endComplete();
    const call: Call = {
      slot: typeof index === 'number' ? index : undefined,
      id: '',
      client_id: '',
      state: undefined,
      name,
      plain,
      part: undefined,
      waiting: '',
      ended: false,
      progress: new JsonProgress(),
    };
    this.#calls.push(call);
    this.#open.add(call);
    this.#last_in_slot.set(call.slot, call);
    this.#setId(call, id);
    return call;
  }

  #setId(call: Call, id: string): void {
    call.id = id;
    if (id !== '') this.#last_with_id.set(id, call);
  }

  #setState(call: Call, state: CallState | undefined): void {
    call.state = state;
    if (state !== undefined) this.#stateful.add(call);
  }

  #append(call: Call, text: string, answer: AnswerName): void {
    if (call.ended) return;
    const opening = call.plain && !call.progress.begun ? FREE_TEXT_START : '';
    const said = opening + (call.plain ? escapeFreeText(text) : text);
    call.progress.add(said);
    if (call.part === undefined) {
      call.waiting += said;
      if (call.name !== '') this.#start(call, answer);
    } else this.#say(call, said);
  }

  #start(call: Call, { id: answer_id, created }: AnswerName): void {
    const { name, waiting } = call;
    if (call.id === '') {
      const seed = JSON.stringify([answer_id, created, name, waiting, this.#calls.indexOf(call)]);
      this.#setId(call, `call_${createHash('sha256').update(seed).digest('hex').slice(0, 24)}`);
    }
    const { id } = call;
    call.client_id = shortCallId(id);
    if (call.client_id !== id) this.#setState(call, { ...call.state, id });
    this.#beforeStart();
    call.part = this.#nextPart();
    call.waiting = '';
    this.#emit({ type: 'part_start', index: call.part, part: { kind: 'tool_call', id: call.client_id, name } });
    this.#say(call, waiting);
  }

  #say(call: Call, text: string): void {
    if (text !== '') this.#emit({ type: 'part_delta', index: call.part!, text });
  }

  #end(call: Call): void {
    if (call.ended || call.part === undefined) return;
    call.ended = true;
    this.#open.delete(call);
    if (call.plain) this.#say(call, FREE_TEXT_END);
    else if (!call.progress.begun) this.#say(call, '{}');
    this.#emit({ type: 'part_end', index: call.part });
  }
}

/** Arguments as text; some upstreams send the object itself. Raises upstream_invalid. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (!isObject(value)) return '';
  try {
    return JSON.stringify(value);
  } catch {
    throw brokenAnswer('the arguments of a call are nested too deeply');
  }
}
