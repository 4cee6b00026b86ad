import type { Emit, ModelEvent } from './conversation.ts';
import type { Accepted } from './tool-schemas.ts';

/** Bound on the sequences that the gateway handles: each character of a response is compared with each. */
const CUT_STOPS_MAX = 64;

/** Bound on their characters; a response may buffer as many. */
const CUT_CHARS_MAX = 16_384;

export function tooManyToCut(stops: readonly string[]): boolean {
  return stops.length > CUT_STOPS_MAX || stops.reduce((sum, text) => sum + text.length, 0) > CUT_CHARS_MAX;
}

/** The stop sequences that an upstream does not accept; the gateway cuts the response at them. */
export function stopsToCut({ stops }: Accepted, stop: readonly string[] = []): readonly string[] {
  const sent = stop.filter((text) => text !== '');
  const { most, blank } = stops;
  if (sent.length > most) return sent;
  return blank ? [] : sent.filter((text) => text.trim() === '');
}

/** Searches a streamed text for one sequence (Knuth-Morris-Pratt). */
function createPattern(text: string) {
  /** Failure function: for each prefix, the length of its longest proper border. */
  const again = new Uint32Array(text.length + 1);
  /** The matched length after the next character. @param before the matched length before it */
  const step = (before: number, code: number): number => {
    let found = before;
    while (found > 0 && text.charCodeAt(found) !== code) found = again[found]!;
    return text.charCodeAt(found) === code ? found + 1 : found;
  };
  for (let length = 2; length <= text.length; length++)
    again[length] = step(again[length - 1]!, text.charCodeAt(length - 1));
  return { text, step };
}

type OfText = Extract<ModelEvent, { type: 'part_start' | 'part_delta' | 'part_end' }>;

/**
 * Cuts a response at the first stop sequence, for upstreams that do not support it: passes the text before the sequence on
 * and drops everything after it. Buffers only text that could become a stop sequence. Searches texts in order, in time
 * linear in their length. A sequence may span adjacent texts, and with `one_text` any texts.
 */
export class StopCutter {
  readonly #patterns: readonly ReturnType<typeof createPattern>[];
  readonly #first: ReadonlySet<number>;
  readonly #one_text: boolean;
  /** The matched length of each sequence at the end of the searched text. */
  readonly #found: Uint32Array;
  /** Open texts in order, with buffered events of texts that wait for an earlier one. */
  readonly #texts = new Map<number, OfText[]>();
  /** Searched but buffered events: characters that could become a stop sequence, and ends of texts. */
  #out: OfText[] = [];
  #held = 0;
  /** Whether another kind of part has begun since the last text. */
  #apart = false;
  readonly #left_out = new Set<number>();
  #cut: string | undefined;

  constructor(stops: readonly string[], one_text: boolean) {
    this.#patterns = [...new Set(stops)].map(createPattern);
    this.#first = new Set(stops.map((text) => text.charCodeAt(0)));
    this.#one_text = one_text;
    this.#found = new Uint32Array(this.#patterns.length);
  }

  take(event: ModelEvent, emit: Emit): void {
    const text = 'index' in event ? this.#texts.get(event.index) : undefined;
    if (text !== undefined) {
      text.push(event as OfText);
      this.#advance(emit);
      return;
    }
    if (event.type === 'part_start') this.#begin(event, emit);
    else if (event.type === 'end' || event.type === 'error') {
      for (const index of this.#texts.keys()) this.take({ type: 'part_end', index }, emit);
      this.#flush(emit);
    }
    if ('index' in event && this.#left_out.has(event.index)) return;
    emit(this.#cut === undefined ? event : stopped(event, this.#cut));
  }

  #begin(event: Extract<ModelEvent, { type: 'part_start' }>, emit: Emit): void {
    if (this.#cut !== undefined) this.#left_out.add(event.index);
    else if (event.part.kind === 'text') {
      // The start matters only after another kind of part.
      this.#texts.set(event.index, this.#apart ? [event] : []);
      this.#apart = false;
    } else if (!this.#one_text) {
      this.#apart = true;
      this.#advance(emit);
    }
  }

  /** Searches the events up to the first open text. */
  #advance(emit: Emit): void {
    for (const [index, events] of this.#texts) {
      for (const event of events.splice(0)) this.#read(event, emit);
      if (this.#texts.has(index)) return;
    }
    if (this.#apart) this.#flush(emit);
  }

  #read(event: OfText, emit: Emit): void {
    if (this.#cut !== undefined || (event.type === 'part_delta' && event.text === '')) return;
    if (event.type === 'part_start') this.#flush(emit);
    else if (event.type === 'part_delta') this.#look(event, emit);
    else {
      this.#texts.delete(event.index);
      this.#out.push(event);
      this.#say(0, emit);
    }
  }

  #look(event: Extract<ModelEvent, { type: 'part_delta' }>, emit: Emit): void {
    const piece = event.text;
    const before = this.#held;
    this.#out.push(event);
    this.#held += piece.length;
    let held = before;
    for (let at = 0; at < piece.length; at++) {
      const code = piece.charCodeAt(at);
      if (held === 0 && !this.#first.has(code)) continue;
      held = 0;
      let cut = '';
      for (let i = 0; i < this.#patterns.length; i++) {
        const pattern = this.#patterns[i]!;
        const found = pattern.step(this.#found[i]!, code);
        this.#found[i] = found;
        held = Math.max(held, found);
        if (found === pattern.text.length && found > cut.length) cut = pattern.text;
      }
      if (cut === '') continue;
      this.#say(before + at + 1 - cut.length, emit);
      this.#end(cut, emit);
      return;
    }
    this.#say(this.#held - held, emit);
  }

  /** Emits a number of buffered characters, and the ends of texts up to the next buffered one. */
  #say(chars: number, emit: Emit): void {
    this.#held -= chars;
    let left = chars;
    let passed = 0;
    for (const event of this.#out) {
      if (event.type === 'part_delta' && event.text.length > left) {
        if (left > 0) emit({ ...event, text: event.text.slice(0, left) });
        this.#out[passed] = { ...event, text: event.text.slice(left) };
        break;
      }
      if (event.type === 'part_delta') left -= event.text.length;
      emit(event);
      passed++;
    }
    this.#out.splice(0, passed);
  }

  /** Flushes the buffer: no sequence can complete in it. */
  #flush(emit: Emit): void {
    if (this.#cut !== undefined) return;
    this.#say(this.#held, emit);
    this.#found.fill(0);
  }

  #end(stop: string, emit: Emit): void {
    this.#cut = stop;
    for (const event of this.#out) if (event.type === 'part_end') emit(event);
    for (const index of this.#texts.keys()) {
      emit({ type: 'part_end', index });
      this.#left_out.add(index);
    }
    this.#out = [];
    this.#texts.clear();
  }
}

function stopped(event: ModelEvent, stop_sequence: string): ModelEvent {
  if (event.type === 'error') return { type: 'end', reason: 'stop_sequence', stop_sequence };
  return event.type === 'end' ? { ...event, reason: 'stop_sequence', stop_sequence } : event;
}
