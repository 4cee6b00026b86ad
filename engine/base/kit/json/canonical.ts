import { createHash } from 'node:crypto';

/** JSON text with keys sorted at every level, by UTF-16 code units, and without white space: equal values have equal texts. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  // JavaScript objects order integer-like keys first, whatever the insertion order.
  const members = Object.entries(value)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
  return `{${members.join(',')}}`;
}

/** Checksum of settings, by which clients detect changes: `sha256:` and the hexadecimal digest of their canonical JSON. */
export function checksumOf(canonical_json: string): string {
  return `sha256:${createHash('sha256').update(canonical_json).digest('hex')}`;
}
