import fc from 'fast-check';

/** Places where `pieces` cuts. */
export const cuts = fc.array(fc.nat(), { maxLength: 12 });

/** Cuts bytes anywhere, also inside a character. */
export function pieces(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((start, i) => bytes.subarray(start, at[i] ?? bytes.length));
}
