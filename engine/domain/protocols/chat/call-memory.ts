import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { JsonValue, RequestBody } from '../../../base/contract/request-body.ts';
import type { ResponseEvent } from '../../../base/contract/stage.ts';
import { parseBounded, tryParseBounded } from '../../../base/kit/json/bounded.ts';
import { canonicalJson } from '../../../base/kit/json/canonical.ts';
import { isAbsent, isObject, own, present } from '../read-json.ts';
import {
  type CallKey,
  type CallState,
  gatherAnswer,
  type Json,
  type KeptState,
  type ModelEvent,
  type Recall,
} from '../translation/conversation.ts';
import { shortCallId } from '../translation/features.ts';
import { Notes } from '../translation/rules.ts';
import { ChunkReader, readDocument } from './read-answer.ts';

/**
 * State that chat servers expect back with a message and its calls, beyond the protocol: reasoning signatures, encrypted
 * reasoning, state of calls. Clients of other protocols keep it as proofs of reasoning parts. Pieces in a stream and in a
 * request are merged by the same rules.
 */

type Fields = Record<string, unknown>;

/**
 * Kinds of fields of an assistant message. `thought`: the reasoning text, which servers repeat under several names.
 * `thoughts`: a list of its pieces, with proofs. `protocol`: read and written elsewhere. `display`: only for readers of the
 * response; servers do not need it back. All other fields are state, except numbers and flags.
 */
const MESSAGE_FIELDS: Readonly<Record<string, 'thought' | 'thoughts' | 'protocol' | 'display'>> = {
  // DeepSeek, Moonshot, Zhipu, Qwen, xAI, vLLM, SGLang, llama.cpp
  reasoning_content: 'thought',
  // OpenRouter, Groq, Cerebras, Ollama, vLLM since 0.12
  reasoning: 'thought',
  // GitHub Copilot, beside `reasoning_opaque`
  reasoning_text: 'thought',
  thinking: 'thought',
  // OpenRouter, Vercel, MiniMax
  reasoning_details: 'thoughts',
  // LiteLLM
  thinking_blocks: 'thoughts',
  ...fieldsOf('protocol', ['role', 'content', 'refusal', 'tool_calls', 'function_call']),
  ...fieldsOf('display', ['annotations', 'audio', 'images', 'citations', 'search_results', 'context', 'logprobs']),
  ...fieldsOf('display', ['parsed', 'stop_reason', 'finish_reason', 'token_ids', 'prompt_token_ids', 'hidden_states']),
  ...fieldsOf('display', ['id', 'type', 'index', 'model', 'name', 'text', 'token', 'tool_call_id', 'tools']),
  ...fieldsOf('display', ['cache_control', 'output', 'prompt', 'input']),
};

function fieldsOf<T>(kind: T, names: readonly string[]): Record<string, T> {
  return Object.fromEntries(names.map((name) => [name, kind]));
}

const THOUGHTS = Object.keys(MESSAGE_FIELDS).filter((key) => MESSAGE_FIELDS[key] === 'thought');
const USUAL_THOUGHT = THOUGHTS[0]!;
const THOUGHT_LISTS = Object.keys(MESSAGE_FIELDS).filter((key) => MESSAGE_FIELDS[key] === 'thoughts');

/** Content parts with reasoning: of Mistral, Databricks, and servers that imitate the Messages protocol. */
const THOUGHT_PARTS: ReadonlySet<unknown> = new Set(['thinking', 'reasoning', 'redacted_thinking']);

const CALL_FIELDS: ReadonlySet<string> = new Set(['id', 'index', 'type', 'function', 'custom', 'cache_control']);
const FUNCTION_FIELDS: ReadonlySet<string> = new Set(['name', 'arguments', 'input', 'parsed_arguments']);

/** Strings that arrive in pieces; all others arrive complete. */
const TEXTS: ReadonlySet<string> = new Set([...THOUGHTS, 'text', 'summary', 'content']);

