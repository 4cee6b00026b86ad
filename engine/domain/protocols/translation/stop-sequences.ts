import type { Accepted } from './accepted.ts';
import type { Emit, ModelEvent } from './conversation.ts';

/** Bound on the sequences that the gateway handles: each character of a response is compared with each. */
const CUT_STOPS_MAX = 64;

/** Bound on their characters, as many of a response may be buffered. */
const CUT_CHARS_MAX = 16_384;

/** Whether these exceed the bounds of the gateway. */
export function tooManyToCut(stops: readonly string[]): boolean {
  return stops.length > CUT_STOPS_MAX || stops.reduce((sum, text) => sum + text.length, 0) > CUT_CHARS_MAX;
}

/** The stop sequences that an upstream does not accept, at which the gateway cuts its response. */
export function stopsToCut({ stops }: Accepted, stop: readonly string[] = []): readonly string[] {
  const said = stop.filter((text) => text !== '');
  const { most, blank } = stops;
  if (said.length > most) return said;
  return blank ? [] : said.filter((text) => text.trim() === '');
}

/** A text to find in another that arrives in pieces (Knuth-Morris-Pratt). */
class Pattern {
  readonly text: string;
  /** For each length: how much of the text also begins what ends there. */
  readonly #again: Uint32Array;

  constructor(text: string) {
    this.text = text;
    this.#again = new Uint32Array(text.length + 1);
    for (let length = 2; length <= text.length; length++)
      this.#again[length] = this.step(this.#again[length - 1]!, text.charCodeAt(length - 1));
  }

  /** How much of the text stands at the end of what has come, of which so much did before the next character. */
  step(before: number, code: number): number {
    let found = before;
    while (found > 0 && this.text.charCodeAt(found) !== code) found = this.#again[found]!;
    return this.text.charCodeAt(found) === code ? found + 1 : found;
  }
}

type OfText = Extract<ModelEvent, { type: 'part_start' | 'part_delta' | 'part_end' }>;

/**
 * Cuts an answer where the model should have stopped, for upstreams that cannot be told to: the text up to the first stop
 * sequence is passed on, what begins after it is not, and the answer ends as one that was stopped. What could become a stop
 * sequence waits, and nothing else does. Texts are looked through one after the other, in time linear in their length. A
 * sequence may span texts that follow one another, and where `one_text` says that the client gets all texts as one, any.
 */
export class StopCutter {
  readonly #patterns: readonly Pattern[];
  /** The characters with which they begin. */
  readonly #first: ReadonlySet<number>;
  readonly #one_text: boolean;
  /** How much of each sequence stands at the end of what was looked through. */
  readonly #found: Uint32Array;
  /** Texts that have not ended, in the order in which they began, and what came of those that wait for one before them. */
  readonly #texts = new Map<number, OfText[]>();
  /** What was looked through and not passed on: so many characters, which could become a stop sequence, and ends of texts. */
  #out: OfText[] = [];
  #held = 0;
  /** Whether something else has begun since the last text. */
  #apart = false;
  readonly #left_out = new Set<number>();
  #cut: string | undefined;

  constructor(stops: readonly string[], one_text: boolean) {
    this.#patterns = [...new Set(stops)].map((text) => new Pattern(text));
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
      // Only where it is apart from the text before it, its beginning is of interest.
      this.#texts.set(event.index, this.#apart ? [event] : []);
      this.#apart = false;
    } else if (!this.#one_text) {
      this.#apart = true;
      this.#advance(emit);
    }
  }

  /** Looks through what has come, as far as no text before it is open. */
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
    let said = 0;
    for (const event of this.#out) {
      if (event.type === 'part_delta' && event.text.length > left) {
        if (left > 0) emit({ ...event, text: event.text.slice(0, left) });
        this.#out[said] = { ...event, text: event.text.slice(left) };
        break;
      }
      if (event.type === 'part_delta') left -= event.text.length;
      emit(event);
      said++;
    }
    this.#out.splice(0, said);
  }

  /** Flushes the buffer, which no sequence can complete any more. */
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

/** A cut response ends with its stop sequence, even if the rest broke off. */
function stopped(event: ModelEvent, stop_sequence: string): ModelEvent {
  if (event.type === 'error') return { type: 'end', reason: 'stop_sequence', stop_sequence };
  return event.type === 'end' ? { ...event, reason: 'stop_sequence', stop_sequence } : event;
}
