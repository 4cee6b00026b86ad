import type { DiagnosticCode } from './diagnostics/codes.ts';
import { type Diagnostic, severityOf } from './diagnostics/diagnostic.ts';
import { hideRanges } from './diagnostics/secrets.ts';
import { type Mark, type Node, scalarsOf } from './node.ts';

/** The optional parts of a diagnostic. */
export interface Details {
  readonly found?: string | undefined;
  readonly expected?: string | undefined;
  readonly help?: string | undefined;
  /** Reports the same message only once, because it does not concern the place. */
  readonly once?: boolean;
}

function byPosition(a: Diagnostic, b: Diagnostic): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0) || (a.code < b.code ? -1 : 1);
}

/** Warnings that depend on the machine; an `allow:` entry for them may stay unused. */
const CHANGING: ReadonlySet<string> = new Set(['W7004', 'W7007']);

/** An empty collection of findings. */
export function createFindings() {
  const found = new Map<string, Diagnostic>();
  const texts = new Map<string, string>();
  const hidden = new Map<string, (readonly [number, number])[]>();
  const secret_files = new Set<string>();
  const allowed: { readonly at: Mark; readonly code: string; readonly files: readonly string[] }[] = [];
  let errors = 0;
  const hideRange = (file: string, range: readonly [number, number]) => {
    if (!hidden.has(file)) hidden.set(file, []);
    hidden.get(file)!.push(range);
  };
  return {
    report(
      code: DiagnosticCode,
      at: Mark | { readonly file: string },
      message: string,
      { once = false, ...details }: Details = {},
    ): void {
      const position = 'line' in at ? at : { file: at.file };
      const present = Object.fromEntries(Object.entries(details).filter(([, text]) => text !== undefined));
      const diagnostic: Diagnostic = { code, severity: severityOf(code), message, ...position, ...present };
      // A fragment used twice reports its mistakes once.
      const place = once ? [] : [at.file, diagnostic.line, diagnostic.column];
      const key = [code, ...place, message].join('\n');
      if (found.has(key)) return;
      found.set(key, diagnostic);
      if (diagnostic.severity === 'error') errors += 1;
    },
    /** Hides every scalar below a node in snippets. */
    hide(node: Node): void {
      for (const scalar of scalarsOf(node)) hideRange(scalar.mark.file, scalar.range);
    },
    hideRange,
    /** Suppresses one warning in a file and its fragments. @param at the `allow:` entry @param more files that it extends */
    allow(at: Mark, code: string, more: readonly string[] = []): void {
      // An extension of several pipelines repeats it for each of them.
      if (!allowed.some((one) => one.at === at)) allowed.push({ at, code, files: [at.file, ...more] });
    },
    read: (file: string, text: string) => void texts.set(file, text),
    errors: (): number => errors,
    /** Sorted by file, line and column, without repetitions; warnings only when there are no errors. */
    diagnostics(): readonly Diagnostic[] {
      const all = [...found.values()];
      // Warnings concern a configuration that runs; beside errors they would only hide them.
      if (errors > 0) return all.filter(({ severity }) => severity === 'error').sort(byPosition);
      const meets = ({ code, files }: (typeof allowed)[number], { code: its, file, chain }: Diagnostic) =>
        code === its && [file, chain?.[0]?.file].some((one) => files.includes(one!));
      const idle = allowed.filter((one) => !CHANGING.has(one.code) && !all.some((found) => meets(one, found)));
      const left = all.filter((diagnostic) => !allowed.some((one) => meets(one, diagnostic)));
      const never = idle.map(({ at, code }): Diagnostic => {
        const message = `${code} is allowed, but does not occur`;
        return { code: 'W7019', severity: 'warning', message, ...at, help: 'remove the line' };
      });
      return [...left, ...never].sort(byPosition);
    },
    files: (): readonly string[] => [...texts.keys()],
    /** Records the absolute path of a secret file; its text is not kept. */
    readSecret: (file: string) => void secret_files.add(file),
    secret_files: (): readonly string[] => [...secret_files],
    /** Text of each file with secrets blanked out, for snippets. */
    sources: (): ReadonlyMap<string, string> =>
      new Map([...texts].map(([file, text]) => [file, hideRanges(text, hidden.get(file) ?? [])] as const)),
  };
}

/** The findings of one load: diagnostics, files read, and hidden text ranges. */
export type Findings = ReturnType<typeof createFindings>;
