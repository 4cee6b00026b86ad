import type { KeyNames, KnownKey } from '../../contract/key-names.ts';
import type { ByteRange } from './elements.ts';
import { addToHash, areBytes, keyText } from './key-names.ts';
import {
  ATOM,
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  isSpace,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SHORT_STRING,
  stringEnd,
} from './tokens.ts';

export interface JsonBounds {
  readonly depth: number;
  /** Maximum number of values, weighted by parse time: a key counts as two. */
  readonly values: number;
}

export interface JsonFault {
  readonly kind: 'structure' | 'end' | 'depth' | 'values' | 'length';
  readonly at: number;
}

/** A key that two parsers could read differently. */
export interface AmbiguousKey {
  readonly name: string;
  /** Its spelling; the name itself if it is repeated. */
  readonly spelling: string;
}

const VALUE = 0;
const VALUE_OR_CLOSE = 1;
const KEY_OR_CLOSE = 2;
const KEY = 3;
const COLON_NEXT = 4;
const AFTER_VALUE = 5;
const NOTHING = 6;

export interface ScanOptions {
  readonly names?: KeyNames | undefined;
  readonly members_max?: number;
  /** Records strings below the top-level members with more bytes than this; default: none. */
  readonly text_bytes?: number | undefined;
}

/** Depth of the objects in a list of a top-level member, such as messages. */
const MESSAGE_DEPTH = 3;
const MEMBERS_MAX = 256;
/** Key bytes, and escapes in strings, that take as long to parse as one value; as powers of two. */
const KEY_BYTES_SHIFT = 5;
const ESCAPES_SHIFT = 4;
/** Escapes count only in longer texts; shorter ones are parsed fast anyway. */
const COUNTED_BYTES = 4 * 1024 * 1024;
/** Longest key and number, in bytes; strings are unbounded. */
export const TOKEN_BYTES_MAX = 65_536;

/**
 * A single-pass scanner of JSON bytes, linear for any input: checks the structure and its bounds, records the offsets of top-level
 * members, detects ambiguous known keys. The content of strings, numbers and literals is left to the parser.
 */
export class JsonScan {
  readonly bytes: Buffer;
  fault: JsonFault | undefined;
  ambiguous: AmbiguousKey | undefined;
  values = 0;
  /** The bytes between the quotes of strings with more than `text_bytes`. */
  readonly texts: ByteRange[] = [];
  /** Four offsets for each of the first top-level members: start and end of the key text and of the value. */
  readonly offsets: number[] = [];
  more_members = false;
  readonly #names: KeyNames | undefined;
  readonly #bounds: JsonBounds;
  readonly #members_max: number;
  #at = 0;
  #next = VALUE;
  #root_is_object = false;
  readonly #text_bytes: number;
  /** Kind of each open container: 0 for an object, -1 for an array. */
  readonly #open: number[] = [];
  /** Known keys seen in the open objects, and the index of the first key of each object. */
  readonly #seen: KnownKey[] = [];
  readonly #seen_from: number[] = [];
  /** Depth of the object whose current member is user data; 0 outside. */
  #data_depth = 0;
  #in_prompt = false;

  constructor(bytes: Buffer, bounds: JsonBounds, options: ScanOptions = {}) {
    const { names, members_max = MEMBERS_MAX, text_bytes = Infinity } = options;
    this.#members_max = members_max;
    this.#text_bytes = text_bytes;
    this.bytes = bytes;
    this.#bounds = bounds;
    this.#names = names;
  }

  /** Scans about `length` more bytes. Returns whether it is done, with or without a `fault`. */
  step(length: number): boolean {
    const { bytes } = this;
    const open = this.#open;
    const until = Math.min(bytes.length, this.#at + length);
    const values_max = this.#bounds.values;
    let values = this.values;
    let next = this.#next;
    let i = this.#at;
    while (i < until) {
      const byte = bytes[i]!;
      if (byte === QUOTE) {
        if (next === KEY || next === KEY_OR_CLOSE) {
          const start = i;
          i = this.#key(i);
          if (i - start > TOKEN_BYTES_MAX) return this.#fails('length', start);
          values += 1 + ((i - start) >> KEY_BYTES_SHIFT);
          next = COLON_NEXT;
        } else if (next === VALUE || next === VALUE_OR_CLOSE) {
          const start = i;
          i = stringEnd(bytes, i) + 1;
          if (i > bytes.length) break;
          if (i - start > this.#text_bytes && open.length > 1) this.texts.push({ start: start + 1, end: i - 1 });
          else if (bytes.length > COUNTED_BYTES) values += escapes(bytes, start, i) >> ESCAPES_SHIFT;
          next = this.#valueEnds(start, i);
        } else return this.#fails('structure', i);
        if (++values > values_max) return this.#fails('values', i);
      } else if (byte === COMMA) {
        if (next !== AFTER_VALUE) return this.#fails('structure', i);
        next = open[open.length - 1] === -1 ? VALUE : KEY;
        i++;
      } else if (byte === COLON) {
        if (next !== COLON_NEXT) return this.#fails('structure', i);
        next = VALUE;
        i++;
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (next !== VALUE && next !== VALUE_OR_CLOSE) return this.#fails('structure', i);
        if (open.length === this.#bounds.depth) return this.#fails('depth', i);
        next = byte === OPEN_BRACE ? this.#opensObject(i) : this.#opensArray(i);
        i++;
        if (++values > values_max) return this.#fails('values', i);
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        const is_array = open[open.length - 1] === -1;
        const is_empty = next === (is_array ? VALUE_OR_CLOSE : KEY_OR_CLOSE);
        if ((next !== AFTER_VALUE && !is_empty) || is_array !== (byte === CLOSE_BRACKET) || open.length === 0)
          return this.#fails('structure', i);
        open.pop();
        if (!is_array) this.#seen.length = this.#seen_from.pop()!;
        i++;
        next = this.#valueEnds(-1, i);
      } else if (isSpace(byte)) {
        i++;
      } else {
        if (ATOM[byte] !== 3 || (next !== VALUE && next !== VALUE_OR_CLOSE)) return this.#fails('structure', i);
        const start = i++;
        const last = start + TOKEN_BYTES_MAX;
        while (i < bytes.length && ATOM[bytes[i]!]! > 0 && i <= last) i++;
        if (i > last) return this.#fails('length', start);
        next = this.#valueEnds(start, i);
        if (++values > values_max) return this.#fails('values', i);
      }
    }
    this.values = values;
    this.#next = next;
    this.#at = i;
    if (i < bytes.length) return false;
    if (next !== NOTHING || i > bytes.length) return this.#fails('end', bytes.length);
    return true;
  }

  get is_object(): boolean {
    return this.#root_is_object;
  }

  #fails(kind: JsonFault['kind'], at: number): true {
    this.fault = { kind, at };
    return true;
  }

  #opensObject(at: number): number {
    const depth = this.#open.length;
    if (depth === 0) this.#root_is_object = true;
    else this.#valueBegins(depth, at);
    this.#open.push(0);
    this.#seen_from.push(this.#seen.length);
    return KEY_OR_CLOSE;
  }

  #opensArray(at: number): number {
    this.#valueBegins(this.#open.length, at);
    this.#open.push(-1);
    return VALUE_OR_CLOSE;
  }

