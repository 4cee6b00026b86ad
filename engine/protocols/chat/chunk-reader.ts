import { readProblem } from '../errors.ts';
import { isError } from '../read-error.ts';
import { isAbsent, isObject, present } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import { type Emit, type ModelUsage, type StopReason, startOfAnswer } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { readTotals } from '../translation/usage.ts';
import { CHAT_TOTALS } from '../usage/totals.ts';
import { type AnswerName, CallReader } from './read-calls.ts';

type TextKind = 'text' | 'refusal' | 'reasoning';

/** What upstreams call the reason for stopping; any other word is taken for `stop`. */
const REASONS: Readonly<Record<string, StopReason>> = {
  stop: 'finished',
  length: 'max_tokens',
  max_tokens: 'max_tokens',
  model_length: 'context_window',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
  refusal: 'refusal',
  stop_sequence: 'stop_sequence',
};

/** What is read of a delta, and what says it once more. */
const READ_KEYS = new Set([
  'role',
  'content',
  'reasoning_content',
  'reasoning',
  'reasoning_details',
  'refusal',
  'tool_calls',
  'function_call',
]);

/** Words by which some upstreams say that they broke off. */
const BROKEN_OFF = new Set(['error', 'abort']);

/** Reads chunks, one after the other; a whole answer is one chunk. Keeps counts and names, no text of parts that started. */
export class ChunkReader {
  readonly #notes: Notes;
  readonly #emit: Emit;
  readonly #calls: CallReader;
  #answer: AnswerName | undefined;
  #parts = 0;
  #open: { readonly kind: TextKind; readonly index: number } | undefined;
  #refused = false;
  #reason: StopReason | undefined;
  #stop_sequence: string | undefined;
  #usage: ModelUsage | undefined;
  /** Whether `end` or `error` was said, after which nothing follows. */
  over = false;

  constructor(notes: Notes, emit: Emit) {
    this.#notes = notes;
    this.#emit = emit;
    this.#calls = new CallReader(emit, () => this.#parts++);
  }

  /** Whether the upstream said why the model stopped. */
  get finished(): boolean {
    return this.#reason !== undefined;
  }

  /** Whether nothing is missing when the upstream says that it is done; some servers never say why the model stopped. */
  get whole(): boolean {
    return this.finished || (this.#parts > 0 && !this.#calls.cut);
  }

  /** Takes one chunk. */
  read(chunk: Json): void {
    if (this.over) return;
    if (isError(chunk)) {
      this.fail(chunk);
      return;
    }
    this.#answer ??= this.#start(chunk);
    const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
    for (const choice of choices) if (isObject(choice)) this.#readChoice(choice);
    this.#usage = readTotals(chunk.usage, CHAT_TOTALS) ?? this.#usage;
  }

  /** The answer is whole: says why it ended. */
  end(): void {
    if (this.over) return;
    this.#answer ??= this.#start({});
    this.#endText();
    this.#calls.endAll();
    this.over = true;
    const reason = this.#endReason();
    this.#emit({ type: 'end', reason, ...present({ stop_sequence: this.#stop_sequence, usage: this.#usage }) });
  }

  #start(chunk: Json): AnswerName {
    const start = startOfAnswer(chunk);
    this.#emit(start);
    return { id: start.id ?? '', created: typeof chunk.created === 'number' ? chunk.created : 0 };
  }

  /** Takes an error instead of a chunk, as JSON or as text. */
  fail(chunk: unknown): void {
    if (this.over) return;
    this.over = true;
    this.#emit({ type: 'error', problem: readProblem(undefined, chunk) });
  }

