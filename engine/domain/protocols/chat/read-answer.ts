import { createHash } from 'node:crypto';
import type { TextKind } from '../../../base/contract/rewriting.ts';
import type { ResponseEvent } from '../../../base/contract/stage.ts';
import { AnswerReader, brokenAnswer, notComplete, parseEvent } from '../answer-parts.ts';
import { errorOfChoice, isError } from '../read-error.ts';
import { isAbsent, isObject, itemsOf, objectsIn, textOf } from '../read-json.ts';
import { type AnswerTexts, keyOf, type Path, type Place, type TextId, textUnlessKnown, valueAt } from '../rewriting.ts';
import { breaksOff, saysReason } from '../stop-reasons.ts';
import type {
  CallState,
  Emit,
  Json,
  ModelEvent,
  PartStart,
  ReasoningProof,
  StreamReader,
} from '../translation/conversation.ts';
import { shortCallId } from '../translation/features.ts';
import { escapeFreeText, FREE_TEXT_END, FREE_TEXT_START } from '../translation/free-text.ts';
import type { Notes } from '../translation/rules.ts';
import { asObject, countTexts, noteAnswer, parseObject, readTotals, takeTotals, type UsageReading } from '../usage.ts';
import { StateCollector, thoughtIn, thoughtInPart } from './call-memory.ts';

