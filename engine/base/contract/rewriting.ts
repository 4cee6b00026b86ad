/**
 * What a text of an answer is: what the model says, that it declines, what it thinks, what it calls a tool with, and everything
 * else, such as quoted sources, results of tools of the provider and messages of errors.
 */
export const TEXT_KINDS = ['text', 'refusal', 'reasoning', 'tool_input', 'other'] as const;

/** One of them. */
export type TextKind = (typeof TEXT_KINDS)[number];

/** What is looked for in a text, and what is put in its place. */
export interface Replacement {
  /** Looked for everywhere in a text; the flags `g` and `y` say nothing here. */
  readonly find: RegExp;
  /** A text, as it is; or what makes one of what was found, `undefined` where that stays. */
  readonly replace: string | ((found: string) => string | undefined);
}

/** What is replaced in the texts of one answer. */
export interface Rewriting {
  /** Where two find something at one place, the first counts. */
  readonly replacements: readonly Replacement[];
  /**
   * Most characters of what is looked for, with what `find` looks at around it; 256 where absent, at most 4096. So much of a
   * stream waits until it is clear that nothing begins in it; arguments of calls wait until they are whole.
   */
  readonly window_characters?: number;
  /** A character that nothing that is looked for has in it, such as `/\s/`: a text need not wait up to the last one. */
  readonly never_contains?: RegExp;
  /** Texts in which is looked; all where absent. */
  readonly kinds?: readonly TextKind[];
}
