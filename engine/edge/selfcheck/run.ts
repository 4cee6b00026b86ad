import { type CheckResult, failed, skipped, warning } from '../../base/contract/checks.ts';
import { ChecksStopped, isOfNetwork, noResponse } from './ask.ts';
import type { SelfCheck, SelfCheckOutcome, Subject } from './check.ts';

/** Default timeout of a request, in seconds. */
export const SECONDS = 60;

interface RunOptions {
  begin?(check: SelfCheck): void;
  /** The outcome of a check that should not run, such as one over the budget. */
  refuse?(check: SelfCheck): SelfCheckOutcome | undefined;
  /** Timeout of a request, in seconds. */
  readonly seconds?: number;
}

/** Runs the checks in sequence, and yields each result as soon as it is known. */
export async function* runChecks(
  checks: readonly SelfCheck[],
  subject: Subject,
  options: RunOptions = {},
): AsyncGenerator<CheckResult> {
  for (const check of checks) {
    const { id, title, expected } = check;
    const started = performance.now();
    const outcome = notMade(check, subject, options) ?? (await make(check, subject, options));
    yield { id, title, expected, ...outcome, duration_ms: Math.round(performance.now() - started) };
  }
}

function notMade(check: SelfCheck, subject: Subject, { refuse }: RunOptions): SelfCheckOutcome | undefined {
  const { signal } = subject;
  if (signal?.aborted) return stopped(signal.reason);
  const why = check.skipped?.(subject);
  return why === undefined ? refuse?.(check) : skipped(why);
}

async function make(
  check: SelfCheck,
  subject: Subject,
  { begin, seconds = SECONDS }: RunOptions,
): Promise<SelfCheckOutcome> {
  begin?.(check);
  try {
    return await check.run(subject);
  } catch (error) {
    if (error instanceof ChecksStopped) return stopped(error);
    return isOfNetwork(error) ? noResponse(error, subject.root_url, seconds) : broken(error);
  }
}

function stopped(reason: unknown): SelfCheckOutcome {
  return skipped(`not run: ${reason instanceof Error ? reason.message : 'stopped'}`);
}

/** The outcome of a crashed check. A RangeError means that the response was too large or too deeply nested. */
function broken(error: unknown): SelfCheckOutcome {
  if (error instanceof RangeError) {
    return failed(
      'its response is too large or too deeply nested',
      'check that this is the address of a model gateway, for example with curl',
    );
  }
  const what = error instanceof Error ? `${error.name}: ${error.message}` : 'unknown error';
  return warning(
    `check crashed (${what}); result unknown`,
    'please report it, with the versions of appscli and of the gateway',
  );
}
