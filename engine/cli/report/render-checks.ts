import type { CheckResult } from '../../contract/checks.ts';
import { jsonText } from '../../kit/text/printable.ts';

/** How results are printed. */
export type ReportFormat = 'text' | 'json' | 'junit';

/** One result as lines for people. */
export function renderCheck(
  { verdict, title, found, remedy }: Omit<CheckResult, 'duration_ms'>,
  _options: { readonly color: boolean; readonly columns: number },
): string {
  return `${verdict.padEnd(8)}${title}: ${found}\n${remedy === undefined ? '' : `        help: ${remedy}\n`}`;
}

/** All results for programs. */
export function renderReport(
  results: readonly CheckResult[],
  options: { readonly format: Exclude<ReportFormat, 'text'>; readonly facts: Readonly<Record<string, unknown>> },
): string {
  return `${jsonText({ ...options.facts, checks: results }, 2)}\n`;
}
