import protobuf, { type Type } from 'protobufjs/light.js';
import { StageError } from '../../../contract/errors.ts';
import { JsonScan } from '../../../kit/json/scan.ts';
import { checkBounds, VALUES_MAX } from './bounds.ts';
import { OTLP } from './descriptors.ts';
import { type Encoding, type Message, SHAPES, type Signal } from './messages.ts';

const root = protobuf.Root.fromJSON(OTLP).resolveAll();
const RPC_STATUS = root.lookupType('RpcStatus');

/** Identifiers that OTLP's JSON has in hexadecimal digits and not, as other bytes, in Base64; in bytes. */
const IDENTIFIERS: Readonly<Record<string, number>> = { traceId: 16, spanId: 8, parentSpanId: 8 };
const JSON_DEPTH_MAX = 128;
/** Every key is one of them, so that JSON has twice as many as the same in protobuf. */
const JSON_VALUES_MAX = 2 * VALUES_MAX;

/**
 * An export request of OTLP. Members that OTLP 1.x does not have are left out. Raises invalid_request where the bytes are
 * none, or are made of too many values.
 */
export function decodeRequest(signal: Signal, encoding: Encoding, bytes: Buffer): Message {
  const type = root.lookupType(SHAPES[signal].request);
  try {
    if (encoding === 'json') return type.fromObject(parseJson(type, bytes)) as unknown as Message;
    checkBounds(type, protobuf.Reader.create(bytes));
    return type.decode(bytes) as unknown as Message;
  } catch (error) {
    if (error instanceof StageError) throw error;
    throw unreadable(signal, encoding, error);
  }
}

/** The bytes of an export request, in protobuf. Those of several requests after one another are one request. */
export function encodeRequest(signal: Signal, request: Message): Buffer {
  return Buffer.from(root.lookupType(SHAPES[signal].request).encode(request).finish());
}

/** How many items a destination says it did not take, by its answer in protobuf; none where that can't be read. */
export function rejectedItems(signal: Signal, bytes: Buffer): number {
  try {
    const type = root.lookupType(SHAPES[signal].response);
    checkBounds(type, protobuf.Reader.create(bytes));
    const { partialSuccess } = type.decode(bytes) as unknown as {
      readonly partialSuccess?: { readonly rejected?: unknown };
    };
    return Number(partialSuccess?.rejected ?? 0);
  } catch {
    return 0;
  }
}

/** The body of an answer that everything was taken: an export response without members. */
export function successBody(encoding: Encoding): Buffer {
  return encoding === 'json' ? Buffer.from('{}') : Buffer.alloc(0);
}

/** The body of an answer that everything was taken, with a word about it for people: a partial success that refuses nothing. */
export function warningBody(signal: Signal, encoding: Encoding, message: string): Buffer {
  if (encoding === 'json') return Buffer.from(JSON.stringify({ partialSuccess: { errorMessage: message } }));
  const type = root.lookupType(SHAPES[signal].response);
  return Buffer.from(type.encode({ partialSuccess: { errorMessage: message } }).finish());
}

/** The body of an answer that is an error: `google.rpc.Status`, as OTLP/HTTP wants it. */
export function statusBody(encoding: Encoding, code: number, message: string): Buffer {
  if (encoding === 'json') return Buffer.from(JSON.stringify({ code, message }));
  return Buffer.from(RPC_STATUS.encode({ code, message }).finish());
}

function unreadable(signal: Signal, encoding: Encoding, error: unknown): StageError {
  const why = error instanceof RangeError && /^more than/.test(error.message) ? `: it has ${error.message}` : '';
  return new StageError(
    'invalid_request',
    `The body is not an OTLP export request for ${signal} in ${encoding === 'json' ? 'JSON' : 'protobuf'}${why}.`,
    { cause: error },
  );
}

/** JSON can name halves of characters, which protobuf cannot have: a collector would refuse all that it came with. */
const SURROGATE = /\\u[dD][89a-fA-F]/;
const wellFormed = (_: string, value: unknown) => (typeof value === 'string' ? value.toWellFormed() : value);

function parseJson(type: Type, bytes: Buffer): object {
  const scan = new JsonScan(bytes, { depth: JSON_DEPTH_MAX, values: JSON_VALUES_MAX });
  scan.step(Infinity);
  const kind = scan.fault?.kind;
  if (kind === 'structure' || kind === 'end') throw new SyntaxError('not JSON');
  if (kind !== undefined) throw new RangeError(`more than ${JSON_VALUES_MAX} values or ${JSON_DEPTH_MAX} levels`);
  const text = bytes.toString('utf8');
  const parsed: unknown = SURROGATE.test(text) ? JSON.parse(text, wellFormed) : JSON.parse(text);
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw new SyntaxError('not an object');
  convertIdentifiers(type, parsed as Record<string, unknown>);
  return parsed;
}

/** Replaces identifiers in a parsed message, at any depth, by their bytes; one that is none by no bytes. */
function convertIdentifiers(type: Type, message: Record<string, unknown>): void {
  for (const field of type.fieldsArray) {
    if (!Object.hasOwn(message, field.name)) continue;
    const value = message[field.name];
    const bytes = IDENTIFIERS[field.name];
    if (bytes !== undefined) message[field.name] = identifierBytes(value, bytes);
    else if (field.resolvedType instanceof protobuf.Type) {
      for (const one of [value].flat()) {
        if (typeof one === 'object' && one !== null) {
          convertIdentifiers(field.resolvedType, one as Record<string, unknown>);
        }
      }
    }
  }
}

function identifierBytes(value: unknown, bytes: number): Buffer {
  const is_one = typeof value === 'string' && value.length === 2 * bytes && /^[0-9a-f]*$/i.test(value);
  return is_one ? Buffer.from(value, 'hex') : Buffer.alloc(0);
}
