import type { ModelEvent } from './events.ts';
import type { Protocol } from './protocol.ts';

/** The most stop sequences of chat completions. */
export const CHAT_STOPS_MAX = 4;

/** The most that the gateway looks for itself: every character of an answer is compared with each. */
const CUT_STOPS_MAX = 64;

/** And their characters: as many of an answer may have to wait. */
const CUT_CHARS_MAX = 16_384;

/** Whether these are more, or longer, than the gateway looks for itself. */
export function tooManyToCut(stops: readonly string[]): boolean {
  return stops.length > CUT_STOPS_MAX || stops.reduce((sum, text) => sum + text.length, 0) > CUT_CHARS_MAX;
}

/** The stop sequences that an upstream of this API does not take, at which the gateway cuts its answer. */
export function stopsToCut(to: Protocol, stop: readonly string[] = []): readonly string[] {
  const said = stop.filter((text) => text !== '');
  if (to === 'messages') return said.filter((text) => text.trim() === '');
  return to === 'responses' || said.length > CHAT_STOPS_MAX ? said : [];
}

/** A text that is looked for. */
class Pattern {
  readonly text: string;
  /** For each length: how much of the text also begins what ends there. */
  readonly again: Uint32Array;

  constructor(text: string) {
    this.text = text;
    this.again = new Uint32Array(text.length + 1);
    for (let length = 2, again = 0; length <= text.length; length++) {
      while (again > 0 && text[again] !== text[length - 1]) again = this.again[again]!;
      if (text[again] === text[length - 1]) again++;
      this.again[length] = again;
    }
  }
}

/** Finds one text in another that comes in pieces. */
class Search {
  readonly pattern: Pattern;
  /** How much of the text stands at the end of what has come. */
  found = 0;

  constructor(pattern: Pattern) {
    this.pattern = pattern;
  }

  /** Takes the next character, and returns how much of the text has been found. */
  step(code: number): number {
    const { text, again } = this.pattern;
    while (this.found > 0 && text.charCodeAt(this.found) !== code) this.found = again[this.found]!;
    if (text.charCodeAt(this.found) === code) this.found++;
    return this.found;
  }
}

/** A text of the answer that is being looked through. */
interface OpenText {
  readonly searches: readonly Search[];
  /** The end of the text so far that could be the beginning of a stop sequence. */
  held: string;
}

/**
 * Cuts an answer where the model should have stopped, for upstreams that cannot be told to: the text up to the first stop
 * sequence is passed on, what begins after it is not, and the answer ends as one that was stopped. What could become a stop
 * sequence waits, and nothing else does. Each text is looked through by itself, in time linear in its length.
 */
export class StopCutter {
  readonly #patterns: readonly Pattern[];
  /** The characters with which they begin. */
  readonly #first: ReadonlySet<number>;
  readonly #texts = new Map<number, OpenText>();
  readonly #left_out = new Set<number>();
  #cut: string | undefined;

  constructor(stops: readonly string[]) {
    this.#patterns = [...new Set(stops)].map((text) => new Pattern(text));
    this.#first = new Set(stops.map((text) => text.charCodeAt(0)));
  }

  take(event: ModelEvent, emit: (event: ModelEvent) => void): void {
    switch (event.type) {
      case 'part_start':
        if (this.#cut !== undefined) this.#left_out.add(event.index);
        else if (event.part.kind === 'text')
          this.#texts.set(event.index, { searches: this.#patterns.map((one) => new Search(one)), held: '' });
        break;
      case 'part_delta': {
        const open = this.#texts.get(event.index);
        if (open === undefined) break;
        if (event.text === '') return;
        this.#read(event.index, open, event.text, emit);
        return;
      }
      case 'part_end':
        this.#flush(event.index, emit);
        break;
      case 'end':
        for (const index of [...this.#texts.keys()]) this.#flush(index, emit);
        break;
      default:
    }
    if ('index' in event && this.#left_out.has(event.index)) return;
    emit(this.#cut === undefined ? event : stopped(event, this.#cut));
  }

  #read(index: number, open: OpenText, piece: string, emit: (event: ModelEvent) => void): void {
    let held = open.held.length;
    for (let at = 0; at < piece.length; at++) {
      const code = piece.charCodeAt(at);
      if (held === 0 && !this.#first.has(code)) continue;
      held = 0;
      let found: string | undefined;
      for (const search of open.searches) {
        const length = search.step(code);
        const { text } = search.pattern;
        if (length > held) held = length;
        if (length === text.length && length > (found?.length ?? 0)) found = text;
      }
      if (found === undefined) continue;
      const text = open.held + piece.slice(0, at + 1);
      this.#end(index, text.slice(0, text.length - found.length), found, emit);
      return;
    }
    const text = open.held + piece;
    open.held = text.slice(text.length - held);
    say(index, text.slice(0, text.length - held), emit);
  }

  #end(index: number, text: string, stop: string, emit: (event: ModelEvent) => void): void {
    this.#cut = stop;
    this.#texts.delete(index);
    say(index, text, emit);
    emit({ type: 'part_end', index });
    this.#left_out.add(index);
    // Texts that are open beside it come after it.
    for (const [other] of this.#texts) {
      emit({ type: 'part_end', index: other });
      this.#left_out.add(other);
    }
    this.#texts.clear();
  }

  #flush(index: number, emit: (event: ModelEvent) => void): void {
    const open = this.#texts.get(index);
    this.#texts.delete(index);
    if (open !== undefined) say(index, open.held, emit);
  }
}

/** An answer that was cut ends as stopped, even where what the model said after that broke off. */
function stopped(event: ModelEvent, stop_sequence: string): ModelEvent {
  if (event.type === 'error') return { type: 'end', reason: 'stop_sequence', stop_sequence };
  return event.type === 'end' ? { ...event, reason: 'stop_sequence', stop_sequence } : event;
}

function say(index: number, text: string, emit: (event: ModelEvent) => void): void {
  if (text !== '') emit({ type: 'part_delta', index, text });
}