/** Placeholder for the reasoning text in its state, so that the text is not stored twice. */
const THE_THOUGHT = 'gw:text';

/** Maximum state of one response, in characters, and the minimum count of a list entry. */
const STATE_CHARS_MAX = 1_048_576;
const ENTRY_CHARS = 1024;

interface State {
  readonly message?: Json;
  readonly parts?: readonly unknown[];
  readonly calls?: Readonly<Record<string, CallState>>;
}

function saysSomething(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.keys(value).length > 0;
  return !isAbsent(value) && value !== '';
}

/** Whether a field has the reasoning text; other types of values in it are state. */
const isThought = (key: string, value: unknown): value is string =>
  own(MESSAGE_FIELDS, key) === 'thought' && typeof value === 'string';

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

function textOf(piece: unknown): string {
  if (typeof piece === 'string') return piece;
  if (Array.isArray(piece)) return piece.map(textOf).join('');
  if (!isObject(piece)) return '';
  return [piece.text, piece.thinking, piece.summary, piece.content].map(textOf).find(isText) ?? '';
}

/** The reasoning text of a delta or message: of its field, else of the list of pieces. */
export function thoughtIn(delta: Json): string {
  for (const key of THOUGHTS) if (isText(delta[key])) return delta[key];
  for (const key of THOUGHT_LISTS) {
    const text = Array.isArray(delta[key]) ? textOf(delta[key]) : '';
    if (text !== '') return text;
  }
  return '';
}

/** The reasoning text in a content part; `undefined` for other parts. */
export function thoughtInPart(part: Json): string | undefined {
  return THOUGHT_PARTS.has(part.type) ? textOf(part) : undefined;
}

type Grow = (chars: number) => void;

/** Merges a piece into the earlier ones, in place, because streams have many pieces. */
function merged(before: unknown, piece: unknown, key: string, grow: Grow): unknown {
  if (isAbsent(piece) || piece === '') return before === undefined || before === null ? piece : before;
  if (Array.isArray(piece) && Array.isArray(before)) return mergedLists(before, piece, grow);
  if (isObject(piece) && isObject(before)) return mergedFields(before, piece, grow);
  const is_more = typeof piece === 'string' && typeof before === 'string' && TEXTS.has(key);
  grow(sizeOf(piece) - (is_more || before === undefined ? 0 : sizeOf(before)));
  return is_more ? before + piece : piece;
}

function mergedFields(before: Json, piece: Json, grow: Grow): Json {
  const fields = before as Fields;
  for (const key of Object.keys(piece)) {
    if (key === '__proto__') continue;
    if (!Object.hasOwn(fields, key)) grow(key.length);
    fields[key] = merged(own(fields, key), piece[key], key, grow);
  }
  return fields;
}

/** Merges entries by index, or else into the last entry; encrypted entries arrive complete. */
function mergedLists(before: readonly unknown[], pieces: readonly unknown[], grow: Grow): unknown[] {
  const list = before as unknown[];
  const last = list.length - 1;
  for (const [at, piece] of pieces.entries()) {
    const found = isObject(piece)
      ? list.findLastIndex((entry, index) => isObject(entry) && belongs(piece, entry, at === 0 && index === last))
      : -1;
    if (found !== -1) mergedFields(list[found] as Json, piece as Json, grow);
    else {
      grow(ENTRY_CHARS + sizeOf(piece));
      list.push(piece);
    }
  }
  return list;
}

const differ = (one: unknown, other: unknown): boolean => isText(one) && isText(other) && one !== other;

/** Whether a piece continues an entry. Without an index it continues the previous entry, unless that has a proof. */
function belongs(piece: Json, entry: Json, follows: boolean): boolean {
  if (differ(piece.type, entry.type) || differ(piece.id, entry.id) || differ(piece.data, entry.data)) return false;
  if (typeof piece.index === 'number' || typeof entry.index === 'number') return piece.index === entry.index;
  return follows && !isText(entry.signature) && !isText(entry.data) && entry.closed !== true;
}

