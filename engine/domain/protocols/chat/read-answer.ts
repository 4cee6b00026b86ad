import { createHash } from 'node:crypto';
import type { TextKind } from '../../../base/contract/rewriting.ts';
import type { ResponseEvent } from '../../../base/contract/stage.ts';
import { brokenAnswer, notComplete, parseEvent } from '../answer-parts.ts';
import { readProblem } from '../errors.ts';
import { errorOfChoice, isError } from '../read-error.ts';
import { isAbsent, isObject, present } from '../read-json.ts';
import { type AnswerTexts, keyOf, type Path, type Place, type TextId, textUnlessKnown, valueAt } from '../rewriting.ts';
import { type AnswerEnd, breaksOff, readEnd, saysReason } from '../stop-reasons.ts';
import {
  type CallState,
  type Emit,
  type Json,
  type ModelEvent,
  type Problem,
  type ReasoningProof,
  type StreamReader,
  startOfAnswer,
} from '../translation/conversation.ts';
import { shortCallId } from '../translation/features.ts';
import { escapeFreeText, FREE_TEXT_END, FREE_TEXT_START } from '../translation/free-text.ts';
import type { Notes } from '../translation/rules.ts';
import {
  asObject,
  countTexts,
  newUsageReading,
  noteAnswer,
  parseObject,
  readTotals,
  takeTotals,
  type UsageReading,
  usageIn,
} from '../usage.ts';
import { StateCollector, thoughtIn, thoughtInPart } from './call-memory.ts';

