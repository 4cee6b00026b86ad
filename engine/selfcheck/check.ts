import type { CheckOutcome } from '../contract/checks.ts';
import type { Subject } from './subject.ts';

/** Tokens that the requests of a check use together, at most. */
export interface TokensUsed {
  /** How many requests ask the model; one where it is left out. */
  readonly requests?: number;
  readonly input: number;
  readonly output: number;
}

/** What a check found, with what travelled. */
export interface SelfCheckOutcome extends CheckOutcome {
  readonly sent?: string;
  readonly came?: string;
}

/** One thing that any gateway has to do. */
export interface SelfCheck {
  /** Stays the same in all versions: lower-case words with dots between them, such as `messages.stream`. */
  readonly id: string;
  readonly title: string;
  /** What has to come back, in a sentence; it is printed where something else came. */
  readonly expected: string;
  /** What it costs; nothing where it is left out. */
  readonly uses?: TokensUsed;
  /** Why it can't be made at this gateway, such as an option that was not given; `undefined` where it can. */
  skipped?(subject: Subject): string | undefined;
  /** Makes it. An error of the network is told by whoever calls this. */
  run(subject: Subject): Promise<SelfCheckOutcome>;
}