function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (Array.isArray(value)) return value.reduce((sum: number, entry) => sum + ENTRY_CHARS + sizeOf(entry), 0);
  if (!isObject(value)) return 8;
  return Object.entries(value).reduce((sum, [key, inner]) => sum + key.length + sizeOf(inner), 0);
}

/** Collects the state of one response, until a reasoning part carries it. */
export class StateCollector {
  #message: Fields = {};
  #parts: readonly unknown[] = [];
  #thought = false;
  #chars = 0;
  readonly #grow: Grow = (chars) => {
    this.#chars += chars;
  };

  get full(): boolean {
    return this.#chars > STATE_CHARS_MAX;
  }

  /** Adds the fields of a delta or a complete message. @returns whether other fields were dropped */
  addMessage(delta: Json): boolean {
    let left_out = false;
    for (const key of Object.keys(delta)) {
      const value = delta[key];
      const kind = own(MESSAGE_FIELDS, key);
      if (kind === 'protocol' || key === '__proto__') continue;
      const is_state = kind !== 'display' && typeof value !== 'number' && typeof value !== 'boolean';
      const before = own(this.#message, key);
      if (isThought(key, value)) this.#message[key] = typeof before === 'string' ? before + value : value;
      else if (!saysSomething(value)) continue;
      else if (!is_state) left_out = true;
      else if (!this.full) this.#message[key] = merged(before, value, key, this.#grow);
    }
    return left_out;
  }

  addParts(parts: readonly Json[]): void {
    if (!this.full) this.#parts = mergedLists(this.#parts.length === 0 ? [] : this.#parts, parts, this.#grow);
  }

  addCall(before: CallState | undefined, delta: Json): CallState | undefined {
    const piece = callState(delta, delta.function);
    if (Object.keys(piece).length === 0 || this.full) return before;
    if (before === undefined) this.#grow(ENTRY_CHARS);
    return mergedFields((before ?? {}) as Json, piece, this.#grow) as CallState;
  }

  /**
   * The state since the last call, as the proof of reasoning with this text; `undefined` without any.
   * @param calls state of calls by the client's identifiers
   * @param for_call whether a call follows, which some servers accept back only with an empty field
   */
  take(text: string, calls: Readonly<Record<string, CallState>>, for_call: boolean): string | undefined {
    const message = this.#messageFor(text);
    const keys = Object.keys(message);
    const has_calls = Object.keys(calls).length > 0;
    const is_plain = keys.every((key) => isThought(key, message[key])) && this.#parts.length === 0 && !has_calls;
    if (is_plain && text === '' && (this.#thought || !for_call || keys.length === 0)) return undefined;
    const state: State = {
      ...(keys.length > 0 && { message }),
      ...(this.#parts.length > 0 && { parts: this.#parts }),
      ...(has_calls && { calls }),
    };
    this.#message = {};
    this.#parts = [];
    this.#thought ||= text !== '';
    if (this.full || (is_plain && text !== '' && keys.every((key) => key === USUAL_THOUGHT))) return undefined;
    return JSON.stringify(state, (_key, value) => (text !== '' && value === text ? THE_THOUGHT : value));
  }

  /** Puts the text into its original fields, or into the usual one if pieces had different fields. */
  #messageFor(text: string): Json {
    const fields = Object.entries(this.#message);
    const known_thoughts = fields.filter(([key, value]) => isThought(key, value));
    if (known_thoughts.length === 0) return this.#message;
    const others = fields.filter(([key, value]) => !isThought(key, value));
    const same = known_thoughts.filter(([, value]) => value === text);
    return Object.fromEntries([...(same.length === 0 ? [[USUAL_THOUGHT, text]] : same), ...others]);
  }
}

function without(fields: Json, known: ReadonlySet<string>): Json | undefined {
  const others = Object.entries(fields).filter(
    ([key, value]) => !known.has(key) && key !== '__proto__' && !isAbsent(value),
  );
  return others.length === 0 ? undefined : Object.fromEntries(others);
}

function callState(call: unknown, inner: unknown): Json {
  return present({
    call: isObject(call) ? without(call, CALL_FIELDS) : undefined,
    function: isObject(inner) ? without(inner, FUNCTION_FIELDS) : undefined,
  });
}

/** No bound: returned state is part of the request, which is bounded. */
const unbounded: Grow = () => undefined;

/** State that a client returned. Applies only to assistant messages and their calls, never to fields of the protocol. */
export class ReturnedState {
  #message: Json = {};
  #parts: readonly unknown[] = [];
  #calls = new Map<string, CallState>();
  readonly #ids = new Map<string, string>();

  add(proof: string, text: string): boolean {
    const state = withText(tryParseBounded(proof), text);
    if (!isObject(state)) return false;
    if (isObject(state.message)) this.#addMessage(state.message, text);
    if (Array.isArray(state.parts)) {
      const parts = state.parts.filter((part) => isObject(part) && THOUGHT_PARTS.has(part.type));
      this.#parts = mergedLists(this.#parts, parts, unbounded);
    }
    if (isObject(state.calls)) for (const [id, call] of Object.entries(state.calls)) this.#addCall(id, call);
    return true;
  }

  addText(text: string, between: string): void {
    const before = this.#message[USUAL_THOUGHT];
    const known_thoughts = isText(before) ? before + between + text : text;
    this.#message = { ...this.#message, [USUAL_THOUGHT]: known_thoughts };
  }

  #addMessage(message: Json, text: string): void {
    const returned = Object.entries(message).filter(([key, value]) => {
      const kind = own(MESSAGE_FIELDS, key);
      // Reasoning text must stay in the reasoning part, where prompt inspection sees it.
      return isThought(key, value) ? value === text : kind !== 'protocol' && kind !== 'display';
    });
    this.#message = mergedFields(this.#message, Object.fromEntries(returned), unbounded);
  }

  #addCall(id: string, state: unknown): void {
    if (!isObject(state)) return;
    if (isText(state.id) && shortCallId(state.id) === id) this.#ids.set(id, state.id);
    const piece = callState(state.call, state.function);
    this.#calls.set(id, mergedFields((this.#calls.get(id) ?? {}) as Json, piece, unbounded) as CallState);
  }

  /** Adds remembered state of the current message's calls that the client did not return. */
  addKept(calls: readonly CallKey[], recall: Recall): void {
    for (const call of calls) {
      const kept = recall(call);
      if (kept === undefined) continue;
      if (this.#parts.length === 0 && thoughtIn(this.#message) === '') this.#parts = kept.parts ?? [];
      if (kept.message !== undefined) this.#message = completed(this.#message, kept.message);
      const { call: fields = {}, function: inner = {} } = this.stateOf(call.id);
      this.#addCall(call.id, {
        id: kept.id,
        call: { ...kept.call, ...fields },
        function: { ...kept.function, ...inner },
      });
    }
  }

  idOf(id: string): string {
    return this.#ids.get(id) ?? id;
  }

  stateOf(id: string): CallState {
    return this.#calls.get(id) ?? {};
  }

  /** Takes the fields and content parts of the current message; later proofs belong to the next message. */
  takeMessage(): { readonly fields: Json; readonly parts: readonly unknown[] } {
    const taken = { fields: this.#message, parts: this.#parts };
    this.#message = {};
    this.#parts = [];
    return taken;
  }

  /** Forgets state of written calls: other responses may have calls with the same identifiers. */
  forget(ids: readonly string[]): void {
    for (const id of ids) this.#calls.delete(id);
  }
}

/** The remembered fields that an object lacks. If the reasoning text differs, the client's is kept. */
function missingFields(object: Json, kept: Json = {}): Json {
  const known_thoughts = THOUGHTS.map((key) => own(object, key)).find(isText);
  return Object.fromEntries(
    Object.entries(kept).filter(
      ([key, value]) =>
        !Object.hasOwn(object, key) &&
        (known_thoughts === undefined || !isThought(key, value) || value === known_thoughts),
    ),
  );
}

/** Completes the fields of a message with the reasoning and state that the client did not return. */
function completed(message: Json, kept: Json): Json {
  if (!thoughtIn(kept).includes(thoughtIn(message))) return { ...message, ...missingFields(message, kept) };
  return { ...Object.fromEntries(Object.entries(message).filter(([key, value]) => !isThought(key, value))), ...kept };
}

function withText(value: unknown, text: string): unknown {
  if (value === THE_THOUGHT) return text;
  if (Array.isArray(value)) return value.map((inner) => withText(inner, text));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withText(inner, text)]));
}