/** Signs of the structure of JSON, and what is escaped. */
const JSON_SIGNS = /\\.?|["{}[\]]/gs;

/** Follows JSON text of an object that comes in pieces, and knows when it is whole. Keeps no text. */
class JsonProgress {
  #depth = 0;
  #in_string = false;
  #escaped = false;
  /** Whether the text so far is a whole object. */
  complete = false;
  /** Whether anything came at all. */
  begun = false;

  add(text: string): void {
    if (text === '') return;
    this.begun = true;
    const rest = this.#escaped ? text.slice(1) : text;
    this.#escaped = false;
    for (const [found] of rest.matchAll(JSON_SIGNS)) {
      const sign = this.#in_string ? found : found.at(-1);
      if (sign === '"') this.#in_string = !this.#in_string;
      else if (this.#in_string) this.#escaped = sign === '\\';
      else if (sign === '{' || sign === '[') this.#depth += 1;
      else if (sign === '}' || sign === ']') {
        this.#depth -= 1;
        this.complete ||= this.#depth === 0;
      }
    }
  }
}

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
interface AnswerName {
  readonly id: string;
  readonly created: number;
}

/**
 * Reads calls of tools out of deltas. Upstreams differ: some leave out indices or identifiers, send a name late or twice,
 * or count every call as the first.
 */
class CallReader {
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

type SaidKind = 'text' | 'refusal' | 'reasoning';

/**
 * Reads chunks, one after the other; a whole answer is one chunk. Keeps counts, names,
 * state, and of texts only the thought that is being said.
 */
export class ChunkReader {
  readonly #notes: Notes;
  readonly #emit: Emit;
  readonly #calls: CallReader;
  readonly #state = new StateCollector();
  #answer: AnswerName | undefined;
  #parts = 0;
  /** The text that is being said; of a thought all of it, as its state may repeat it. */
  #open: { readonly kind: SaidKind; readonly index: number; thought: string } | undefined;
  #refused = false;
  /** The upstream's stop reason. */
  #word: string | undefined;
  #stop_sequence: string | undefined;
  readonly #usage = newUsageReading();
  /** Whether `end` or `error` was emitted. */
  over = false;

  constructor(notes: Notes, emit: Emit) {
    this.#notes = notes;
    this.#emit = emit;
    this.#calls = new CallReader(
      emit,
      () => this.#parts++,
      this.#state,
      () => {
        this.#endText(true);
        this.#carryState(true);
      },
    );
  }

  get finished(): boolean {
    return this.#word !== undefined;
  }

  /** Whether the response is complete at the end of the stream; some servers send no stop reason. */
  get whole(): boolean {
    return this.finished || (this.#parts > 0 && !this.#calls.cut);
  }

  read(chunk: Json): void {
    if (this.over) return;
    if (isError(chunk)) {
      this.fail(chunk);
      return;
    }
    this.#answer ??= this.#start(chunk);
    const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
    for (const choice of choices) if (isObject(choice)) this.#readChoice(choice);
    takeChatUsage(this.#usage, chunk);
  }

  /** Emits the end of a whole response. */
  end(): void {
    if (this.over) return;
    this.#answer ??= this.#start({});
    this.#endText();
    this.#calls.endAll();
    const end = this.#readEnd();
    if ('problem' in end) {
      this.#fail(end.problem);
      return;
    }
    this.#carryState(this.#calls.any);
    if (this.#state.full) this.#notes.note('large_state');
    this.over = true;
    this.#emit({
      type: 'end',
      ...end,
      ...present({ stop_sequence: this.#stop_sequence, usage: usageIn(this.#usage) }),
    });
  }

  #start(chunk: Json): AnswerName {
    const start = startOfAnswer(chunk);
    this.#emit(start);
    return { id: start.id ?? '', created: typeof chunk.created === 'number' ? chunk.created : 0 };
  }

  /** Takes an error instead of a chunk, as JSON or as text. */
  fail(chunk: unknown): void {
    if (!this.over) this.#fail(readProblem(undefined, chunk));
  }

  #fail(problem: Problem): void {
    this.over = true;
    this.#emit({ type: 'error', problem });
  }

  #readChoice(choice: Json): void {
    if (typeof choice.index === 'number' && choice.index !== 0) {
      this.#notes.note('extra_choice');
      return;
    }
    if (!isAbsent(choice.logprobs)) this.#notes.note('answer_extras');
    if (isObject(choice.delta)) this.#readDelta(choice.delta);
    // Some servers send the whole message in one chunk, others repeat it at the end.
    else if (isObject(choice.message) && this.#parts === 0) this.#readDelta(asDelta(choice.message));
    const failed = errorOfChoice(choice);
    if (failed !== undefined) this.fail(failed);
    else if (saysReason(choice.finish_reason)) this.#finish(choice.finish_reason, choice.stop_reason);
  }

  #readDelta(delta: Json): void {
    if (this.#state.addMessage(delta)) this.#notes.note('answer_extras');
    this.#say('reasoning', thoughtIn(delta));
    this.#readContent(delta.content);
    this.#say('refusal', delta.refusal);
    if (Array.isArray(delta.tool_calls)) for (const call of delta.tool_calls) this.#readCall(call);
    if (isObject(delta.function_call)) this.#readCall({ index: 0, function: delta.function_call });
  }

  #readContent(content: unknown): void {
    if (!Array.isArray(content)) {
      this.#say('text', content);
      return;
    }
    const parts = content.filter(isObject);
    this.#state.addParts(parts.filter((part) => thoughtInPart(part) !== undefined));
    for (const part of parts) {
      const thought = thoughtInPart(part);
      if (thought !== undefined) this.#say('reasoning', thought);
      else if (part.type === 'text') this.#say('text', part.text);
      else if (part.type === 'refusal') this.#say('refusal', part.refusal);
      else this.#notes.note('answer_extras');
    }
  }

  #say(kind: SaidKind, text: unknown): void {
    if (typeof text !== 'string' || text === '') return;
    if (this.#open?.kind !== kind) this.#begin(kind);
    if (kind === 'reasoning') this.#open!.thought += text;
    this.#emit({ type: 'part_delta', index: this.#open!.index, text });
  }

  #begin(kind: SaidKind): void {
    this.#endText();
    if (kind !== 'reasoning') this.#carryState(false);
    this.#calls.endComplete();
    this.#refused ||= kind === 'refusal';
    this.#open = { kind, index: this.#parts++, thought: '' };
    this.#emit({ type: 'part_start', index: this.#open.index, part: { kind } });
  }

  #endText(for_call = false): void {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return;
    const state = open.kind === 'reasoning' ? this.#takeState(open.thought, for_call) : undefined;
    if (state !== undefined) this.#emit({ type: 'proof', index: open.index, proof: state });
    this.#emit({ type: 'part_end', index: open.index });
  }

  /** State that no thought could take along has one of its own, without words. */
  #carryState(for_call: boolean): void {
    const proof = this.#takeState('', for_call);
    if (proof === undefined) return;
    const index = this.#parts++;
    this.#emit({ type: 'part_start', index, part: { kind: 'reasoning' } });
    this.#emit({ type: 'proof', index, proof });
    this.#emit({ type: 'part_end', index });
  }

  #takeState(thought: string, for_call: boolean): ReasoningProof | undefined {
    const value = this.#state.take(thought, this.#calls.takeStates(), for_call);
    return value === undefined ? undefined : { protocol: 'chat', kind: 'state', value };
  }

  #readCall(call: unknown): void {
    if (!isObject(call)) return;
    // A thought ends where the call starts, and takes the state of the call along.
    if (this.#open?.kind !== 'reasoning') this.#endText();
    this.#calls.read(call, this.#answer!);
  }

  #finish(word: string, stop_reason: unknown): void {
    this.#word = word;
    const end = this.#readEnd();
    if ('problem' in end) {
      this.#fail(end.problem);
      return;
    }
    // Some servers report the stop sequence here.
    if (typeof stop_reason === 'string' && stop_reason !== '' && end.reason === 'finished') {
      this.#word = 'stop_sequence';
      this.#stop_sequence = stop_reason;
    }
    this.#endText();
    this.#calls.endAll();
  }

  #readEnd(): AnswerEnd {
    const parts = { has_calls: this.#calls.any, is_cut: this.#calls.cut, has_refusal: this.#refused };
    return readEnd(this.#word, parts, this.#notes);
  }
}

