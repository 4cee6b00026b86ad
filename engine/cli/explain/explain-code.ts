import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PACKAGE_ROOT } from '../../kit/package-root.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { DIAGNOSTICS, type DiagnosticCode, type DiagnosticSpec } from '../../source/diagnostics/codes.ts';
import { severityOf } from '../../source/diagnostics/diagnostic.ts';

/** What the reference knows about one diagnostic code. */
export interface ExplainedCode extends DiagnosticSpec {
  readonly code: DiagnosticCode;
  readonly severity: 'error' | 'warning';
  /** What `check` prints for the example; absent where that only describes it. */
  readonly printed?: string;
}

/** What `check` prints for the example of each code, generated from the catalogue. */
function printedExamples(): Readonly<Record<string, string>> {
  try {
    return JSON.parse(readFileSync(join(PACKAGE_ROOT, 'schemas', 'generated', 'diagnostics.json'), 'utf8'));
  } catch {
    // The explanation is complete without.
    return {};
  }
}

/** Everything there is to say about a diagnostic code. */
export function explainCode(code: DiagnosticCode): ExplainedCode {
  const printed = printedExamples()[code];
  return {
    code,
    severity: severityOf(code),
    ...(DIAGNOSTICS[code] as DiagnosticSpec),
    ...(printed !== undefined && { printed }),
  };
}

const indented = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => `  ${line}`.trimEnd());

/** An explained code for a person. */
export function describeCode(explained: ExplainedCode, line_width: number): string[] {
  const { code, severity, title, explanation, example, printed } = explained;
  return [
    `${severity} ${code}: ${title}`,
    '',
    ...wrapText(explanation, line_width),
    '',
    'Example',
    '',
    ...indented(example),
    ...(printed === undefined ? [] : ['', 'What appscli check prints for it', '', ...indented(printed)]),
  ];
}
