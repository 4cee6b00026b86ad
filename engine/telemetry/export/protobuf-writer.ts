import type { AttributeValue } from '../spans.ts';

/** More than a message needs whose length is one byte. */
const SHORT_ROOM = 160;
const TWO_POWER_32 = 0x1_0000_0000;

/** Wire types of protobuf. */
const [VARINT, FIXED64, BYTES, FIXED32] = [0, 1, 2, 5] as const;

/** Names as `KeyValue.key` fields; names of attributes are few, and always the same. */
const keys = new Map<string, Buffer>();
const KEYS_MAX = 2000;

function keyOf(name: string): Buffer {
  const known = keys.get(name);
  if (known !== undefined) return known;
  const writer = new ProtobufWriter(name.length * 3 + 8);
  writer.text(1, name);
  const key = Buffer.from(writer.finish());
  if (keys.size < KEYS_MAX) keys.set(name, key);
  return key;
}

/** Whether a number is written as one that is whole; below 0 it would take ten bytes. */
function isWhole(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size++;
  return size;
}

/**
 * Writes the parts of protobuf that OTLP's spans are made of, in one go over one buffer. Fields have numbers up to 15, or 16 for
 * the flags of a span.
 */
export class ProtobufWriter {
  #bytes: Buffer;
  #at = 0;

  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafe(Math.max(size, SHORT_ROOM));
  }

  /** What was written. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  /** Begins a message within this one. @returns what ends it */
  begin(field: number): number {
    this.#need(8);
    this.#bytes[this.#at] = (field << 3) | BYTES;
    this.#at += 3;
    return this.#at;
  }

  /** Ends a message; most have a length of two bytes, which was left free. */
  end(begun: number): void {
    const length = this.#at - begun;
    const size = varintSize(length);
    if (size !== 2) {
      this.#need(8);
      this.#bytes.copyWithin(begun - 2 + size, begun, this.#at);
      this.#at += size - 2;
    }
    let at = begun - 2;
    let rest = length;
    while (rest > 127) {
      this.#bytes[at++] = (rest & 127) | 128;
      rest >>>= 7;
    }
    this.#bytes[at] = rest;
  }

  text(field: number, text: string): void {
    const length = Buffer.byteLength(text);
    this.#need(length + 12);
    this.#bytes[this.#at++] = (field << 3) | BYTES;
    this.#varint(length);
    this.#at += this.#bytes.write(text, this.#at, 'utf8');
  }

  /** Bytes given in hexadecimal digits. */
  hex(field: number, digits: string): void {
    this.#need(digits.length / 2 + 12);
    this.#bytes[this.#at++] = (field << 3) | BYTES;
    this.#varint(digits.length / 2);
    this.#at += this.#bytes.write(digits, this.#at, 'hex');
  }

  number(field: number, value: number): void {
    this.#need(16);
    this.#bytes[this.#at++] = (field << 3) | VARINT;
    this.#varint(value);
  }

  /** Milliseconds since the epoch as nanoseconds, to the microsecond that a double can tell. */
  time(field: number, milliseconds: number): void {
    this.#need(16);
    const whole = Math.floor(milliseconds);
    const nanoseconds = Math.round((milliseconds - whole) * 1000) * 1000;
    // More than 2 ** 53, so it is put together from two halves.
    const high_part = Math.floor(whole / 65_536) * 1e6;
    const low = (high_part % 65_536) * 65_536 + (whole % 65_536) * 1e6 + nanoseconds;
    this.#bytes[this.#at++] = (field << 3) | FIXED64;
    this.#at = this.#bytes.writeUInt32LE(low % TWO_POWER_32, this.#at);
    const high = Math.floor(high_part / 65_536) + Math.floor(low / TWO_POWER_32);
    this.#at = this.#bytes.writeUInt32LE(high, this.#at);
  }

  /** A field of 32 bits whose number needs two bytes. */
  flags(field: number, value: number): void {
    this.#need(16);
    this.#varint((field << 3) | FIXED32);
    this.#at = this.#bytes.writeUInt32LE(value, this.#at);
  }

  /** A `KeyValue`. @param as_double whether a number is one with fractions, even where it has none now */
  attribute(field: number, name: string, value: AttributeValue, as_double: boolean): void {
    const key = keyOf(name);
    if (
      typeof value === 'string' ? this.#shortText(field, key, value) : this.#shortNumber(field, key, value, as_double)
    )
      return;
    const begun = this.begin(field);
    this.#need(key.length);
    this.#at += key.copy(this.#bytes, this.#at);
    const any = this.begin(2);
    this.#any(value, as_double);
    this.end(any);
    this.end(begun);
  }

  /** Most attributes are short texts of ASCII, and need no second look at their lengths. */
  #shortText(field: number, key: Buffer, value: string): boolean {
    const { length } = value;
    const all = key.length + length + 4;
    if (all > 127) return false;
    const begun = this.#at;
    this.#shortHead(field, key, length + 2);
    const bytes = this.#bytes;
    let at = this.#at;
    this.#at = begun;
    bytes[at++] = (1 << 3) | BYTES;
    bytes[at++] = length;
    for (let i = 0; i < length; i++) {
      const code = value.charCodeAt(i);
      if (code > 127) return false;
      bytes[at++] = code;
    }
    this.#at = at;
    return true;
  }

  #shortNumber(field: number, key: Buffer, value: Exclude<AttributeValue, string>, as_double: boolean): boolean {
    if (typeof value === 'object') return false;
    const number = typeof value === 'number' ? value : Number(value);
    const size = isWhole(number) && !as_double ? 1 + varintSize(number) : 9;
    if (key.length + size + 2 > 127) return false;
    this.#shortHead(field, key, size);
    this.#any(value, as_double);
    return true;
  }

  /** A `KeyValue` up to its value, which takes `size` bytes, where both lengths are one byte. */
  #shortHead(field: number, key: Buffer, size: number): void {
    this.#need(SHORT_ROOM);
    const bytes = this.#bytes;
    let at = this.#at;
    bytes[at++] = (field << 3) | BYTES;
    bytes[at++] = key.length + 2 + size;
    for (let i = 0; i < key.length; i++) bytes[at++] = key[i]!;
    bytes[at++] = (2 << 3) | BYTES;
    bytes[at++] = size;
    this.#at = at;
  }

  /** The field of an `AnyValue` for a value. */
  #any(value: AttributeValue, as_double: boolean): void {
    if (typeof value === 'string') this.text(1, value);
    else if (typeof value === 'boolean') this.number(2, value ? 1 : 0);
    else if (typeof value === 'number') this.#anyNumber(value, as_double);
    else {
      const list = this.begin(5);
      for (const item of value) {
        const any = this.begin(1);
        this.text(1, item);
        this.end(any);
      }
      this.end(list);
    }
  }

  #anyNumber(value: number, as_double: boolean): void {
    if (isWhole(value) && !as_double) {
      this.number(3, value);
      return;
    }
    this.#need(16);
    this.#bytes[this.#at++] = (4 << 3) | FIXED64;
    this.#at = this.#bytes.writeDoubleLE(value, this.#at);
  }

  #varint(value: number): void {
    let rest = value;
    while (rest > 127) {
      this.#bytes[this.#at++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#at++] = rest;
  }

  #need(room: number): void {
    if (this.#at + room <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + room));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}