/** A whole message as one delta: its calls are grouped by their order. */
function asDelta(message: Json): Json {
  if (!Array.isArray(message.tool_calls)) return message;
  const tool_calls = message.tool_calls.map((call, index) => (isObject(call) ? { ...call, index } : call));
  return { ...message, tool_calls };
}

const DONE = '[DONE]';

/** Reads an upstream's stream. */
export function createReader(notes: Notes): StreamReader {
  let emit: Emit = () => undefined;
  const chunks = new ChunkReader(notes, (event) => emit(event));
  return {
    read({ name, data }, to) {
      emit = to;
      if (data.trim() === DONE) {
        if (chunks.whole) chunks.end();
      } else if (name === 'error') chunks.fail(data);
      else chunks.read(parseEvent(data));
    },
    get finished() {
      return chunks.over || chunks.finished;
    },
    end(to) {
      emit = to;
      if (chunks.over) return;
      if (!chunks.finished) throw notComplete();
      chunks.end();
    },
  };
}

/** Reads an upstream's whole answer: it has in `message` what a stream has in deltas. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const events: ModelEvent[] = [];
  const chunks = new ChunkReader(notes, (event) => events.push(event));
  const list = Array.isArray(document.choices) ? document.choices.filter(isObject) : [];
  chunks.read({ ...document, choices: list.map((choice) => ({ ...choice, delta: undefined })) });
  if (!chunks.over && !list.some(({ message }) => isObject(message))) {
    throw brokenAnswer('choices.0.message is missing');
  }
  if (!chunks.over && !chunks.whole) throw brokenAnswer('it is not whole and does not say why');
  chunks.end();
  return events;
}

/** Usage of a response. */

/** What is said in a delta, by the keys that upstreams use, up to the first letter. */
const DELTA_TEXT = /"(?:content|reasoning_content|reasoning|arguments|refusal|text)"\s*:\s*"(?!")/g;

