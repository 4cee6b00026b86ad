import type { KeyNames, KnownKey } from '../../contract/key-names.ts';
import { BACKSLASH } from './tokens.ts';

const SEPARATORS = /[\s._-]+/g;
/** Longest spelling of a known key, in bytes of the text. */
const SPELLING_BYTES_MAX = { plain: 128, escaped: 512 };
const FILTER_BITS = 4095;

/**
 * Normalises a key as lenient parsers do: cuts it at a NUL, folds case and Unicode compatibility forms such as full width, and drops
 * spaces, hyphens, dots and underscores (a protobuf reader equates `maxTokens` and `max_tokens`).
 */
function foldKey(key: string): string {
  const nul = key.indexOf('\0');
  const text = (nul < 0 ? key : key.slice(0, nul)).normalize('NFKD').replace(/\p{M}/gu, '');
  return text.toUpperCase().toLowerCase().replace(SEPARATORS, '');
}

/** Adds an ASCII character to a hash that is equal for keys equal under `foldKey`; separators are skipped. */
export function addToHash(hash: number, byte: number): number {
  if (byte === 0x5f || byte === 0x2d || byte === 0x20 || byte === 0x2e) return hash;
  return (Math.imul(hash, 31) + (byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte)) | 0;
}

interface Entry extends KnownKey {
  readonly bytes: Buffer;
}

/** An index of known keys for a scan of bytes. */
export class KeyTable implements KeyNames {
  readonly #by_fold: ReadonlyMap<string, Entry>;
  readonly #by_hash = new Map<number, Entry>();
  readonly #filter = new Uint8Array(FILTER_BITS + 1);

  constructor(keys: readonly KnownKey[]) {
    const entries = keys.map((key) => ({ ...key, bytes: Buffer.from(key.name) }));
    this.#by_fold = new Map(entries.map((entry) => [foldKey(entry.name), entry]));
    for (const [fold, entry] of this.#by_fold) {
      let hash = 0;
      for (const byte of Buffer.from(fold)) hash = addToHash(hash, byte);
      this.#by_hash.set(hash, entry);
      this.#filter[slotOf(hash)] = 1;
    }
  }

  candidate(hash: number): Entry | undefined {
    return this.#filter[slotOf(hash)] === 0 ? undefined : this.#by_hash.get(hash);
  }

  find(bytes: Buffer, start: number, end: number): KnownKey | undefined {
    const length = end - start;
    if (length > SPELLING_BYTES_MAX.escaped) return undefined;
    if (length > SPELLING_BYTES_MAX.plain && !bytes.subarray(start, end).includes(BACKSLASH)) return undefined;
    const text = keyText(bytes, start, end);
    return text === undefined ? undefined : this.#by_fold.get(foldKey(text));
  }
}

function slotOf(hash: number): number {
  return (hash ^ (hash >>> 12)) & FILTER_BITS;
}

export function areBytes(bytes: Uint8Array, start: number, end: number, wanted: Uint8Array): boolean {
  if (end - start !== wanted.length) return false;
  for (let i = 0; i < wanted.length; i++) if (bytes[start + i] !== wanted[i]) return false;
  return true;
}

/** The text between the quotes of a JSON string; `undefined` if invalid. */
export function keyText(bytes: Buffer, start: number, end: number): string | undefined {
  const raw = bytes.toString('utf8', start, end);
  if (!raw.includes('\\')) return raw;
  try {
    return JSON.parse(`"${raw}"`) as string;
  } catch {
    return undefined;
  }
}
