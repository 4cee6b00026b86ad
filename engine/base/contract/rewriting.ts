/**
 * Kinds of text in a response: output text, refusal, reasoning, and arguments of tool calls. `other` is everything else, such as
 * quoted sources, results of the provider's tools and error messages.
 */
export const TEXT_KINDS = ['text', 'refusal', 'reasoning', 'tool_input', 'other'] as const;

/** One of `TEXT_KINDS`. */
export type TextKind = (typeof TEXT_KINDS)[number];

/** A search pattern and its replacement. */
export interface Replacement {
  /** Every match is replaced; the flags `g` and `y` have no effect. */
  readonly find: RegExp;
  /** A literal text, or a function of the match; it returns `undefined` to keep the match. */
  readonly replace: string | ((found: string) => string | undefined);
}

/** The replacements in the texts of one response. */
export interface Rewriting {
  /** If two match at the same position, the first wins. */
  readonly replacements: readonly Replacement[];
  /**
   * Longest match in characters, including lookahead and lookbehind of `find`. Default 256, at most 4096. The gateway delays this
   * much of a stream, because a match may begin in it. Arguments of tool calls are delayed until they are complete.
   */
  readonly window_characters?: number;
  /** Matches a character that no match can contain, such as `/\s/`: text up to the last one is not delayed. */
  readonly never_contains?: RegExp;
  /** Kinds of text to search; default all. */
  readonly kinds?: readonly TextKind[];
}