const MESSAGE = /message"\s*:\s*\{/;

/** Reads usage from chat completions. Parses only the few chunks that may have more than text. */
export function readChatUsage(reading: UsageReading, { name, data }: ResponseEvent): void {
  if (name === undefined) {
    takeDocument(reading, parseObject(data));
    return;
  }
  reading.streamed = true;
  if (name === 'error') reading.failed = true;
  else if (data === '[DONE]') reading.complete ||= !reading.failed;
  else {
    const delta = data.indexOf('delta":');
    if (delta >= 0) countTexts(reading, data, DELTA_TEXT, delta, 1);
    else if (reading.deltas === 0) {
      // A whole message where a stream was asked for: all that it says. After deltas it would be a repetition.
      const message = data.search(MESSAGE);
      if (message >= 0) countTexts(reading, data, DELTA_TEXT, message);
    }
    if (delta < 0 || tells(data, 'usage":') || tells(data, 'finish_reason":')) readChunk(reading, parseObject(data));
  }
}

/**
 * Whether a key is there with a value; with a blank between the two it is only suspected. Searching is fast for what does
 * not begin with a quote, of which there are many; inside a text the quote would be escaped.
 */
function tells(data: string, key: string): boolean {
  let at = data.indexOf(key);
  while (at >= 0 && data.startsWith('null', at + key.length)) at = data.indexOf(key, at + key.length);
  return at >= 0;
}

function readChunk(reading: UsageReading, chunk: Json | undefined): void {
  if (chunk === undefined) return;
  if (chunk.error != null) reading.failed = true;
  noteAnswer(reading, chunk);
  takeChatUsage(reading, chunk);
}

function takeDocument(reading: UsageReading, document: Json | undefined): void {
  if (document === undefined) return;
  if (isError(document)) reading.failed = true;
  if (!Array.isArray(document.choices) && asObject(document.usage) === undefined) return;
  noteAnswer(reading, document);
  takeChatUsage(reading, document);
  reading.counted = true;
  reading.complete = true;
}

/** Reads the usage of a chunk or document, for the bill and for translated responses. */
function takeChatUsage(reading: UsageReading, chunk: Json): void {
  const choices: readonly unknown[] = Array.isArray(chunk.choices) ? chunk.choices : [];
  let is_counted = false;
  for (const usage of usagesIn(chunk, choices)) {
    const report = readTotals(usage);
    if (report === undefined) continue;
    takeTotals(reading, report);
    is_counted ||= report.counts.output !== undefined;
  }
  const words = choices.map((choice) => asObject(choice)?.finish_reason).filter(saysReason);
  // The usage up to then is reported.
  if (words.some(breaksOff)) reading.failed = true;
  else if (words.length > 0) reading.complete = true;
  // Before the end it is what has been counted so far.
  const is_last = reading.complete || words.length > 0 || (Array.isArray(chunk.choices) && choices.length === 0);
  if (is_last) reading.counted ||= is_counted;
}

/** Usage in every place that servers put it, the most telling last: llama.cpp, Moonshot, Groq, all others. */
function* usagesIn(chunk: Json, choices: readonly unknown[]): Generator<unknown> {
  if (chunk.usage == null && chunk.timings != null) yield ofTimings(asObject(chunk.timings));
  for (const choice of choices) yield asObject(choice)?.usage;
  if (chunk.x_groq != null) yield asObject(chunk.x_groq)?.usage;
  yield chunk.usage;
}

/** Counts in the last chunk of llama.cpp, without requested usage. */
function ofTimings({ cache_n, prompt_n, predicted_n }: Json = {}): object {
  const prompt_tokens = typeof prompt_n === 'number' && typeof cache_n === 'number' ? prompt_n + cache_n : prompt_n;
  return { prompt_tokens, cached_tokens: cache_n, completion_tokens: predicted_n };
}

/** Where an answer has its texts. */

