import type { Replacement, Rewriting, TextKind } from '../../contract/rewriting.ts';

/** Most characters of what is looked for where a stage says nothing. */
const WINDOW_CHARS = 256;

/** Characters in which a match may begin that are looked through at once: what an expression does with them is bounded. */
const STRIDE_CHARS = 1024;

/** A text on its way to the client. */
export interface TextStream {
  /** Takes a piece, and returns what can be passed on. */
  push(piece: string): string;
  /** The text has ended: returns the rest. */
  end(): string;
}

interface Pattern {
  readonly search: RegExp;
  readonly at_place: RegExp;
  readonly replace: Replacement['replace'];
}

/** A rewriting that is ready to be used. */
export interface CompiledRewriting {
  readonly patterns: readonly Pattern[];
  readonly window: number;
  /** Characters that no match has. */
  readonly breaks: RegExp | undefined;
  readonly kinds: ReadonlySet<TextKind> | undefined;
}

/** Makes a rewriting ready. */
export function compileRewriting({ replacements, window_characters, never_contains, kinds }: Rewriting) {
  const withFlag = ({ source, flags }: RegExp, flag: string) => new RegExp(source, flags.replace(/[gy]/g, '') + flag);
  return {
    patterns: replacements.map(({ find, replace }) => ({
      search: withFlag(find, 'g'),
      at_place: withFlag(find, 'y'),
      replace,
    })),
    window: window_characters ?? WINDOW_CHARS,
    breaks: never_contains && withFlag(never_contains, ''),
    kinds: kinds && new Set(kinds),
  } satisfies CompiledRewriting;
}

interface Match {
  readonly start: number;
  readonly end: number;
  readonly pattern: Pattern;
}

/** Up to where a pattern was looked for, and how long the match is that begins there. */
interface Seen {
  readonly pattern: Pattern;
  until: number;
  length: number;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}

/**
 * Replaces what is found in a text that comes in pieces. However it is cut, the result is the same: of a match at most `window`
 * characters count, up to one that no match has, and a place is decided over when all these have come.
 */
export class TextRewriter implements TextStream {
  readonly #rules: CompiledRewriting;
  readonly #onReplace: () => void;
  /** What waits, behind what an expression may look back at. */
  #text = '';
  /** Where in it begins what was not passed on. */
  #from = 0;
  /** How far each pattern was looked for. */
  readonly #seen: readonly Seen[];

  /** @param onReplace called for each match that is replaced; what it or a replacement throws is passed on */
  constructor(rules: CompiledRewriting, onReplace: () => void) {
    this.#rules = rules;
    this.#onReplace = onReplace;
    this.#seen = rules.patterns.map((pattern) => ({ pattern, until: 0, length: 0 }));
  }

  push(piece: string): string {
    this.#text += piece;
    let decided = Math.max(this.#text.length - this.#rules.window + 1, this.#behindLastBreak());
    if (decided > 0 && isHighSurrogate(this.#text.charCodeAt(decided - 1))) decided--;
    return this.#take(decided);
  }

  end(): string {
    return this.#take(this.#text.length);
  }

  #behindLastBreak(): number {
    const { breaks } = this.#rules;
    if (breaks === undefined) return 0;
    let end = this.#text.length;
    while (end > this.#from && !breaks.test(this.#text[end - 1]!)) end--;
    return end;
  }

  /** Decides over all places before `decided`, and passes on what is before it. */
  #take(decided: number): string {
    let out = '';
    let at = this.#from;
    for (let match = this.#next(at, decided); match !== undefined; match = this.#next(at, decided)) {
      out += this.#text.slice(at, match.start) + this.#replace(match);
      at = match.end;
    }
    if (at < decided) {
      out += this.#text.slice(at, decided);
      at = decided;
    }
    const dropped = Math.max(0, at - this.#rules.window);
    this.#text = this.#text.slice(dropped);
    this.#from = at - dropped;
    for (const seen of this.#seen) seen.until -= dropped;
    return out;
  }

  #replace({ start, end, pattern: { replace } }: Match): string {
    const found = this.#text.slice(start, end);
    const replacement = typeof replace === 'string' ? replace : replace(found);
    if (replacement === undefined) return found;
    this.#onReplace();
    return replacement;
  }

  /** The first match that begins in a stretch of the text. */
  #next(from: number, to: number): Match | undefined {
    for (let at = from; at < to; ) {
      const stop = Math.min(to, at + STRIDE_CHARS);
      let first: Match | undefined;
      for (const seen of this.#seen) {
        const found = this.#look(seen, at, stop);
        if (found > 0 && seen.until < (first?.start ?? stop))
          first = { start: seen.until, end: seen.until + found, pattern: seen.pattern };
      }
      if (first !== undefined) return first;
      at = stop;
    }
    return undefined;
  }

  /** Looks for a pattern in a stretch, as far as that was not done; returns the length of the match that begins at `until`. */
  #look(seen: Seen, at: number, stop: number): number {
    if (seen.until < at) seen.length = 0;
    if (seen.length > 0 || seen.until >= stop) return seen.length;
    const from = Math.max(at, seen.until);
    const offset = Math.max(0, from - this.#rules.window);
    const view = this.#text.slice(offset, stop + this.#rules.window);
    const found = this.#find(seen.pattern, view, from - offset, stop - offset);
    seen.until = found === undefined ? stop : offset + found.index;
    seen.length = found?.[0].length ?? 0;
    return seen.length;
  }

  #find(pattern: Pattern, view: string, from: number, stop: number): RegExpExecArray | undefined {
    for (let at = from; at < stop; ) {
      pattern.search.lastIndex = at;
      const found = pattern.search.exec(view);
      if (found === null || found.index >= stop) return undefined;
      const counts = found.index < at ? undefined : this.#bounded(found, pattern, view);
      if (counts !== undefined) return counts;
      at = Math.max(at, found.index) + 1;
    }
    return undefined;
  }

  /** The match, or what is left of it within the bounds. */
  #bounded(found: RegExpExecArray, { at_place }: Pattern, view: string): RegExpExecArray | undefined {
    const { breaks, window } = this.#rules;
    const stretch = found[0].slice(0, window);
    const broken = breaks === undefined ? -1 : stretch.search(breaks);
    const length = broken < 0 ? stretch.length : broken;
    if (length === found[0].length) return length === 0 ? undefined : found;
    at_place.lastIndex = found.index;
    const shorter = at_place.exec(view.slice(0, found.index + length));
    return shorter === null || shorter[0] === '' ? undefined : shorter;
  }
}

/** Several one after the other. */
export function inTurn(streams: readonly TextStream[]): TextStream {
  if (streams.length === 1) return streams[0]!;
  return {
    push: (piece) => streams.reduce((text, stream) => stream.push(text), piece),
    end: () => streams.reduce((text, stream) => (text === '' ? '' : stream.push(text)) + stream.end(), ''),
  };
}
