/**
 * State of tool calls that clients leave out: some keep nothing of an answer beside its text and the identifiers of its calls. What an
 * upstream of chat completions said with its calls is remembered in this process for a while, for the same caller and the same state
 * boundary, and goes back with those calls where a request lacks it. It is neither stored nor logged.
 * @module
 */

import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { JsonValue, RequestBody } from '../../contract/request-body.ts';
import type { ResponseEvent } from '../../contract/stage.ts';
import { parseBounded, tryParseBounded } from '../../kit/json/bounded.ts';
import { canonicalJson } from '../../kit/json/canonical.ts';
import { isObject } from '../read-json.ts';
import type { CallKey, Json, KeptState, Recall } from '../translation/adapter.ts';
import type { ModelEvent, PartStart } from '../translation/events.ts';
import { shortCallId } from '../translation/features/call-ids.ts';
import { Notes } from '../translation/notes.ts';
import { ChunkReader } from './chunk-reader.ts';
import { missingFields, ReturnedState } from './provider-state.ts';
import { readDocument } from './read-stream.ts';

const REMEMBERED_MS = 24 * 60 * 60 * 1000;

/** The most that is remembered, in characters; a call counts for at least so many. */
const MEMORY_CHARS_MAX = 32 * 1024 * 1024;
const CALL_CHARS = 1024;

/** The largest document that is looked at, in bytes. */
const DOCUMENT_BYTES_MAX = 4 * 1024 * 1024;

/** The most that is read of a stream, in characters, and of it before any state has come. */
const READ_CHARS_MAX = 16 * 1024 * 1024;
const WAITING_CHARS_MAX = 1024 * 1024;

/** Fields that hold state, of those that servers are known to have. */
const FIELDS =
  'reasoning|summary|reasoning_(?:content|details|text|opaque)|thinking|thinking_blocks|extra_content|provider_specific_fields|thought_signature|thoughtSignature';

/** One of these keys with a value; within a text the quotes would be escaped. `but`: values that say nothing. */
const keyed = (names: string, but: string, flags = ''): RegExp =>
  new RegExp(`"(?:${names})"\\s*:\\s*(?!null|\\[\\]|\\{\\}|\\s${but})`, flags);

const STATE = keyed(FIELDS, '');
const FULL_STATE = keyed(FIELDS, '|""');
/** What may be either state or the beginning of a call; nothing else of a stream is looked at again. */
const SIGN = keyed(`${FIELDS}|name`, '', 'g');
/** An identifier that clients of other protocols may get a shorter one for. */
const LONG_ID = /"id"\s*:\s*"[^"\\]{48}/;
/** A name of a call, which its first piece has. */
const CALL_NAME = /"name"\s*:\s*"[^"]/g;

function beginsCall(data: string): boolean {
  const at = data.indexOf('"tool_calls"');
  CALL_NAME.lastIndex = at;
  return at >= 0 && CALL_NAME.test(data);
}

/** What looks random, with a digit before a letter, or is long: some servers count calls, or name them after their tool. */
const UNIQUE = /(?=[A-Za-z0-9]{8})[A-Za-z0-9]*\d[A-Za-z]|[A-Za-z0-9]{20}|\d{15}/;

function isUnique(id: string, name: string): boolean {
  return UNIQUE.test(name === '' ? id : id.replaceAll(name, ''));
}

/** Whether the call that this chunk begins has an identifier of its own. */
function namesUniqueCall(data: string): boolean {
  const calls = data.slice(data.indexOf('"tool_calls"'));
  const [, id = ''] = /"id"\s*:\s*"([^"\\]+)"/.exec(calls) ?? [];
  const [, name = ''] = /"name"\s*:\s*"([^"\\]+)"/.exec(calls) ?? [];
  return isUnique(id, name);
}

/** Who asks, and where. */
export interface Asker {
  readonly caller: string;
  readonly state_boundary: string;
  /** What the turns of a session have in common, where the client names it. */
  readonly session: string | undefined;
}

function ownerOf({ caller, state_boundary }: Asker): string {
  return `${caller}\n${state_boundary}`;
}

