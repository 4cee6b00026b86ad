import { printable } from '../../kit/text/printable.ts';
import type { Diagnostic } from './diagnostic.ts';

/** Further places of a finding that are named; the others are counted. */
const MAX_PLACES = 5;

/** Where a finding is, as editors open it: `gateway.yaml:3:5`. */
export const placeOf = ({ file, line, column }: Diagnostic): string =>
  line === undefined ? printable(file) : `${printable(file)}:${line}:${column ?? 1}`;

/** The places of findings that say the same as one before them; `undefined` where there are none. */
export function furtherPlaces(diagnostics: readonly Diagnostic[]): string | undefined {
  if (diagnostics.length === 0) return undefined;
  const more = diagnostics.length - MAX_PLACES;
  return `${diagnostics.slice(0, MAX_PLACES).map(placeOf).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