function kindOf(path: Path): TextKind {
  const field = path[2] === 'text' ? 'content' : path[3];
  if (field === 'content') return 'text';
  if (field === 'refusal') return 'refusal';
  if (field === 'tool_calls' || field === 'function_call') return 'tool_input';
  return typeof field === 'string' && field.startsWith('reasoning') ? 'reasoning' : 'other';
}

/** What a place in a choice is called in each chunk: elements of lists by their own index. */
function stepsOf(path: Path, chunk: Json): readonly unknown[] {
  return path.slice(2).map((step, at) => {
    const index = typeof step === 'number' ? valueAt(chunk, [...path.slice(0, 3 + at), 'index']) : undefined;
    return index ?? step;
  });
}

function brings(choice: unknown, steps: readonly unknown[]): boolean {
  let value = choice;
  for (const step of steps) {
    if (Array.isArray(value)) value = value.find((one, at) => ((isObject(one) && one.index) ?? at) === step);
    else value = isObject(value) ? value[String(step)] : undefined;
  }
  return typeof value === 'string';
}

interface ChatText extends TextId {
  readonly part: { readonly choice: unknown; readonly steps: readonly unknown[] };
}

const choiceOf = (path: Path, chunk: Json): unknown => valueAt(chunk, [...path.slice(0, 2), 'index']) ?? path[1];

function saidKinds(choice: Json): Set<TextKind> {
  const delta = isObject(choice.delta) ? choice.delta : {};
  const fields = Object.keys(delta).filter(
    (key) => key !== 'role' && delta[key] && !(Array.isArray(delta[key]) && delta[key].length === 0),
  );
  return new Set(fields.map((field) => kindOf(['choices', 0, 'delta', field])));
}

/** Only what leads to a text, with what tells where it belongs. */
function along(value: unknown, path: Path, text: string): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return text;
  const inner = along(valueAt(value, [step]), rest, text);
  if (typeof step === 'number') return [inner];
  const { index, type } = isObject(value) ? value : {};
  return { ...(index !== undefined && { index }), ...(type !== undefined && { type }), [step]: inner };
}

/** Where the texts of chat completions stand. */
export const chatTexts: AnswerTexts = {
  placeOf(path, chunk): Place | undefined {
    const key = keyOf(path);
    if (key === 'logprobs' && path.length === 3) return { is: 'put', json: 'null' };
    const found = textUnlessKnown(path, kindOf(path));
    const is_text = path.length > 3 || path[2] === 'text';
    if (found === undefined || path[0] !== 'choices' || !is_text) return found;
    const is_json = key === 'arguments';
    const kind = kindOf(path);
    if (path[2] !== 'delta' && path[2] !== 'text') return { is: is_json ? 'json' : 'text', kind };
    const part = { choice: choiceOf(path, chunk), steps: stepsOf(path, chunk) };
    const last = typeof valueAt(chunk, [...path.slice(0, 2), 'finish_reason']) === 'string';
    const id: ChatText = { key: JSON.stringify(part), part, kind };
    return { is: is_json ? 'json_piece' : 'piece', id, last };
  },
  endsBefore(chunk, { part, kind }) {
    if (chunk.error !== undefined && chunk.error !== null) return true;
    const { choice: index, steps } = part as ChatText['part'];
    const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
    const choice: unknown = choices.find((one, at) => isObject(one) && (one.index ?? at) === index);
    if (!isObject(choice) || brings(choice, steps)) return false;
    // What is said of another kind comes after it.
    const said = saidKinds(choice);
    return typeof choice.finish_reason === 'string' || (said.size > 0 && !said.has(kind));
  },
  pieceLike({ usage: _usage, choices, ...chunk }, path, text) {
    const index = choiceOf(path, { choices });
    const said = along(valueAt({ choices }, path.slice(0, 2)), path.slice(2), text) as Json;
    return { ...chunk, choices: [{ ...said, index, finish_reason: null }] };
  },
};
