import protobuf, { type Field, type Reader, type Type } from 'protobufjs/light.js';

/** Most messages and numbers that one request may be made of: some ten milliseconds, and some ten MiB of memory. */
export const VALUES_MAX = 300_000;
/** As deep as the decoder goes. */
const DEPTH_MAX = 100;

const LENGTH_DELIMITED = 2;
const FIXED_BYTES: Readonly<Record<string, number>> = { double: 8, fixed64: 8, sfixed64: 8, float: 4, fixed32: 4 };

/**
 * Looks through an encoded message before anything is built from it: two bytes may stand for an object of a hundred. Raises
 * RangeError for more than `VALUES_MAX` values or 100 levels, Error for what is no encoding of the type.
 */
export function checkBounds(type: Type, reader: Reader): void {
  const left = { values: VALUES_MAX };
  look(type, reader, { end: reader.len, depth: 0 }, left);
}

function look(
  type: Type,
  reader: Reader,
  { end, depth }: { readonly end: number; readonly depth: number },
  left: { values: number },
): void {
  if (depth > DEPTH_MAX) throw new RangeError(`more than ${DEPTH_MAX} levels`);
  while (reader.pos < end) {
    const tag = reader.uint32();
    const field = type.fieldsById[tag >>> 3];
    const wire = tag & 7;
    if (field === undefined || wire !== LENGTH_DELIMITED) {
      if (tag >>> 3 === 0) throw new RangeError('a field has the number 0');
      left.values--;
      reader.skipType(wire);
    } else {
      const length = reader.uint32();
      const stop = reader.pos + length;
      if (stop > end) throw new RangeError('a length is beyond its message');
      left.values -= valuesIn(field, length);
      if (field.resolvedType instanceof protobuf.Type)
        look(field.resolvedType, reader, { end: stop, depth: depth + 1 }, left);
      reader.pos = stop;
    }
    if (left.values < 0) throw new RangeError(`more than ${VALUES_MAX} values`);
  }
  if (reader.pos > end) throw new RangeError('a field is beyond its message');
}

/** Numbers of a repeated field may be packed. */
function valuesIn({ repeated, resolvedType, type }: Field, length: number): number {
  if (!repeated || resolvedType instanceof protobuf.Type || type === 'string' || type === 'bytes') return 1;
  return length / (FIXED_BYTES[type] ?? 1);
}
