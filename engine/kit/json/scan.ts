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

/** Bounds of a JSON text. */
export interface JsonBounds {
  /** Most containers inside each other. */
  readonly depth: number;
  /** Most numbers, strings, literals, containers and keys together. */
  readonly values: number;
}

/** Where a JSON text is no JSON, or passes a bound. */
export interface JsonFault {
  readonly kind: 'structure' | 'end' | 'depth' | 'values' | 'length';
  /** Index of the byte. */
  readonly at: number;
}

/** A key on which two parsers could disagree. */
export interface AmbiguousKey {
  readonly name: string;
  /** As it is spelt; the name itself when it is there twice. */
  readonly spelling: string;
}

/** A comma at which a text can be taken apart. */
export interface Seam {
  readonly at: number;
  /** For every container that is open there, outermost first: `undefined` for an array, for an object the key it is at. */
  readonly open: readonly (string | undefined)[];
}

/** A string that is parsed by itself, a part at a time, because it is long: the bytes between its quotes. */
export interface LongString {
  readonly start: number;
  readonly end: number;
  /** Like those of a seam; it is the latest value in all of them. */
  readonly open: Seam['open'];
}

/** What may come next. */
const VALUE = 0;
const VALUE_OR_CLOSE = 1;
const KEY_OR_CLOSE = 2;
const KEY = 3;
const COLON_NEXT = 4;
const AFTER_VALUE = 5;
const NOTHING = 6;

/** What else a scan may be told. */
export interface ScanOptions {
  /** Keys that must not be ambiguous. */
  readonly names?: KeyNames | undefined;
  /** Most members whose offsets are kept. */
  readonly members_max?: number;
  /** Values after which a text can be taken apart. */
  readonly piece_values?: number;
  /** And bytes. */
  readonly piece_bytes?: number;
  /** Strings inside of members of the outermost value are noted when they have more bytes than this; none unless given. */
  readonly text_bytes?: number | undefined;
}

/** A text is taken apart after so many values, or bytes: milliseconds for a parser. */
const PIECE = { values: 16_384, bytes: 1024 * 1024 };
/** Depth of the objects in a list that is a member of the outermost object. */
const MESSAGE_DEPTH = 3;
const MEMBERS_MAX = 256;
/** Longest key and number, in bytes; no bound on strings. */
export const TOKEN_BYTES_MAX = 65_536;

/**
 * One pass over the bytes of a JSON text, in time that is linear whatever they are and in slices of any size. It is strict
 * about structure, counts depth and values, notes where the members of the outermost object are, which known keys are
 * ambiguous, and where a large text can be taken apart. What is inside strings, numbers and literals is left to the parser.
 */
export class JsonScan {
  readonly bytes: Buffer;
  fault: JsonFault | undefined;
  ambiguous: AmbiguousKey | undefined;
  values = 0;
  readonly seams: Seam[] = [];
  readonly long_strings: LongString[] = [];
  /** The bytes between the quotes of strings with more than `text_bytes`. */
  readonly texts: ByteRange[] = [];
  /** Four numbers for each of the first members of the outermost object: inside of the key, value; from and up to. */
  readonly offsets: number[] = [];
  /** Whether there are more members than offsets. */
  more_members = false;
  readonly #names: KeyNames | undefined;
  readonly #bounds: JsonBounds;
  readonly #members_max: number;
  #at = 0;
  #next = VALUE;
  #root_is_object = false;
  readonly #piece_values: number;
  #seam_values: number;
  readonly #piece_bytes: number;
  readonly #text_bytes: number;
  #seam_bytes: number;
  /** For every open container its kind: the index of the quote of its current key, or -1 for an array. */
  readonly #open: number[] = [];
  /** For open containers the key that was read for the latest seam: seams share them, for there may be many long ones. */
  readonly #read_keys: { readonly quote: number; readonly key: string }[] = [];
  /** Known keys seen in the open objects, and for each of these where its own begin. */
  readonly #seen: KnownKey[] = [];
  readonly #seen_from: number[] = [];
  /** Depth of the object whose current member is somebody's data; 0 outside. */
  #data_depth = 0;
  /** Whether the current member of the outermost object is the prompt. */
  #in_prompt = false;

