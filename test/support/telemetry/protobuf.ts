/**
 * Reads protobuf by the wire format alone, so that the check shares no code with the encoder.
 * @see https://protobuf.dev/programming-guides/encoding/
 */

const VARINT = 0;
const FIXED_64 = 1;
const LENGTH = 2;
const FIXED_32 = 5;

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

  bytes(): Buffer {
    return this.take(Number(this.varint()));
  }
}

const scalar = (wire: number, read: (reader: Reader) => unknown) => ({ wire, read });

/** How a field is written. Whole numbers of 64 bits become text, as in JSON; `id` is bytes shown as hexadecimal digits. */
const SCALARS = {
  string: scalar(LENGTH, (reader) => new TextDecoder('utf-8', { fatal: true }).decode(reader.bytes())),
  id: scalar(LENGTH, (reader) => reader.bytes().toString('hex')),
  bytes: scalar(LENGTH, (reader) => reader.bytes().toString('base64')),
  bool: scalar(VARINT, (reader) => reader.varint() !== 0n),
  varint: scalar(VARINT, (reader) => Number(reader.varint())),
  int64: scalar(VARINT, (reader) => String(BigInt.asIntN(64, reader.varint()))),
  fixed32: scalar(FIXED_32, (reader) => reader.take(4).readUInt32LE()),
  fixed64: scalar(FIXED_64, (reader) => String(reader.take(8).readBigUInt64LE())),
  sfixed64: scalar(FIXED_64, (reader) => String(reader.take(8).readBigInt64LE())),
  double: scalar(FIXED_64, (reader) => reader.take(8).readDoubleLE()),
};

export type Scalar = keyof typeof SCALARS;

/** A field: its name in JSON, how it is written, and whether there may be many. */
export interface Field {
  readonly name: string;
  readonly type: Scalar | (() => Message);
  readonly many?: boolean;
}

export type Message = Readonly<Record<number, Field>>;

function readField(reader: Reader, { name, type, many }: Field, wire: number): unknown[] {
  if (typeof type === 'function') {
    if (wire !== LENGTH) throw new Error(`${name} has wire type ${wire}`);
    return [readMessage(reader.bytes(), type())];
  }
  const { wire: expected, read } = SCALARS[type];
  if (wire === expected) return [read(reader)];
  if (wire !== LENGTH || !many) throw new Error(`${name} has wire type ${wire}`);
  const packed = new Reader(reader.bytes());
  const values: unknown[] = [];
  while (!packed.over) values.push(read(packed));
  return values;
}

/** Reads a message as in JSON. Raises Error for other bytes, and for an unknown field. */
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