const JSON_SIGNS = /\\.?|["{}[\]]/gs;

class JsonProgress {
  #depth = 0;
  #in_string = false;
  #escaped = false;
  complete = false;
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

/** A streamed call. It starts for the client once its name is known. */
interface Call {
  readonly slot: number | undefined;
  id: string;
  /** Identifier for the client; empty until the call has started. */
  client_id: string;
  /** State that the upstream expects back, until a reasoning part carries it. */
  state: CallState | undefined;
  name: string;
  readonly plain: boolean;
  /** Index of its part; `undefined` until it has started, and then `waiting` is empty. */
  part: number | undefined;
  waiting: string;
  ended: boolean;
  readonly progress: JsonProgress;
}

/** Identity of a response, so that identifiers derived from it differ between responses. */
interface AnswerName {
  readonly id: string;
  readonly created: number;
}

/** Reads calls from deltas; some upstreams omit indices or identifiers, or send names late or twice. */
class CallReader {
  readonly #answer: AnswerReader;
  readonly #collector: StateCollector;
  readonly #beforeStart: () => void;
  readonly #calls: Call[] = [];
  readonly #open = new Set<Call>();
  readonly #stateful = new Set<Call>();
  readonly #last_in_slot = new Map<number | undefined, Call>();
  readonly #last_with_id = new Map<string, Call>();

  /** @param beforeStart called before a call starts, with its state in `takeStates` */
  constructor(answer: AnswerReader, collector: StateCollector, beforeStart: () => void) {
    this.#answer = answer;
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

  /** Takes the state of started and starting calls, by the clients' identifiers. */
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
    const text = argumentsText(body.arguments ?? body.input);
    const plain = !isObject(fn) && isObject(custom);
    const call = this.#find(delta.index, id, name, text) ?? this.#begin(delta.index, id, name, plain);
    if (call.id === '') this.#setId(call, id);
    if (call.name === '') call.name = name;
    this.#setState(call, this.#collector.addCall(call.state, delta));
    this.#append(call, text, answer);
  }

  endComplete(): void {
    for (const call of this.#open) if (call.progress.complete) this.#end(call);
  }

  /** Ends all calls. Raises upstream_invalid if one has no name. */
  endAll(): void {
    if (this.#calls.some(({ name }) => name === '')) throw brokenAnswer('a tool call has no name');
    for (const call of this.#open) this.#end(call);
  }

  #find(index: unknown, id: string, name: string, text: string): Call | undefined {
    const slot = typeof index === 'number' ? index : undefined;
    const call = slot === undefined && id !== '' ? this.#last_with_id.get(id) : this.#last_in_slot.get(slot);
    if (call === undefined) return undefined;
    // The same slot with another id and a name, or with a name after complete arguments, is a new call.
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
    const sent_text = opening + (call.plain ? escapeFreeText(text) : text);
    call.progress.add(sent_text);
    if (call.part === undefined) {
      call.waiting += sent_text;
      if (call.name !== '') this.#start(call, answer);
    } else this.#answer.say(call.part, sent_text);
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
    call.part = this.#answer.open({ kind: 'tool_call', id: call.client_id, name });
    call.waiting = '';
    this.#answer.say(call.part, waiting);
  }

  #end(call: Call): void {
    if (call.ended || call.part === undefined) return;
    call.ended = true;
    this.#open.delete(call);
    this.#answer.say(call.part, call.plain ? FREE_TEXT_END : call.progress.begun ? '' : '{}');
    this.#answer.close(call.part);
  }
}

/** Arguments as text; some upstreams send the object itself. Raises upstream_invalid. */
function argumentsText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (!isObject(value)) return '';
  try {
    return JSON.stringify(value);
  } catch {
    throw brokenAnswer('the arguments of a call are nested too deeply');
  }
}

/** Reads chunks in order; a document is one chunk. Keeps of texts only the current reasoning. */
export class ChunkReader extends AnswerReader {
  readonly #state = new StateCollector();
  readonly #calls = new CallReader(this, this.#state, () => {
    this.#endText(true);
    this.#carryState(true);
  });
  #name: AnswerName | undefined;
  /** The open text; for reasoning the complete text, because its state may repeat it. */
  #open: { readonly kind: PartStart['kind']; readonly index: number; thought: string } | undefined;
  #word: string | undefined;
  #stop_sequence: string | undefined;

  get finished(): boolean {
    return this.#word !== undefined;
  }

  /** Whether the response is complete at the end of the stream; some servers send no stop reason. */
  get whole(): boolean {
    return this.finished || (this.parts > 0 && !this.#calls.cut);
  }

  read(chunk: Json): void {
    if (this.over) return;
    if (isError(chunk)) {
      this.fail(chunk);
      return;
    }
    this.#begin(chunk);
    for (const choice of objectsIn(chunk.choices)) this.#readChoice(choice);
    takeChatUsage(this.usage, chunk);
  }

  end(): void {
    if (this.over) return;
    this.#begin({});
    this.#endText();
    this.#calls.endAll();
    const end = this.endBy(this.#word, this.#calls.cut);
    if (!('problem' in end)) {
      this.#carryState(this.#calls.any);
      if (this.#state.full) this.notes.note('large_state');
    }
    this.finish(end, this.#stop_sequence);
  }

  #begin(chunk: Json): void {
    const { id, created } = chunk;
    this.#name ??= { id: textOf(id), created: typeof created === 'number' ? created : 0 };
    this.start(chunk);
  }

  #readChoice(choice: Json): void {
    if (typeof choice.index === 'number' && choice.index !== 0) {
      this.notes.note('extra_choice');
      return;
    }
    if (!isAbsent(choice.logprobs)) this.notes.note('answer_extras');
    if (isObject(choice.delta)) this.#readDelta(choice.delta);
    // Some servers send the whole message in one chunk, others repeat it at the end.
    else if (isObject(choice.message) && this.parts === 0) this.#readDelta(asDelta(choice.message));
    const failed = errorOfChoice(choice);
    if (failed !== undefined) this.fail(failed);
    else if (saysReason(choice.finish_reason)) this.#stop(choice.finish_reason, choice.stop_reason);
  }

  #readDelta(delta: Json): void {
    if (this.#state.addMessage(delta)) this.notes.note('answer_extras');
    this.#sayMore('reasoning', thoughtIn(delta));
    this.#readContent(delta.content);
    this.#sayMore('refusal', delta.refusal);
    if (Array.isArray(delta.tool_calls)) for (const call of delta.tool_calls) this.#readCall(call);
    if (isObject(delta.function_call)) this.#readCall({ index: 0, function: delta.function_call });
  }

  #readContent(content: unknown): void {
    if (!Array.isArray(content)) {
      this.#sayMore('text', content);
      return;
    }
    const parts = content.filter(isObject);
    this.#state.addParts(parts.filter((part) => thoughtInPart(part) !== undefined));
    for (const part of parts) {
      const thought = thoughtInPart(part);
      if (thought !== undefined) this.#sayMore('reasoning', thought);
      else if (part.type === 'text') this.#sayMore('text', part.text);
      else if (part.type === 'refusal') this.#sayMore('refusal', part.refusal);
      else this.notes.note('answer_extras');
    }
  }

  #sayMore(kind: 'text' | 'refusal' | 'reasoning', text: unknown): void {
    if (typeof text !== 'string' || text === '') return;
    if (this.#open?.kind !== kind) {
      this.#endText();
      if (kind !== 'reasoning') this.#carryState(false);
      this.#calls.endComplete();
      this.#open = { kind, index: this.open({ kind }), thought: '' };
    }
    if (kind === 'reasoning') this.#open.thought += text;
    this.say(this.#open.index, text);
  }

  #endText(for_call = false): void {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return;
    if (open.kind === 'reasoning') this.prove(open.index, this.#takeState(open.thought, for_call));
    this.close(open.index);
  }

  /** Emits a separate empty reasoning part for state without one. */
  #carryState(for_call: boolean): void {
    const proof = this.#takeState('', for_call);
    if (proof === undefined) return;
    const index = this.open({ kind: 'reasoning' });
    this.prove(index, proof);
    this.close(index);
  }

  #takeState(thought: string, for_call: boolean): ReasoningProof | undefined {
    const value = this.#state.take(thought, this.#calls.takeStates(), for_call);
    return value === undefined ? undefined : { protocol: 'chat', kind: 'state', value };
  }

  #readCall(call: unknown): void {
    if (!isObject(call)) return;
    // Reasoning ends where the call starts, and carries the state of the call.
    if (this.#open?.kind !== 'reasoning') this.#endText();
    this.#calls.read(call, this.#name!);
  }

  #stop(word: string, stop_reason: unknown): void {
    this.#word = word;
    const end = this.endBy(word, this.#calls.cut);
    if ('problem' in end) {
      this.finish(end);
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
}

function asDelta(message: Json): Json {
  if (!Array.isArray(message.tool_calls)) return message;
  const tool_calls = message.tool_calls.map((call, index) => (isObject(call) ? { ...call, index } : call));
  return { ...message, tool_calls };
}

const DONE = '[DONE]';

export function createReader(notes: Notes, emit: Emit): StreamReader {
  const chunks = new ChunkReader(notes, emit);
  return {
    read({ name, data }) {
      if (data.trim() === DONE) {
        if (chunks.whole) chunks.end();
      } else if (name === 'error') chunks.fail(data);
      else chunks.read(parseEvent(data));
    },
    get finished() {
      return chunks.over || chunks.finished;
    },
    end() {
      if (chunks.over) return;
      if (!chunks.finished) throw notComplete();
      chunks.end();
    },
  };
}

/** Reads a response without a stream; `message` has the content of deltas. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const events: ModelEvent[] = [];
  const chunks = new ChunkReader(notes, (event) => events.push(event));
  const list = objectsIn(document.choices);
  chunks.read({ ...document, choices: list.map((choice) => ({ ...choice, delta: undefined })) });
  if (!chunks.over && !list.some(({ message }) => isObject(message))) {
    throw brokenAnswer('choices.0.message is missing');
  }
  if (!chunks.over && !chunks.whole) throw brokenAnswer('it is incomplete and has no finish_reason');
  chunks.end();
  return events;
}

const DELTA_TEXT = /"(?:content|reasoning_content|reasoning|arguments|refusal|text)"\s*:\s*"(?!")/g;

const MESSAGE = /message"\s*:\s*\{/;

/** Reads usage from chat completions. Parses only chunks that may have more than text. */
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
      // A complete message in place of a stream counts as output; after deltas it is a repetition.
      const message = data.search(MESSAGE);
      if (message >= 0) countTexts(reading, data, DELTA_TEXT, message);
    }
    if (delta < 0 || hasKey(data, 'usage":') || hasKey(data, 'finish_reason":')) readChunk(reading, parseObject(data));
  }
}

