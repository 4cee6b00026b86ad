/** Result of a check. `skipped`: the check could not run; `found` has the reason. */
export type Verdict = 'ok' | 'warning' | 'failed' | 'skipped';

/** Findings of a check of `selfcheck` or `doctor`. Texts contain no secrets; make them printable before showing them. */
export interface CheckOutcome {
  readonly verdict: Verdict;
  /** The finding, a sentence that begins in lower case and has no full stop. */
  readonly found: string;
  /** What to do; set for each failure and warning. */
  readonly remedy?: string;
  /** Further details, one line each: times, headers, the beginning of a page. */
  readonly details?: readonly string[];
}

const outcome =
  <V extends Verdict>(verdict: V) =>
  <More extends object>(found: string, more?: More) => ({ ...(more as More), verdict, found });
const problem =
  <V extends Verdict>(verdict: V) =>
  <More extends object>(found: string, remedy: string, more?: More) => ({ ...(more as More), verdict, found, remedy });

/** A passed check. */
export const ok = outcome('ok');
/** A skipped check. */
export const skipped = outcome('skipped');
/** A warning, with its remedy. */
export const warning = problem('warning');
/** A failure, with its remedy. */
export const failed = problem('failed');

/** A check with its result. */
export interface CheckResult extends CheckOutcome {
  /** Stable id for programs: lower-case words with dots, such as `messages.stream`. */
  readonly id: string;
  readonly title: string;
  /** Location of the finding: a file with its line, or a variable. */
  readonly where?: string;
  readonly sent?: string;
  readonly came?: string;
  readonly expected?: string;
  readonly duration_ms: number;
}
