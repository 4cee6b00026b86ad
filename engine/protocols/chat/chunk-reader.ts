import { readProblem } from '../errors.ts';
import { errorOfChoice, isError } from '../read-error.ts';
import { isAbsent, isObject, present } from '../read-json.ts';
import { type AnswerEnd, readEnd, saysReason } from '../stop-reasons.ts';
import type { Json } from '../translation/adapter.ts';
import type { ReasoningProof } from '../translation/conversation.ts';
import { type Emit, type Problem, startOfAnswer } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { modelUsage } from '../translation/usage.ts';
import { newUsageReading } from '../usage/reading.ts';
import { StateCollector, thoughtIn, thoughtInPart } from './provider-state.ts';
import { type AnswerName, CallReader } from './read-calls.ts';
import { takeChatUsage } from './reported-usage.ts';

type TextKind = 'text' | 'refusal' | 'reasoning';

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
  #open: { readonly kind: TextKind; readonly index: number; thought: string } | undefined;
  #refused = false;
  /** Why the upstream says that the model stopped. */
  #word: string | undefined;
  #stop_sequence: string | undefined;
  readonly #usage = newUsageReading();
  /** Whether `end` or `error` was said, after which nothing follows. */
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

  /** Whether the upstream said why the model stopped. */
  get finished(): boolean {
    return this.#word !== undefined;
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
    takeChatUsage(this.#usage, chunk);
  }

  /** The answer is whole: says why it ended. */
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
      ...present({ stop_sequence: this.#stop_sequence, usage: modelUsage(this.#usage) }),
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
    // Some servers say all at once where a stream was asked for, and others say all once more at its end.
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

  #say(kind: TextKind, text: unknown): void {
    if (typeof text !== 'string' || text === '') return;
    if (this.#open?.kind !== kind) this.#begin(kind);
    if (kind === 'reasoning') this.#open!.thought += text;
    this.#emit({ type: 'part_delta', index: this.#open!.index, text });
  }

  #begin(kind: TextKind): void {
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
    // Some servers say here at which sequence they stopped.
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
