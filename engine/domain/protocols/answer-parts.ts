import { StageError } from '../../base/contract/errors.ts';
import type { ResponseConverter } from '../../base/contract/stage.ts';
import { parseBounded } from '../../base/kit/json/bounded.ts';
import { readProblem } from './errors.ts';
import { isObject, present, textOf } from './read-json.ts';
import { type AnswerEnd, readEnd } from './stop-reasons.ts';
import type { Emit, Json, ModelUsage, PartStart, ReasoningProof } from './translation/conversation.ts';
import type { Notes } from './translation/rules.ts';
import { newUsageReading, type UsageReading, usageIn } from './usage.ts';

/** Bound on a response, and on one event, that is buffered for conversion, in bytes. */
export const BUFFERED_BYTES_MAX = 8 * 1024 * 1024;

/** Buffers a document; `convert` gets it at the end. Raises the error of `tooLong` above the bound. */
export function collectDocument(
  convert: (document: Buffer) => Buffer | string,
  tooLong: () => StageError,
): ResponseConverter {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    write(chunk) {
      size += chunk.length;
      if (size > BUFFERED_BYTES_MAX) throw tooLong();
      chunks.push(chunk);
      return '';
    },
    end: () => convert(Buffer.concat(chunks, size)),
  };
}

/** The error for a response that violates the upstream's protocol. */
export function brokenAnswer(what: string): StageError {
  return new StageError('upstream_invalid', `The upstream response violates its protocol: ${what}.`);
}

/** The error for a stream that ends too early. */
export function notComplete(): StageError {
  return new StageError('upstream_failed', 'The upstream ended its response before it was complete.');
}

/** The object in an event of a stream. Raises upstream_invalid. */
export function parseEvent(data: string): Json {
  let event: unknown;
  try {
    event = parseBounded(data);
  } catch (error) {
    if (error instanceof RangeError) throw brokenAnswer('an event is too large or too deeply nested');
    throw brokenAnswer('an event is not JSON');
  }
  if (!isObject(event)) throw brokenAnswer('an event is not a JSON object');
  return event;
}

/** What reading a response has in common in all protocols: its start, its numbered parts, its usage and its end. */
export class AnswerReader {
  readonly notes: Notes;
  readonly emit: Emit;
  readonly usage: UsageReading = newUsageReading();
  parts = 0;
  over = false;
  #started = false;
  readonly #kinds = new Set<PartStart['kind']>();

  constructor(notes: Notes, emit: Emit) {
    this.notes = notes;
    this.emit = emit;
  }

  /** Emits the start once, with identifier and model if the upstream reports them. */
  start(fields: unknown, usage?: ModelUsage): void {
    if (this.#started) return;
    this.#started = true;
    const { id, model } = isObject(fields) ? fields : {};
    this.emit({
      type: 'start',
      ...present({ id: textOf(id) || undefined, model: textOf(model) || undefined, usage }),
    });
  }

  /** Begins a part. @returns its index */
  open(part: PartStart): number {
    const index = this.parts++;
    this.#kinds.add(part.kind);
    this.emit({ type: 'part_start', index, part });
    return index;
  }

  say(index: number, text: unknown): void {
    if (typeof text === 'string' && text !== '') this.emit({ type: 'part_delta', index, text });
  }

  prove(index: number, proof: ReasoningProof | undefined): void {
    if (proof !== undefined) this.emit({ type: 'proof', index, proof });
  }

  close(index: number): void {
    this.emit({ type: 'part_end', index });
  }

  /** The end by a word of the server; `is_cut` if a call lacks some of its arguments. */
  endBy(word: unknown, is_cut = false): AnswerEnd {
    const parts = { has_calls: this.#kinds.has('tool_call'), is_cut, has_refusal: this.#kinds.has('refusal') };
    return readEnd(word, parts, this.notes);
  }

  finish(end: AnswerEnd, stop_sequence?: string): void {
    this.over = true;
    if ('problem' in end) this.emit({ type: 'error', problem: end.problem });
    else this.emit({ type: 'end', ...end, ...present({ stop_sequence, usage: usageIn(this.usage) }) });
  }

  /** Ends the response with an error of the upstream, from an event or a document. */
  fail(body: unknown): void {
    if (!this.over) this.finish({ problem: readProblem(undefined, body) });
  }
}
