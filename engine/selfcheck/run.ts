import type { CheckResult } from '../contract/checks.ts';
import { formatNetworkError } from '../kit/net/format-network-error.ts';
import type { SelfCheck, SelfCheckOutcome } from './check.ts';
import type { Subject } from './subject.ts';

/** Longest time that a request of a check may take where the check says nothing else, in seconds. */
export const SECONDS = 60;

/** Makes the checks one after the other, and tells each as soon as it is known. */
export async function* runChecks(checks: readonly SelfCheck[], subject: Subject): AsyncGenerator<CheckResult> {
  for (const check of checks) {
    const { id, title, expected } = check;
    const started = performance.now();
    const outcome = await outcomeOf(check, subject);
    yield { id, title, expected, ...outcome, duration_ms: Math.round(performance.now() - started) };
  }
}

async function outcomeOf(check: SelfCheck, subject: Subject): Promise<SelfCheckOutcome> {
  const skipped = check.skipped?.(subject);
  if (skipped !== undefined) return { verdict: 'skipped', found: skipped };
  try {
    return await check.run(subject);
  } catch (error) {
    return {
      verdict: 'failed',
      found: `no answer: ${formatNetworkError(error, SECONDS)}`,
      remedy: `can ${new URL(subject.root_url).host} be reached from here, and is it the address of the gateway?`,
    };
  }
}