/**
 * State of tool calls that clients omit: some keep only the text of a response and the identifiers of its calls. The process
 * remembers the state of a chat upstream's calls for a while, by caller and state boundary, and adds it to requests that lack
 * it. The state is neither stored nor logged.
 */

const REMEMBERED_MS = 24 * 60 * 60 * 1000;

/** Bound on the memory, in characters, and the minimum count of a call. */
const MEMORY_CHARS_MAX = 32 * 1024 * 1024;
const CALL_CHARS = 1024;

const DOCUMENT_BYTES_MAX = 4 * 1024 * 1024;

const READ_CHARS_MAX = 16 * 1024 * 1024;
const WAITING_CHARS_MAX = 1024 * 1024;

const FIELDS =
  'reasoning|summary|reasoning_(?:content|details|text|opaque)|thinking|thinking_blocks|extra_content|provider_specific_fields|thought_signature|thoughtSignature';

/** Matches one of these keys with a value; in a text the quotes would be escaped. @param but values to ignore */
const keyed = (names: string, but: string, flags = ''): RegExp =>
  new RegExp(`"(?:${names})"\\s*:\\s*(?!null|\\[\\]|\\{\\}|\\s${but})`, flags);

const STATE = keyed(FIELDS, '');
const FULL_STATE = keyed(FIELDS, '|""');
/** Matches state or the start of a call; other chunks are not parsed. */
const SIGN = keyed(`${FIELDS}|name`, '', 'g');
/** Matches an identifier that may be shortened for clients of other protocols. */
const LONG_ID = /"id"\s*:\s*"[^"\\]{48}/;
const CALL_NAME = /"name"\s*:\s*"[^"]/g;

