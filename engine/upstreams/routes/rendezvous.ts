/**
 * Weighted rendezvous hashing: every process ranks the same keys the same way, and where one entry leaves, only its own keys
 * move, to all others by their weights.
 * @module
 */

/** Hashes a text to 32 bits: FNV-1a, mixed so that texts that differ in one character have nothing in common. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** The last steps of MurmurHash3: every bit of the input decides over every bit of the result. */
function mix(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/**
 * How much an entry wants a key; the highest of all entries has it. Over many keys each entry has the share of its weight.
 * @param key hash of the key
 * @param seed hash of the entry's name
 */
export function scoreOf(key: number, seed: number, weight: number): number {
  // Never 0 and never 1, so that the logarithm is a number below 0.
  const uniform = (mix((key ^ Math.imul(seed, 0x9e3779b1)) >>> 0) + 0.5) / 2 ** 32;
  return -weight / Math.log(uniform);
}
