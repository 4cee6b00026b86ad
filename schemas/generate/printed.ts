import { readGoldens } from '../../test/golden/cases.ts';

/** What `check` prints for one mistake of each code, by code: the first golden case that has it. */
export function printedDiagnostics(): Readonly<Record<string, string>> {
  const printed: Record<string, string> = {};
  for (const { code, cases } of ['diagnostics', 'check'].flatMap(readGoldens)) {
    const { expected } = cases[0]!;
    const [found] = /^(?:error|warning)\[/m.exec(expected) ?? [];
    // A finding ends at an empty line; after it `check` counts them.
    if (found !== undefined) printed[code] ??= expected.slice(expected.indexOf(found)).split('\n\n')[0]!.trimEnd();
  }
  return Object.fromEntries(Object.entries(printed).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
