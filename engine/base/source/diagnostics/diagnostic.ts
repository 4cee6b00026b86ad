import type { Mark } from '../node.ts';
import type { DiagnosticCode } from './codes.ts';

/** A finding of the loader. Its texts never contain secrets. Without a line it is about the whole file. */
export interface Diagnostic extends Partial<Mark> {
  readonly code: DiagnosticCode;
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly file: string;
  readonly expected?: string;
  readonly found?: string;
  /** What to do, possibly with text to paste. */
  readonly help?: string;
}

/** Codes that start with W are warnings, all others errors. */
export function severityOf(code: DiagnosticCode): Diagnostic['severity'] {
  return code.startsWith('W') ? 'warning' : 'error';
}
