import { type CheckResult, failed, skipped, warning } from '../../base/contract/checks.ts';
import { isOfNetwork, NotAsked, noAnswer } from './ask.ts';
import type { SelfCheck, SelfCheckOutcome, Subject } from './check.ts';

/** Longest time that a request of a check may take where the check says nothing else, in seconds. */
export const SECONDS = 60;

/** A check that was stopped has so long to clean up behind itself. */
const CLEANING_MS = 5000;

/** What whoever makes the checks has to say on the way. */
export interface RunOptions {
  begin?(check: SelfCheck): void;
  /** What comes in place of a check that is not made although it could be, such as one that costs too much. */
  refuse?(check: SelfCheck): SelfCheckOutcome | undefined;
  /** Longest time of a request, in seconds. */
  readonly seconds?: number;
}

/** Makes the checks one after the other, and tells each as soon as it is known. */
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
    return await untilStopped(check.run(subject), subject.signal);
  } catch (error) {
    if (error instanceof NotAsked) return stopped(error);
    return isOfNetwork(error) ? noAnswer(error, subject.root_url, seconds) : broken(error);
  }
}

/** Waits for a check no longer than it needs to clean up once everything is stopped. */
async function untilStopped<T>(running: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return running;
  let patience: NodeJS.Timeout | undefined;
  let onStop = () => {};
  const over = new Promise<never>((_, reject) => {
    onStop = () => (patience = setTimeout(() => reject(signal.reason), CLEANING_MS));
    if (signal.aborted) onStop();
    else signal.addEventListener('abort', onStop, { once: true });
  });
  try {
    return await Promise.race([running, over]);
  } finally {
    signal.removeEventListener('abort', onStop);
    clearTimeout(patience);
  }
}

function stopped(reason: unknown): SelfCheckOutcome {
  return skipped(`not made: ${reason instanceof Error ? reason.message : 'it was stopped'}`);
}

/** A check that broke says nothing about a gateway, unless what broke it is an answer that nobody could read. */
function broken(error: unknown): SelfCheckOutcome {
  if (error instanceof RangeError) {
    return failed(
      'its answer is too large or nested too deeply to be read',
      'is this the address of a model gateway? Look at what it answers with curl',
    );
  }
  const what = error instanceof Error ? `${error.name}: ${error.message}` : 'unknown error';
  return warning(
    `this check broke (${what}), which says nothing about the gateway`,
    'please report it, with the version of appscli and which gateway it is',
  );
}
