import { printable } from '../../kit/text/printable.ts';
import { DIAGNOSTICS } from './codes.ts';
import type { Diagnostic } from './diagnostic.ts';
import { furtherPlaces } from './places.ts';

const escapeData = (text: string): string => printable(text).replaceAll('%', '%25').replaceAll('\n', '%0A');

const escapeProperty = (text: string): string => escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');

/**
 * One workflow command: `::error file=...,line=...::message`.
 * @param same those that say the same of other places: a code host shows only the first ten of a step.
 */
export function renderGithub(diagnostic: Diagnostic, same: readonly Diagnostic[]): string {
  const { code, severity, file, line, column, length, message, found, expected, help, chain } = diagnostic;
  const properties: [string, string | number | undefined][] = [
    ['file', file],
    ['line', line],
    ['col', column],
    ['endColumn', column === undefined ? undefined : column + (length ?? 1)],
    ['title', `${code} ${DIAGNOSTICS[code].title}`],
  ];
  const given = properties.flatMap(([key, value]) =>
    value === undefined ? [] : [`${key}=${escapeProperty(String(value))}`],
  );
  const also_at = furtherPlaces(same);
  const lines = [
    message,
    found === undefined ? undefined : `found: ${found}`,
    expected === undefined ? undefined : `expected: ${expected}`,
    ...(chain ?? []).map((use) => `used by ${use.file}:${use.line}`).reverse(),
    help === undefined ? undefined : `help: ${help}`,
    also_at === undefined ? undefined : `also at: ${also_at}`,
  ].filter((text) => text !== undefined);
  return `::${severity} ${given.join(',')}::${escapeData(lines.join('\n'))}\n`;
}
