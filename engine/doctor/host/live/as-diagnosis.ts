import type { Diagnosis } from '../../diagnosis.ts';
import type { LiveOutcome } from './live-check.ts';

/** What came of a live check as a diagnosis; one that found only doubts is a warning. */
export function diagnosisOf(
  base: Pick<Diagnosis, 'id' | 'title' | 'where'>,
  { ok, what, help, warnings = [], notes: more = [], way }: LiveOutcome,
): Diagnosis {
  const notes = way === undefined ? more : [...more, `reached ${way}`];
  if (!ok)
    return {
      ...base,
      verdict: 'failed',
      found: what,
      remedy: help ?? 'see its own log',
      details: [...warnings, ...notes],
    };
  const [first, ...others] = warnings;
  if (first === undefined) return { ...base, verdict: 'ok', found: what, details: notes };
  return {
    ...base,
    verdict: 'warning',
    found: `${what}; ${first}`,
    remedy: help ?? 'compare the configuration with what it says; it may be right as it is',
    details: [...others, ...notes],
  };
}
