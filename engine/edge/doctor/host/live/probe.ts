import { failed, ok, warning } from '../../../../base/contract/checks.ts';
import type { Diagnosis } from '../../workstation.ts';
import type { Host } from '../host.ts';

export type LiveOptions = Pick<Host, 'config' | 'env' | 'timeout_seconds'>;

export interface LiveOutcome {
  readonly ok: boolean;
  readonly what: string;
  readonly help?: string;
  /** Deviations from the configuration that may fail later. */
  readonly warnings?: readonly string[];
  readonly notes?: readonly string[];
  /** The network path over HTTP: direct, or through which proxy. */
  readonly way?: string;
}

/** The outcome of a failed check, with its remedy. */
export const wrong = (what: string, help: string): LiveOutcome => ({ ok: false, what, help });

/** A live check of one service that the configuration names. */
export interface LiveCheck extends LiveOutcome {
  readonly name: string;
  readonly duration_ms: number;
}

export function diagnosisOf(
  base: Pick<Diagnosis, 'id' | 'title' | 'where'>,
  { ok: is_ok, what, help, warnings = [], notes: more = [], way }: LiveOutcome,
): Diagnosis {
  const notes = way === undefined ? more : [...more, `reached ${way}`];
  if (!is_ok) return failed(what, help ?? 'see its log', { ...base, details: [...warnings, ...notes] });
  const [first, ...others] = warnings;
  if (first === undefined) return ok(what, { ...base, details: notes });
  const remedy = help ?? 'compare the configuration; it may be right';
  return warning(`${what}; ${first}`, remedy, { ...base, details: [...others, ...notes] });
}

/** A log of checks, which report failures themselves. */
export const SILENT = { debug() {}, info() {}, warn() {}, error() {} };