/** What a call is remembered by. Other sessions, and other calls, may have an identifier that does not look unique. */
function keyOf(asker: Asker, { id, name, arguments: text }: CallKey): string | undefined {
  const short = shortCallId(id);
  const key = `${ownerOf(asker)}\n${short}`;
  if (isUnique(short, name)) return key;
  if (asker.session === undefined) return undefined;
  const call = createHash('sha256').update(`${name}\n${canonicalJson(tryParseBounded(text) ?? text)}`);
  return `${key}\n${asker.session}\n${call.digest('base64url')}`;
}

/** Remembers state of calls, by who was answered. */
export class CallMemory {
  readonly #states: LRUCache<string, string>;

  /** @param perf the clock, in milliseconds */
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

  /** What is remembered of a caller's calls within a boundary; `undefined` where that is nothing, as it is for most. */
  recalling(asker: Asker): Recall | undefined {
    if (this.#states.get(ownerOf(asker)) === undefined) return undefined;
    return (call) => {
      const key = keyOf(asker, call);
      const kept = key === undefined ? undefined : this.#states.get(key);
      return kept === undefined ? undefined : (JSON.parse(kept) as KeptState);
    };
  }

  /** Watches one answer, to remember what it says with its calls. */
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

/** The memory of this process; configurations come and go. */
export const CALL_MEMORY = new CallMemory();

/** Calls with what is to be remembered of each. */
type Remembered = readonly (readonly [CallKey, KeptState])[];

/** Reads the pieces of an answer that have state or begin a call, and nothing of an answer that has no state. */
export class AnswerWatch {
  readonly #remember: (calls: Remembered) => void;
  /** Calls that came before any state: some servers send it last. */
  #waiting: string[] = [];
  #chars = 0;
  /** Whether a call is known by its arguments, which the chunks after its first have. */
  #needs_arguments = false;
  #answer: StatefulAnswer | undefined;
  #over = false;

  constructor(remember: (calls: Remembered) => void) {
    this.#remember = remember;
  }

  /** Takes what the upstream sent. */
  read(event: ResponseEvent): void {
    if (this.#over) return;
    if (event.name !== undefined) this.#readEvent(event.data);
    // The text of a large document is made when it is asked for.
    else if ((event.large?.bytes ?? 0) <= DOCUMENT_BYTES_MAX) this.#readDocument(event.data);
  }

  #readEvent(data: string): void {
    // What stands before is the same in every chunk.
    SIGN.lastIndex = Math.max(0, data.indexOf('delta"'));
    if (SIGN.test(data)) this.#readSign(data);
    else if (data === '[DONE]') this.end();
    else if (this.#needs_arguments && data.includes('"arguments"')) this.#readCall(data);
  }

  #readSign(data: string): void {
    const begins_call = beginsCall(data);
    if (begins_call) this.#needs_arguments ||= !namesUniqueCall(data);
    // Some servers repeat an empty field in every chunk, and want it back once.
    if ((this.#answer === undefined ? STATE : FULL_STATE).test(data)) this.#readChunk(data);
    else if (begins_call) this.#readCall(data);
  }

  #readCall(data: string): void {
    if (this.#answer !== undefined || LONG_ID.test(data)) this.#readChunk(data);
    else if (this.#hasRoom(data, WAITING_CHARS_MAX)) this.#waiting.push(data);
  }

  #readChunk(data: string): void {
    if (!this.#hasRoom(data, READ_CHARS_MAX)) return;
    this.#guard(() => {
      this.#answer ??= new StatefulAnswer();
      for (const chunk of [...this.#waiting.splice(0), data]) {
        const parsed = parseBounded(chunk);
        if (isObject(parsed)) this.#answer.reader.read(parsed);
      }
    });
  }

  #hasRoom(data: string, most: number): boolean {
    this.#chars += data.length;
    if (this.#chars > most) this.#giveUp();
    return !this.#over;
  }

  #giveUp(): void {
    this.#over = true;
    this.#answer = undefined;
    this.#waiting = [];
  }

  #readDocument(data: string): void {
    if (!beginsCall(data) || !(STATE.test(data) || LONG_ID.test(data))) return;
    this.#guard(() => {
      const answer = new StatefulAnswer();
      const document = parseBounded(data);
      if (isObject(document)) for (const event of readDocument(document, new Notes())) answer.take(event);
      this.#remember(answer.states());
    });
  }

