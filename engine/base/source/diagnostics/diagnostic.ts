import type { DiagnosticCode } from './codes.ts';

/** A finding of the loader. Its texts never contain secrets. */
export interface Diagnostic {
  readonly code: DiagnosticCode;
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly file: string;
  /** Counted from 1; absent for a finding about the whole file. */
  readonly line?: number;
  readonly column?: number;
  readonly length?: number;
  readonly pointer?: string;
  readonly chain?: readonly { readonly file: string; readonly line: number }[];
  readonly expected?: string;
  readonly found?: string;
  /** What to do, possibly with text to paste. */
  readonly help?: string;
}

/** Codes that start with W are warnings, all others errors. */
export function severityOf(code: DiagnosticCode): Diagnostic['severity'] {
  return code.startsWith('W') ? 'warning' : 'error';
}
