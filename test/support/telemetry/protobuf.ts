/**
 * Reads protobuf by the wire format alone, so that the check shares no code with the encoder.
 * @see https://protobuf.dev/programming-guides/encoding/
 * @module
 */

/** How a field is written. Whole numbers of 64 bits become text, as in JSON; `id` is bytes shown as hexadecimal digits. */
export type Scalar =
  | 'string'
  | 'id'
  | 'bytes'
  | 'bool'
  | 'varint'
  | 'int64'
  | 'fixed32'
  | 'fixed64'
  | 'sfixed64'
  | 'double';

/** A field: its name in JSON, how it is written, and whether there may be many. */
export interface Field {
  readonly name: string;
  readonly type: Scalar | (() => Message);
  readonly many?: boolean;
}

/** The fields of a message by number. */
export type Message = Readonly<Record<number, Field>>;

const VARINT = 0;
const FIXED_64 = 1;
const LENGTH = 2;
const FIXED_32 = 5;

const WIRE: Readonly<Record<Scalar, number>> = {
  string: LENGTH,
  id: LENGTH,
  bytes: LENGTH,
  bool: VARINT,
  varint: VARINT,
  int64: VARINT,
  fixed32: FIXED_32,
  fixed64: FIXED_64,
  sfixed64: FIXED_64,
  double: FIXED_64,
};

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get over(): boolean {
    return this.#at === this.#bytes.length;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.take(1)[0]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new Error('a number of more than ten bytes');
  }

  take(length: number): Buffer {
    if (this.#at + length > this.#bytes.length) throw new Error(`cut short at byte ${this.#bytes.length}`);
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  scalar(type: Scalar): unknown {
    switch (type) {
      case 'bool':
        return this.varint() !== 0n;
      case 'varint':
        return Number(this.varint());
      case 'int64':
        return String(BigInt.asIntN(64, this.varint()));
      case 'fixed32':
        return this.take(4).readUInt32LE();
      case 'fixed64':
        return String(this.take(8).readBigUInt64LE());
      case 'sfixed64':
        return String(this.take(8).readBigInt64LE());
      case 'double':
        return this.take(8).readDoubleLE();
      default: {
        const bytes = this.take(Number(this.varint()));
        if (type === 'id') return bytes.toString('hex');
        if (type === 'bytes') return bytes.toString('base64');
        return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      }
    }
  }
}

function readField(reader: Reader, { name, type, many }: Field, wire: number): unknown[] {
  if (typeof type === 'function') {
    if (wire !== LENGTH) throw new Error(`${name} has wire type ${wire}`);
    return [readMessage(reader.take(Number(reader.varint())), type())];
  }
  if (wire === WIRE[type]) return [reader.scalar(type)];
  if (wire !== LENGTH || !many) throw new Error(`${name} has wire type ${wire}`);
  const packed = new Reader(reader.take(Number(reader.varint())));
  const values: unknown[] = [];
  while (!packed.over) values.push(packed.scalar(type));
  return values;
}

/**
 * Reads a message into the shape that it has in JSON.
 * @throws Error for bytes that are no such message, and for an unknown field.
 */
export function readMessage(bytes: Buffer, message: Message): Record<string, unknown> {
  const reader = new Reader(bytes);
  const value: Record<string, unknown> = {};
  while (!reader.over) {
    const tag = Number(reader.varint());
    const field = message[tag >>> 3];
    if (field === undefined) throw new Error(`there is no field ${tag >>> 3}, next to ${Object.keys(value)}`);
    const read = readField(reader, field, tag & 7);
    if (!field.many) value[field.name] = read.at(-1);
    else value[field.name] = [...((value[field.name] as unknown[]) ?? []), ...read];
  }
  return value;
}