  constructor(bytes: Buffer, bounds: JsonBounds, options: ScanOptions = {}) {
    const { names, members_max = MEMBERS_MAX, piece_values = PIECE.values, piece_bytes = PIECE.bytes } = options;
    this.#members_max = members_max;
    this.#piece_values = piece_values;
    this.#piece_bytes = piece_bytes;
    this.#text_bytes = options.text_bytes ?? Infinity;
    this.#seam_values = piece_values;
    this.#seam_bytes = piece_bytes;
    this.bytes = bytes;
    this.#bounds = bounds;
    this.#names = names;
  }

  /** Scans on, for about so many bytes. Returns whether it is done, `fault` or not. */
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
          next = COLON_NEXT;
        } else if (next === VALUE || next === VALUE_OR_CLOSE) {
          const start = i;
          i = stringEnd(bytes, i) + 1;
          if (i > bytes.length) break;
          if (i - start > this.#text_bytes && open.length > 1) this.texts.push({ start: start + 1, end: i - 1 });
          if (i - start > this.#piece_bytes) this.#longString(start + 1, i - 1);
          next = this.#valueEnds(start, i);
        } else return this.#fails('structure', i);
        if (++values > values_max) return this.#fails('values', i);
      } else if (byte === COMMA) {
        if (next !== AFTER_VALUE) return this.#fails('structure', i);
        if (values > this.#seam_values || i > this.#seam_bytes) this.#seam(i, values);
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

  /** Whether the text is an object; known from its first byte on. */
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

  /** Notes where the value of a member of the outermost object begins. */
  #valueBegins(depth: number, at: number): void {
    if (depth === 1 && this.#root_is_object && !this.more_members) this.offsets.push(at);
  }

  /** Notes where it ends; `start` is where it began, or -1 for a container, which was noted before. */
  #valueEnds(start: number, end: number): number {
    const depth = this.#open.length;
    if (depth === 0) return NOTHING;
    if (depth === 1 && this.#root_is_object && !this.more_members) {
      if (start >= 0) this.offsets.push(start, end);
      else this.offsets.push(end);
    }
    return AFTER_VALUE;
  }

  /** Reads the key that begins at a quote. Returns the index behind it. */
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
    this.#open[depth - 1] = quote;
    if (depth === 1) {
      if (this.offsets.length < 4 * this.#members_max) this.offsets.push(quote + 1, close);
      else this.more_members = true;
    }
    if (this.#names !== undefined && this.ambiguous === undefined) {
      if (depth <= this.#data_depth) this.#data_depth = 0;
      if (depth === 1) this.#in_prompt = false;
      if (this.#data_depth === 0) this.#judge(this.#names, quote + 1, close, is_plain ? hash : undefined);
    }
    return close + 1;
  }

  #judge(names: KeyNames, start: number, end: number, hash: number | undefined): void {
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
    const held = depth === 1 ? holds?.top : holds?.below;
    if (held === 'data') this.#data_depth = depth;
    else if (held === 'prompt') this.#in_prompt = true;
  }

  /** The containers that are open, for a seam. */
  #path(): Seam['open'] {
    return this.#open.map((quote, level) => {
      if (quote < 0) return undefined;
      const read = this.#read_keys[level];
      if (read?.quote === quote) return read.key;
      const key = keyText(this.bytes, quote + 1, stringEnd(this.bytes, quote)) ?? '';
      this.#read_keys[level] = { quote, key };
      return key;
    });
  }

  #longString(start: number, end: number): void {
    // Any comma behind it is a seam, because of the bytes before.
    if (this.#open.length > 0) this.long_strings.push({ start, end, open: this.#path() });
  }

  #seam(at: number, values: number): void {
    this.#seam_values = values + this.#piece_values;
    this.#seam_bytes = at + this.#piece_bytes;
    this.seams.push({ at, open: this.#path() });
  }
}
