import type { KeyNames, KnownKey } from '../../contract/key-names.ts';
import { BACKSLASH } from './tokens.ts';

const SEPARATORS = /[\s._-]+/g;
/** Longer spellings than this, as they stand in the text, mean none of the keys. */
const SPELLING_BYTES_MAX = { plain: 128, escaped: 512 };
const FILTER_BITS = 4095;

/**
 * What parsers that are lenient about spelling make of a key: cut at a NUL, without regard to case (of any letter that
 * some alphabet knows as a form of a Latin one), to compatibility forms such as full width, to blanks, hyphens, dots and
 * underscores (`maxTokens` is `max_tokens` to a protobuf reader).
 */
export function foldKey(key: string): string {
  const nul = key.indexOf('\0');
  const text = (nul < 0 ? key : key.slice(0, nul)).normalize('NFKD').replace(/\p{M}/gu, '');
  return text.toUpperCase().toLowerCase().replace(SEPARATORS, '');
}

/** What `foldKey` does for plain ASCII, as a number, one character at a time; separators leave it as it is. */
export function addToHash(hash: number, byte: number): number {
  if (byte === 0x5f || byte === 0x2d || byte === 0x20 || byte === 0x2e) return hash;
  return (Math.imul(hash, 31) + (byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte)) | 0;
}

interface Entry extends KnownKey {
  readonly bytes: Buffer;
}

/** Makes these keys ready to be found while bytes are scanned. */
export class KeyTable implements KeyNames {
  readonly #by_fold: ReadonlyMap<string, Entry>;
  readonly #by_hash = new Map<number, Entry>();
  /** Most keys are none of these, and a look here is enough to know. */
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

/** Whether the bytes from `start` to `end` are these. */
export function areBytes(bytes: Uint8Array, start: number, end: number, wanted: Uint8Array): boolean {
  if (end - start !== wanted.length) return false;
  for (let i = 0; i < wanted.length; i++) if (bytes[start + i] !== wanted[i]) return false;
  return true;
}

/** The key that the inside of a JSON string spells; `undefined` where it is none. */
export function keyText(bytes: Buffer, start: number, end: number): string | undefined {
  const raw = bytes.toString('utf8', start, end);
  if (!raw.includes('\\')) return raw;
  try {
    return JSON.parse(`"${raw}"`) as string;
  } catch {
    return undefined;
  }
}