function beginsCall(data: string): boolean {
  const at = data.indexOf('"tool_calls"');
  CALL_NAME.lastIndex = at;
  return at >= 0 && CALL_NAME.test(data);
}

/** Matches identifiers that look random or are long; some servers only count calls or use the tool's name. */
const UNIQUE = /(?=[A-Za-z0-9]{8})[A-Za-z0-9]*\d[A-Za-z]|[A-Za-z0-9]{20}|\d{15}/;

function isUnique(id: string, name: string): boolean {
  return UNIQUE.test(name === '' ? id : id.replaceAll(name, ''));
}

function namesUniqueCall(data: string): boolean {
  const calls = data.slice(data.indexOf('"tool_calls"'));
  const [, id = ''] = /"id"\s*:\s*"([^"\\]+)"/.exec(calls) ?? [];
  const [, name = ''] = /"name"\s*:\s*"([^"\\]+)"/.exec(calls) ?? [];
  return isUnique(id, name);
}

interface Asker {
  readonly caller: string;
  readonly state_boundary: string;
  readonly session: string | undefined;
}

function ownerOf({ caller, state_boundary }: Asker): string {
  return `${caller}\n${state_boundary}`;
}

/** The key of a call in the memory. An identifier that does not look unique may occur in other sessions and calls. */
function keyOf(asker: Asker, { id, name, arguments: text }: CallKey): string | undefined {
  const short = shortCallId(id);
  const key = `${ownerOf(asker)}\n${short}`;
  if (isUnique(short, name)) return key;
  if (asker.session === undefined) return undefined;
  const call = createHash('sha256').update(`${name}\n${canonicalJson(tryParseBounded(text) ?? text)}`);
  return `${key}\n${asker.session}\n${call.digest('base64url')}`;
}