  #readChoice(choice: Json): void {
    if (typeof choice.index === 'number' && choice.index !== 0) {
      this.#notes.note('extra_choice');
      return;
    }
    if (!isAbsent(choice.logprobs)) this.#notes.note('answer_extras');
    if (isObject(choice.delta)) this.#readDelta(choice.delta);
    // Some servers say all at once where a stream was asked for, and others say all once more at its end.
    else if (isObject(choice.message) && this.#parts === 0) this.#readDelta(asDelta(choice.message));
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '') this.#finish(choice);
  }

  #readDelta(delta: Json): void {
    this.#say('reasoning', delta.reasoning_content ?? delta.reasoning);
    this.#readContent(delta.content);
    this.#say('refusal', delta.refusal);
    if (Array.isArray(delta.tool_calls)) for (const call of delta.tool_calls) this.#readCall(call);
    if (isObject(delta.function_call)) this.#readCall({ index: 0, function: delta.function_call });
    for (const key in delta) if (!READ_KEYS.has(key) && saysSomething(delta[key])) this.#notes.note('answer_extras');
  }

  #readContent(content: unknown): void {
    if (!Array.isArray(content)) {
      this.#say('text', content);
      return;
    }
    for (const part of content) {
      if (!isObject(part)) continue;
      if (part.type === 'text') this.#say('text', part.text);
      else if (part.type === 'refusal') this.#say('refusal', part.refusal);
      else if (part.type === 'thinking') this.#say('reasoning', thoughtOf(part.thinking));
      else this.#notes.note('answer_extras');
    }
  }

  #say(kind: TextKind, text: unknown): void {
    if (typeof text !== 'string' || text === '') return;
    if (this.#open?.kind !== kind) this.#begin(kind);
    this.#emit({ type: 'part_delta', index: this.#open!.index, text });
  }

  #begin(kind: TextKind): void {
    this.#endText();
    this.#calls.endComplete();
    this.#refused ||= kind === 'refusal';
    this.#open = { kind, index: this.#parts++ };
    this.#emit({ type: 'part_start', index: this.#open.index, part: { kind } });
  }

  #endText(): void {
    if (this.#open !== undefined) this.#emit({ type: 'part_end', index: this.#open.index });
    this.#open = undefined;
  }

  #readCall(call: unknown): void {
    if (!isObject(call)) return;
    this.#endText();
    this.#calls.read(call, this.#answer!);
  }

  #finish({ finish_reason, stop_reason }: Json): void {
    const word = finish_reason as string;
    if (BROKEN_OFF.has(word)) {
      this.fail({ error: { message: `The upstream broke off its answer: it finished with "${word}".` } });
      return;
    }
    this.#reason = Object.hasOwn(REASONS, word) ? REASONS[word]! : 'finished';
    // Some servers say here at which sequence they stopped.
    if (typeof stop_reason === 'string' && stop_reason !== '' && this.#reason === 'finished') {
      this.#reason = 'stop_sequence';
      this.#stop_sequence = stop_reason;
    }
    this.#endText();
    this.#calls.endAll();
  }

  /** Some upstreams say that they stopped where they called a tool, or the reverse. */
  #endReason(): StopReason {
    const reason = this.#reason ?? 'finished';
    if (reason === 'finished' && this.#calls.any) return 'tool_calls';
    if (reason === 'finished' && this.#refused) return 'refusal';
    return reason === 'tool_calls' && !this.#calls.any ? 'finished' : reason;
  }
}

/** A whole message as one delta: its calls are grouped by their order. */
function asDelta(message: Json): Json {
  if (!Array.isArray(message.tool_calls)) return message;
  const tool_calls = message.tool_calls.map((call, index) => (isObject(call) ? { ...call, index } : call));
  return { ...message, tool_calls };
}

function saysSomething(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : !isAbsent(value) && value !== '';
}

/** Thinking as one server sends it: a text, or a list of text parts. */
function thoughtOf(thinking: unknown): string {
  if (typeof thinking === 'string') return thinking;
  if (!Array.isArray(thinking)) return '';
  return thinking.map((part) => (isObject(part) && typeof part.text === 'string' ? part.text : '')).join('');
}