  #valueBegins(depth: number, at: number): void {
    if (depth === 1 && this.#root_is_object && !this.more_members) this.offsets.push(at);
  }

  /** Records the end of a value. `start` is its beginning, or -1 for a container, whose start is already recorded. */
  #valueEnds(start: number, end: number): number {
    const depth = this.#open.length;
    if (depth === 0) return NOTHING;
    if (depth === 1 && this.#root_is_object && !this.more_members) {
      if (start >= 0) this.offsets.push(start, end);
      else this.offsets.push(end);
    }
    return AFTER_VALUE;
  }

  /** Reads the key at a quote. Returns the index after it. */
  #key(quote: number): number {
    const { bytes } = this;
    const near = Math.min(quote + SHORT_STRING, bytes.length);
    let hash = 0;
    let i = quote + 1;
    let is_plain = true;
    for (; i < near; i++) {
      const byte = bytes[i]!;
      if (byte === QUOTE) break;
      if (byte === BACKSLASH || byte >= 0x80) {
        is_plain = false;
        break;
      }
      hash = addToHash(hash, byte);
    }
    if (i === near) is_plain = false;
    const close = is_plain ? i : stringEnd(bytes, quote);
    const depth = this.#open.length;
    if (depth === 1) {
      if (this.offsets.length < 4 * this.#members_max) this.offsets.push(quote + 1, close);
      else this.more_members = true;
    }
    if (this.#names !== undefined && this.ambiguous === undefined) {
      if (depth <= this.#data_depth) this.#data_depth = 0;
      if (depth === 1) this.#in_prompt = false;
      if (this.#data_depth === 0) this.#checkKey(this.#names, quote + 1, close, is_plain ? hash : undefined);
    }
    return close + 1;
  }

  #checkKey(names: KeyNames, start: number, end: number, hash: number | undefined): void {
    const { bytes } = this;
    let known: KnownKey | undefined;
    let is_exact = false;
    if (hash !== undefined) {
      const candidate = names.candidate(hash);
      if (candidate === undefined) return;
      is_exact = areBytes(bytes, start, end, candidate.bytes);
      known = is_exact ? candidate : undefined;
    }
    known ??= names.find(bytes, start, end);
    if (known === undefined) return;
    const depth = this.#open.length;
    if (!is_exact) {
      const spelling = keyText(bytes, start, end)!;
      is_exact = spelling === known.name || (known.also?.includes(spelling) ?? false);
    }
    if (this.#decides(known, depth)) {
      const { name } = known;
      if (!is_exact) this.ambiguous = { name, spelling: keyText(bytes, start, end)! };
      else if (this.#seen.includes(known, this.#seen_from.at(-1))) this.ambiguous = { name, spelling: name };
      this.#seen.push(known);
    }
    if (is_exact) this.#enter(known, depth);
  }

  #decides({ decides }: KnownKey, depth: number): boolean {
    if (decides === 'top') return depth === 1;
    return decides === 'anywhere' || (decides === 'not in messages' && !(this.#in_prompt && depth === MESSAGE_DEPTH));
  }

  #enter({ holds }: KnownKey, depth: number): void {
    const content = depth === 1 ? holds?.top : holds?.below;
    if (content === 'data') this.#data_depth = depth;
    else if (content === 'prompt') this.#in_prompt = true;
  }
}

function escapes(bytes: Buffer, start: number, end: number): number {
  let found = 0;
  for (let i = start; i < end; i++) {
    if (bytes[i] !== BACKSLASH) continue;
    found++;
    i++;
  }
  return found;
}