export class CallMemory {
  readonly #states: LRUCache<string, string>;

  constructor(perf: { now(): number } = performance) {
    this.#states = new LRUCache({
      maxSize: MEMORY_CHARS_MAX,
      sizeCalculation: ({ length }) => CALL_CHARS + length,
      ttl: REMEMBERED_MS,
      ttlResolution: 0,
      updateAgeOnGet: true,
      perf,
    });
  }

  /** The remembered state of a caller's calls within a boundary; `undefined` without any, as for most callers. */
  recalling(asker: Asker): Recall | undefined {
    if (this.#states.get(ownerOf(asker)) === undefined) return undefined;
    return (call) => {
      const key = keyOf(asker, call);
      const kept = key === undefined ? undefined : this.#states.get(key);
      return kept === undefined ? undefined : (JSON.parse(kept) as KeptState);
    };
  }

  watch(asker: Asker): AnswerWatch {
    return new AnswerWatch((calls) => {
      for (const [call, state] of calls) {
        const key = keyOf(asker, call);
        if (key === undefined) continue;
        this.#states.set(key, JSON.stringify(state));
        this.#states.set(ownerOf(asker), '');
      }
    });
  }
}

/** The memory of this process, which outlives configurations. */
export const CALL_MEMORY = new CallMemory();

type Remembered = readonly (readonly [CallKey, KeptState])[];

/** Reads the chunks of a response that have state or begin a call; stops for responses without state. */
export class AnswerWatch {
  readonly #remember: (calls: Remembered) => void;
  /** Calls before the first state, which some servers send last. */
  #waiting: string[] = [];
  #chars = 0;
  /** Whether a call is identified by its arguments, which later chunks have. */
  #needs_arguments = false;
  #reader: ChunkReader | undefined;
  #events: ModelEvent[] = [];
  #over = false;

  constructor(remember: (calls: Remembered) => void) {
    this.#remember = remember;
  }

  read(event: ResponseEvent): void {
    if (this.#over) return;
    if (event.name !== undefined) this.#readEvent(event.data);
    else if ((event.large?.bytes ?? 0) <= DOCUMENT_BYTES_MAX) this.#readDocument(event.data);
  }

  #readEvent(data: string): void {
    SIGN.lastIndex = Math.max(0, data.indexOf('delta"'));
    const has_sign = SIGN.test(data);
    const begins_call = has_sign && beginsCall(data);
    if (begins_call) this.#needs_arguments ||= !namesUniqueCall(data);
    // Some servers repeat an empty field in every chunk, and want it back once.
    if (has_sign && (this.#reader === undefined ? STATE : FULL_STATE).test(data)) this.#readChunk(data);
    else if (begins_call || (!has_sign && this.#needs_arguments && data.includes('"arguments"'))) this.#readCall(data);
    else if (data === '[DONE]') this.end();
  }

  #readCall(data: string): void {
    if (this.#reader !== undefined || LONG_ID.test(data)) this.#readChunk(data);
    else if (this.#hasRoom(data, WAITING_CHARS_MAX)) this.#waiting.push(data);
  }

  #readChunk(data: string): void {
    if (!this.#hasRoom(data, READ_CHARS_MAX)) return;
    this.#guard(() => {
      this.#reader ??= new ChunkReader(new Notes(), (event) => this.#keep(event));
      for (const chunk of [...this.#waiting.splice(0), data]) {
        const parsed = parseBounded(chunk);
        if (isObject(parsed)) this.#reader.read(parsed);
      }
    });
  }

  /** Pieces in a row are one: a thought can have very many. */
  #keep(event: ModelEvent): void {
    const last = this.#events.at(-1);
    if (event.type === 'part_delta' && last?.type === 'part_delta' && last.index === event.index)
      this.#events[this.#events.length - 1] = { ...event, text: last.text + event.text };
    else this.#events.push(event);
  }

  #hasRoom(data: string, most: number): boolean {
    this.#chars += data.length;
    if (this.#chars > most) this.#giveUp();
    return !this.#over;
  }

  #giveUp(): void {
    this.#over = true;
    this.#reader = undefined;
    this.#events = [];
    this.#waiting = [];
  }

  #readDocument(data: string): void {
    if (!beginsCall(data) || !(STATE.test(data) || LONG_ID.test(data))) return;
    this.#guard(() => {
      const document = parseBounded(data);
      if (isObject(document)) this.#remember(statesIn(readDocument(document, new Notes())));
    });
  }

  end(): void {
    const reader = this.#reader;
    if (reader === undefined || this.#over) return;
    this.#over = true;
    this.#guard(() => {
      reader.end();
      this.#remember(statesIn(this.#events));
    });
  }

  #guard(step: () => void): void {
    try {
      step();
    } catch {
      this.#giveUp();
    }
  }
}

