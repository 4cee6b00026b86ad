import type { DiagnosticCode } from './diagnostics/codes.ts';
import { type Diagnostic, severityOf } from './diagnostics/diagnostic.ts';
import { hideRanges } from './diagnostics/secrets.ts';
import { type Mark, type Node, scalarsOf } from './node.ts';

/** The optional parts of a diagnostic. */
export interface Details {
  readonly found?: string | undefined;
  readonly expected?: string | undefined;
  readonly help?: string | undefined;
  /** Whether the same sentence is said only where it is met first, because it is not about that place. */
  readonly once?: boolean;
}

function byPosition(a: Diagnostic, b: Diagnostic): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0) || (a.code < b.code ? -1 : 1);
}

/** Warnings that come and go with the machine; allowing them is right also where they don't occur. */
const CHANGING: ReadonlySet<string> = new Set(['W7004', 'W7007']);

function neverOccurs(at: Mark, code: string): Diagnostic {
  const message = `${code} is allowed, and does not occur`;
  return { code: 'W7019', severity: 'warning', message, ...at, help: 'remove the line' };
}

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
    /** Adds a diagnostic at a mark, or about a file as a whole. */
    report(
      code: DiagnosticCode,
      at: Mark | { readonly file: string },
      message: string,
      { once = false, ...details }: Details = {},
    ): void {
      const position = 'line' in at ? at : { file: at.file };
      const given = Object.fromEntries(Object.entries(details).filter(([, text]) => text !== undefined));
      const diagnostic: Diagnostic = { code, severity: severityOf(code), message, ...position, ...given };
      // A fragment used twice shows its mistakes once.
      const place = once ? [] : [at.file, diagnostic.line, diagnostic.column];
      const key = [code, ...place, message].join('\n');
      if (found.has(key)) return;
      found.set(key, diagnostic);
      if (diagnostic.severity === 'error') errors += 1;
    },
    /** Declares every scalar below a node secret: no snippet will show it. */
    hide(node: Node): void {
      for (const scalar of scalarsOf(node)) hideRange(scalar.mark.file, scalar.range);
    },
    /** Declares a part of a file secret; offsets, start and end. */
    hideRange,
    /**
     * Leaves out warnings of one code in one file and in the fragments it uses. The mark is where the file says so.
     * @param more files that it extends.
     */
    allow(at: Mark, code: string, more: readonly string[] = []): void {
      // An extension of several pipelines says it for each of them.
      if (!allowed.some((one) => one.at === at)) allowed.push({ at, code, files: [at.file, ...more] });
    },
    read: (file: string, text: string) => void texts.set(file, text),
    errors: (): number => errors,
    /** Sorted by file, line and column, without repetitions; warnings only when there are no errors. */
    diagnostics(): readonly Diagnostic[] {
      const all = [...found.values()];
      // Warnings say what a configuration that runs might not mean; while it cannot run they would only hide the errors.
      if (errors > 0) return all.filter(({ severity }) => severity === 'error').sort(byPosition);
      const meets =
        ({ code, files }: (typeof allowed)[number]) =>
        (diagnostic: Diagnostic) =>
          diagnostic.code === code &&
          [diagnostic.file, diagnostic.chain?.[0]?.file].some((file) => files.includes(file!));
      const idle = allowed.filter((one) => !CHANGING.has(one.code) && !all.some(meets(one)));
      const left = all.filter((diagnostic) => !allowed.some((one) => meets(one)(diagnostic)));
      return [...left, ...idle.map(({ at, code }) => neverOccurs(at, code))].sort(byPosition);
    },
    /** Files that were read, absolute. */
    files: (): readonly string[] => [...texts.keys()],
    /** Remembers a file that a secret is in, absolute; its text is not kept. */
    readSecret: (file: string) => void secret_files.add(file),
    /** Files with secrets, absolute. */
    secret_files: (): readonly string[] => [...secret_files],
    /** Text of each file with secrets blanked out, for snippets. */
    sources: (): ReadonlyMap<string, string> =>
      new Map([...texts].map(([file, text]) => [file, hideRanges(text, hidden.get(file) ?? [])] as const)),
  };
}

/** What one load has found so far: diagnostics, files read, and which text is secret. */
export type Findings = ReturnType<typeof createFindings>;