  /** The answer has ended, as far as it came. */
  end(): void {
    const answer = this.#answer;
    if (answer === undefined || this.#over) return;
    this.#over = true;
    this.#guard(() => {
      answer.reader.end();
      this.#remember(answer.states());
    });
  }

  /** Nothing is remembered of an answer that cannot be read. */
  #guard(step: () => void): void {
    try {
      step();
    } catch {
      this.#giveUp();
    }
  }
}

/** What an answer would give clients of other protocols to keep. */
class StatefulAnswer {
  readonly reader = new ChunkReader(new Notes(), (event) => this.take(event));
  readonly #state = new ReturnedState();
  readonly #calls: { readonly index: number; readonly id: string; readonly name: string; arguments: string }[] = [];
  /** The thought that is being said and has no proof yet. */
  #thought: { readonly index: number; text: string } | undefined;

  take(event: ModelEvent): void {
    if (event.type === 'part_start') this.#begin(event.index, event.part);
    else if (event.type === 'error') throw new Error('the answer failed');
    else if (event.type === 'part_delta') this.#addText(event.index, event.text);
    else if (this.#thought === undefined || !('index' in event) || event.index !== this.#thought.index) return;
    else if (event.type === 'proof') {
      this.#state.add(event.proof.value ?? '', this.#thought.text);
      this.#thought = undefined;
    } else if (event.type === 'part_end') {
      this.#state.addText(this.#thought.text, '');
      this.#thought = undefined;
    }
  }

  #begin(index: number, part: PartStart): void {
    if (part.kind === 'tool_call') this.#calls.push({ index, id: part.id, name: part.name, arguments: '' });
    else if (part.kind === 'reasoning') this.#thought = { index, text: '' };
  }

  #addText(index: number, text: string): void {
    const call = this.#calls.find((one) => one.index === index);
    if (call !== undefined) call.arguments += text;
    else if (this.#thought?.index === index) this.#thought.text += text;
  }

  /** State of each call that has any; that of the message comes with the first. */
  states(): Remembered {
    const { fields, parts } = this.#state.takeMessage();
    const message = {
      ...(Object.keys(fields).length > 0 && { message: fields }),
      ...(parts.length > 0 && { parts }),
    };
    return this.#calls.flatMap((call, at): Remembered => {
      const id = this.#state.idOf(call.id);
      const kept = { ...this.#state.stateOf(call.id), ...(at === 0 && message) };
      return id === call.id && Object.keys(kept).length === 0 ? [] : [[call, { ...kept, id }]];
    });
  }
}

/** Puts state into the messages of a client of chat completions that left it out, and leaves every other byte. The rewrite is recorded. */
export async function returnState(body: RequestBody, recall: Recall): Promise<void> {
  const parsed = await body.json();
  const messages = isObject(parsed) && Array.isArray(parsed.messages) ? (parsed.messages as unknown[]) : [];
  const lacking = messages.flatMap((message, at) => lackingIn(message, ['messages', at], recall));
  if (lacking.length > 0) await body.addFields(lacking);
}

type Lacking = { readonly path: readonly (string | number)[]; readonly fields: Readonly<Record<string, JsonValue>> };

function lackingIn(message: unknown, path: Lacking['path'], recall: Recall): Lacking[] {
  if (!isObject(message) || message.role !== 'assistant' || !Array.isArray(message.tool_calls)) return [];
  const found: (readonly [Lacking['path'], Json])[] = [];
  for (const [index, call] of message.tool_calls.entries()) {
    if (!isObject(call) || typeof call.id !== 'string' || !isObject(call.function)) continue;
    const { name, arguments: text } = call.function;
    const kept =
      typeof name === 'string' && typeof text === 'string' ? recall({ id: call.id, name, arguments: text }) : undefined;
    if (kept === undefined) continue;
    const at = [...path, 'tool_calls', index];
    found.push([path, missingFields(message, kept.message)]);
    found.push([at, missingFields(call, kept.call)]);
    found.push([[...at, 'function'], missingFields(call.function, kept.function)]);
  }
  return found.flatMap(([at, fields]): Lacking[] =>
    Object.keys(fields).length > 0 ? [{ path: at, fields: fields as Lacking['fields'] }] : [],
  );
}