/** State of each tool call that a response gives clients of other protocols to keep; the first call has the state of the message. */
function statesIn(events: readonly ModelEvent[]): Remembered {
  if (events.some(({ type }) => type === 'error')) throw new Error('the response failed');
  const state = new ReturnedState();
  const calls: CallKey[] = [];
  for (const { start, text, proof } of gatherAnswer(events).parts) {
    if (start.kind === 'tool_call') calls.push({ id: start.id, name: start.name, arguments: text });
    else if (proof !== undefined) state.add(proof.value, text);
    else if (start.kind === 'reasoning') state.addText(text, '');
  }
  const { fields, parts } = state.takeMessage();
  const message = {
    ...(Object.keys(fields).length > 0 && { message: fields }),
    ...(parts.length > 0 && { parts }),
  };
  return calls.flatMap((call, at): Remembered => {
    const id = state.idOf(call.id);
    const kept = { ...state.stateOf(call.id), ...(at === 0 && message) };
    return id === call.id && Object.keys(kept).length === 0 ? [] : [[call, { ...kept, id }]];
  });
}

/** Adds omitted state to the messages of a chat client, and keeps all other bytes. The rewrite is recorded. */
export async function returnState(body: RequestBody, recall: Recall): Promise<void> {
  const parsed = await body.json();
  const messages = isObject(parsed) && Array.isArray(parsed.messages) ? (parsed.messages as unknown[]) : [];
  const lacking = messages.flatMap((message, at) => lackingIn(message, ['messages', at], recall));
  if (lacking.length > 0) await body.addFields(lacking);
}

type Lacking = { readonly path: readonly (string | number)[]; readonly fields: Readonly<Record<string, JsonValue>> };

function lackingIn(message: unknown, path: Lacking['path'], recall: Recall): Lacking[] {
  if (!isObject(message) || message.role !== 'assistant' || !Array.isArray(message.tool_calls)) return [];
  const lacking: Lacking[] = [];
  const add = (at: Lacking['path'], object: Json, kept?: Json) => {
    const fields = missingFields(object, kept) as Lacking['fields'];
    if (Object.keys(fields).length > 0) lacking.push({ path: at, fields });
  };
  for (const [index, call] of message.tool_calls.entries()) {
    if (!isObject(call) || typeof call.id !== 'string' || !isObject(call.function)) continue;
    const { name, arguments: text } = call.function;
    const kept =
      typeof name === 'string' && typeof text === 'string' ? recall({ id: call.id, name, arguments: text }) : undefined;
    if (kept === undefined) continue;
    const at = [...path, 'tool_calls', index];
    add(path, message, kept.message);
    add(at, call, kept.call);
    add([...at, 'function'], call.function, kept.function);
  }
  return lacking;
}