/**
 * Whether a key has a value; with white space in between, it may be a false positive. Searching for a string without a
 * leading quote is fast, because quotes are frequent. In a text the closing quote would be escaped.
 */
function hasKey(data: string, key: string): boolean {
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

function takeChatUsage(reading: UsageReading, chunk: Json): void {
  const choices = itemsOf(chunk.choices);
  let is_counted = false;
  for (const usage of usagesIn(chunk, choices)) {
    const report = readTotals(usage);
    if (report === undefined) continue;
    takeTotals(reading, report);
    is_counted ||= report.counts.output !== undefined;
  }
  const words = choices.map((choice) => asObject(choice)?.finish_reason).filter(saysReason);
  if (words.some(breaksOff)) reading.failed = true;
  else if (words.length > 0) reading.complete = true;
  // Before the end it is the count so far.
  const is_last = reading.complete || words.length > 0 || (Array.isArray(chunk.choices) && choices.length === 0);
  if (is_last) reading.counted ||= is_counted;
}

/** Usage at all known places, the most reliable last: llama.cpp, Moonshot, Groq, all others. */
function* usagesIn(chunk: Json, choices: readonly unknown[]): Generator<unknown> {
  if (chunk.usage == null && chunk.timings != null) yield ofTimings(asObject(chunk.timings));
  for (const choice of choices) yield asObject(choice)?.usage;
  if (chunk.x_groq != null) yield asObject(chunk.x_groq)?.usage;
  yield chunk.usage;
}

function ofTimings({ cache_n, prompt_n, predicted_n }: Json = {}): object {
  const prompt_tokens = typeof prompt_n === 'number' && typeof cache_n === 'number' ? prompt_n + cache_n : prompt_n;
  return { prompt_tokens, cached_tokens: cache_n, completion_tokens: predicted_n };
}

function kindOf(path: Path): TextKind {
  const field = path[2] === 'text' ? 'content' : path[3];
  if (field === 'content') return 'text';
  if (field === 'refusal') return 'refusal';
  if (field === 'tool_calls' || field === 'function_call') return 'tool_input';
  return typeof field === 'string' && field.startsWith('reasoning') ? 'reasoning' : 'other';
}

/** A path with list elements by their `index`, which is stable across chunks. */
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

/** A copy of the objects along a path, with the fields that identify the text. */
function along(value: unknown, path: Path, text: string): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return text;
  const inner = along(valueAt(value, [step]), rest, text);
  if (typeof step === 'number') return [inner];
  const { index, type } = isObject(value) ? value : {};
  return { ...(index !== undefined && { index }), ...(type !== undefined && { type }), [step]: inner };
}

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
    const choice = itemsOf(chunk.choices).find((one, at) => isObject(one) && (one.index ?? at) === index);
    if (!isObject(choice) || brings(choice, steps)) return false;
    const sent_text = saidKinds(choice);
    return typeof choice.finish_reason === 'string' || (sent_text.size > 0 && !sent_text.has(kind));
  },
  pieceLike({ usage: _usage, choices, ...chunk }, path, text) {
    const index = choiceOf(path, { choices });
    const sent_text = along(valueAt({ choices }, path.slice(0, 2)), path.slice(2), text) as Json;
    return { ...chunk, choices: [{ ...sent_text, index, finish_reason: null }] };
  },
};
