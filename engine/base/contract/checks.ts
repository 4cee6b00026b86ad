/** How a check ended. `skipped` is one that could not be made; `found` says why. */
export type Verdict = 'ok' | 'warning' | 'failed' | 'skipped';

/** What a check of `selfcheck` or `doctor` found. All texts are safe to show once printed, and hold no secret. */
export interface CheckOutcome {
  readonly verdict: Verdict;
  /** What was found, as a sentence that begins in lower case and ends without a full stop. */
  readonly found: string;
  /** What to do about it; with every failure and every warning. */
  readonly remedy?: string;
  /** What is worth knowing besides, a line each: times, headers, the beginning of a page. */
  readonly details?: readonly string[];
}

const outcome =
  <V extends Verdict>(verdict: V) =>
  <More extends object>(found: string, more?: More) => ({ ...(more as More), verdict, found });
const problem =
  <V extends Verdict>(verdict: V) =>
  <More extends object>(found: string, remedy: string, more?: More) => ({ ...(more as More), verdict, found, remedy });

/** The outcome of what is as it should be. */
export const ok = outcome('ok');
/** The outcome of what was not checked. */
export const skipped = outcome('skipped');
/** The outcome of what is not quite as it should be, with what to do. */
export const warning = problem('warning');
/** The outcome of what is wrong, with what to do. */
export const failed = problem('failed');

/** One check that was made. */
export interface CheckResult extends CheckOutcome {
  /** Stays the same in all versions, for programs: lower-case words with dots between them, such as `messages.stream`. */
  readonly id: string;
  /** What was checked, in a few words. */
  readonly title: string;
  /** Where it was found: a file with its line, or a variable. */
  readonly where?: string;
  /** What was sent, in a line; for checks that send something. */
  readonly sent?: string;
  /** What came back, in a line. */
  readonly came?: string;
  /** What has to come back, in a sentence. */
  readonly expected?: string;
  readonly duration_ms: number;
}
