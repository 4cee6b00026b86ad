import type { Protocol } from '../../../contract/protocol.ts';
import type { Emit, ModelEvent } from '../events.ts';

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

/** The stop sequences that an upstream of this protocol does not take, at which the gateway cuts its answer. */
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

/** A text of the answer, from its beginning until all of it has been passed on. */
interface Text {
  readonly index: number;
  /** Whether it goes on where the text before it ended, as far as the client can tell. */
  readonly joins: boolean;
  /** What came while a text before it was still open. */
  waiting: string[];
  /** What has been looked through, and could be the beginning of a stop sequence, or the middle of one. */
  held: string;
  ended: boolean;
}

/**
 * Cuts an answer where the model should have stopped, for upstreams that cannot be told to: the text up to the first stop
 * sequence is passed on, what begins after it is not, and the answer ends as one that was stopped. What could become a stop
 * sequence waits, and nothing else does. Texts are looked through one after the other, in time linear in their length. A
 * sequence may span texts that follow one another, and where `one_text` says that the client gets all texts as one, any.
 */
export class StopCutter {
  readonly #searches: readonly Search[];
  /** The characters with which they begin. */
  readonly #first: ReadonlySet<number>;
  readonly #one_text: boolean;
  /** Texts in the order in which they began. */
  readonly #texts: Text[] = [];
  readonly #by_index = new Map<number, Text>();
  /** How many of them have been passed on to their end. */
  #said = 0;
  /** The one that is being looked through. */
  #reading = 0;
  /** How many characters wait. */
  #held = 0;
  /** Whether something else has begun since the last text. */
  #apart = false;
  readonly #left_out = new Set<number>();
  #cut: string | undefined;

  constructor(stops: readonly string[], one_text: boolean) {
    this.#searches = [...new Set(stops)].map((text) => new Search(new Pattern(text)));
    this.#first = new Set(stops.map((text) => text.charCodeAt(0)));
    this.#one_text = one_text;
  }

  take(event: ModelEvent, emit: Emit): void {
    switch (event.type) {
      case 'part_start':
        this.#begin(event, emit);
        break;
      case 'part_delta': {
        const text = this.#by_index.get(event.index);
        if (text === undefined) break;
        if (text !== this.#texts[this.#reading]) text.waiting.push(event.text);
        else if (event.text !== '') this.#read(text, event.text, emit);
        return;
      }
      case 'part_end': {
        const text = this.#by_index.get(event.index);
        if (text === undefined) break;
        text.ended = true;
        this.#advance(emit);
        return;
      }
      case 'end':
      case 'error':
        // Of a text that was cut, the sequence still waits.
        if (this.#cut !== undefined) break;
        for (const text of this.#by_index.values()) text.ended = true;
        this.#apart = true;
        this.#advance(emit);
        break;
      default:
    }
    if ('index' in event && this.#left_out.has(event.index)) return;
    emit(this.#cut === undefined ? event : stopped(event, this.#cut));
  }

  #begin({ index, part }: Extract<ModelEvent, { type: 'part_start' }>, emit: Emit): void {
    if (this.#cut !== undefined) this.#left_out.add(index);
    else if (part.kind === 'text') {
      const text: Text = { index, joins: !this.#apart, waiting: [], held: '', ended: false };
      this.#texts.push(text);
      this.#by_index.set(index, text);
      this.#apart = false;
    } else if (!this.#one_text) {
      this.#apart = true;
      this.#advance(emit);
    }
  }

  /** Looks through what has come, as far as no text before it is open. */
  #advance(emit: Emit): void {
    for (let text = this.#texts[this.#reading]; text !== undefined; text = this.#texts[++this.#reading]) {
      if (!text.joins) this.#flush(emit);
      const piece = text.waiting.join('');
      text.waiting = [];
      if (piece !== '') this.#read(text, piece, emit);
      if (this.#cut !== undefined || !text.ended) return;
    }
    if (this.#apart) this.#flush(emit);
    else this.#say(0, emit);
  }

  #read(text: Text, piece: string, emit: Emit): void {
    let held = this.#held;
    for (let at = 0; at < piece.length; at++) {
      const code = piece.charCodeAt(at);
      if (held === 0 && !this.#first.has(code)) continue;
      held = 0;
      let found: string | undefined;
      for (const search of this.#searches) {
        const length = search.step(code);
        const sequence = search.pattern.text;
        if (length > held) held = length;
        if (length === sequence.length && length > (found?.length ?? 0)) found = sequence;
      }
      if (found === undefined) continue;
      text.held += piece.slice(0, at + 1);
      this.#held += at + 1;
      this.#end(found, emit);
      return;
    }
    text.held += piece;
    this.#held += piece.length;
    this.#say(this.#held - held, emit);
  }

  /** Passes on so many of the characters that wait, and the ends of the texts that were said with them. */
  #say(chars: number, emit: Emit): void {
    this.#held -= chars;
    let left = chars;
    for (let text = this.#texts[this.#said]; text !== undefined; text = this.#texts[this.#said]) {
      const part_delta = left < text.held.length ? text.held.slice(0, left) : text.held;
      if (part_delta !== '') emit({ type: 'part_delta', index: text.index, text: part_delta });
      left -= part_delta.length;
      text.held = text.held.slice(part_delta.length);
      if (!text.ended || text.held !== '' || text.waiting.length > 0) return;
      emit({ type: 'part_end', index: text.index });
      this.#by_index.delete(text.index);
      this.#said++;
    }
  }

  /** What waits is no beginning of a sequence: another text begins, or none comes any more. */
  #flush(emit: Emit): void {
    this.#say(this.#held, emit);
    for (const search of this.#searches) search.found = 0;
  }

  #end(stop: string, emit: Emit): void {
    this.#say(this.#held - stop.length, emit);
    this.#cut = stop;
    for (const index of this.#by_index.keys()) {
      emit({ type: 'part_end', index });
      this.#left_out.add(index);
    }
    this.#by_index.clear();
  }
}

/** An answer that was cut ends as stopped, even where what the model said after that broke off. */
function stopped(event: ModelEvent, stop_sequence: string): ModelEvent {
  if (event.type === 'error') return { type: 'end', reason: 'stop_sequence', stop_sequence };
  return event.type === 'end' ? { ...event, reason: 'stop_sequence', stop_sequence } : event;
}
