/**
 * Reads exports in protobuf by the wire format alone, so that the check shares no code with the encoder.
 * @see https://protobuf.dev/programming-guides/encoding/
 */

/**
 * The messages of OTLP (opentelemetry-proto v1), one a line: number, name and type of each field; a star is for many.
 * @see https://github.com/open-telemetry/opentelemetry-proto
 */
const MESSAGES = `
KeyValue: 1 key string, 2 value AnyValue
AnyValue: 1 stringValue string, 2 boolValue bool, 3 intValue int64, 4 doubleValue double, 5 arrayValue ArrayValue
AnyValue: 6 kvlistValue KeyValueList, 7 bytesValue bytes
ArrayValue: 1 values AnyValue*
KeyValueList: 1 values KeyValue*
Resource: 1 attributes KeyValue*, 2 droppedAttributesCount varint
Scope: 1 name string, 2 version string, 3 attributes KeyValue*, 4 droppedAttributesCount varint
Span: 1 traceId id, 2 spanId id, 3 traceState string, 4 parentSpanId id, 5 name string, 6 kind varint
Span: 7 startTimeUnixNano fixed64, 8 endTimeUnixNano fixed64, 9 attributes KeyValue*, 10 droppedAttributesCount varint
Span: 11 events Event*, 12 droppedEventsCount varint, 13 links Link*, 14 droppedLinksCount varint, 15 status Status
Span: 16 flags fixed32
Event: 1 timeUnixNano fixed64, 2 name string, 3 attributes KeyValue*, 4 droppedAttributesCount varint
Link: 1 traceId id, 2 spanId id, 3 traceState string, 4 attributes KeyValue*, 5 droppedAttributesCount varint
Link: 6 flags fixed32
Status: 2 message string, 3 code varint
Metric: 1 name string, 2 description string, 3 unit string, 5 gauge Gauge, 7 sum Sum, 9 histogram Histogram
Gauge: 1 dataPoints NumberPoint*
Sum: 1 dataPoints NumberPoint*, 2 aggregationTemporality varint, 3 isMonotonic bool
Histogram: 1 dataPoints HistogramPoint*, 2 aggregationTemporality varint
NumberPoint: 2 startTimeUnixNano fixed64, 3 timeUnixNano fixed64, 4 asDouble double, 6 asInt sfixed64
NumberPoint: 7 attributes KeyValue*, 8 flags varint
HistogramPoint: 2 startTimeUnixNano fixed64, 3 timeUnixNano fixed64, 4 count fixed64, 5 sum double
HistogramPoint: 6 bucketCounts fixed64*, 7 explicitBounds double*, 9 attributes KeyValue*, 10 flags varint
HistogramPoint: 11 min double, 12 max double
LogRecord: 1 timeUnixNano fixed64, 2 severityNumber varint, 3 severityText string, 5 body AnyValue
LogRecord: 6 attributes KeyValue*, 7 droppedAttributesCount varint, 8 flags fixed32, 9 traceId id, 10 spanId id
LogRecord: 11 observedTimeUnixNano fixed64, 12 eventName string
ScopeSpans: 1 scope Scope, 2 spans Span*, 3 schemaUrl string
ScopeMetrics: 1 scope Scope, 2 metrics Metric*, 3 schemaUrl string
ScopeLogs: 1 scope Scope, 2 logRecords LogRecord*, 3 schemaUrl string
ResourceSpans: 1 resource Resource, 2 scopeSpans ScopeSpans*, 3 schemaUrl string
ResourceMetrics: 1 resource Resource, 2 scopeMetrics ScopeMetrics*, 3 schemaUrl string
ResourceLogs: 1 resource Resource, 2 scopeLogs ScopeLogs*, 3 schemaUrl string
traces: 1 resourceSpans ResourceSpans*
metrics: 1 resourceMetrics ResourceMetrics*
logs: 1 resourceLogs ResourceLogs*`;

/** Kinds of telemetry, as in the paths of OTLP over HTTP. */
export type Signal = 'traces' | 'metrics' | 'logs';

/** A field: its name in JSON, how it is written, and whether there may be many. */
interface Field {
  readonly name: string;
  readonly type: string;
  readonly many: boolean;
}

const messages: Record<string, Record<number, Field>> = {};
for (const line of MESSAGES.trim().split('\n')) {
  const [message = '', fields = ''] = line.split(': ');
  messages[message] ??= {};
  for (const field of fields.split(', ')) {
    const [number, name = '', type = ''] = field.replace('*', '').split(' ');
    messages[message][Number(number)] = { name, type, many: field.endsWith('*') };
  }
}

/** Bytes that are read once, from the first to the last. */
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

  take(length = Number(this.varint())): Buffer {
    if (this.#at + length > this.#bytes.length) throw new Error(`cut short at byte ${this.#bytes.length}`);
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}

const [VARINT, FIXED_64, LENGTH, FIXED_32] = [0, 1, 2, 5];

/** The wire type of a scalar and its value. Whole numbers of 64 bits become text, as in JSON; `id` is bytes shown as hexadecimal digits. */
const SCALARS: Readonly<Record<string, readonly [wire: number | undefined, read: (from: Reader) => unknown]>> = {
  string: [LENGTH, (from) => new TextDecoder('utf-8', { fatal: true }).decode(from.take())],
  id: [LENGTH, (from) => from.take().toString('hex')],
  bytes: [LENGTH, (from) => from.take().toString('base64')],
  bool: [VARINT, (from) => from.varint() !== 0n],
  varint: [VARINT, (from) => Number(from.varint())],
  int64: [VARINT, (from) => String(BigInt.asIntN(64, from.varint()))],
  fixed32: [FIXED_32, (from) => from.take(4).readUInt32LE()],
  fixed64: [FIXED_64, (from) => String(from.take(8).readBigUInt64LE())],
  sfixed64: [FIXED_64, (from) => String(from.take(8).readBigInt64LE())],
  double: [FIXED_64, (from) => from.take(8).readDoubleLE()],
};

function readField(reader: Reader, { name, type, many }: Field, wire: number): unknown[] {
  const [expected, read] = SCALARS[type] ?? [LENGTH, (from: Reader) => readMessage(from.take(), type)];
  if (wire === expected) return [read(reader)];
  if (wire !== LENGTH || !many) throw new Error(`${name} has wire type ${wire}`);
  const packed = new Reader(reader.take());
  const values: unknown[] = [];
  while (!packed.over) values.push(read(packed));
  return values;
}

/** Reads a message as in JSON. Raises Error for other bytes, and for an unknown field. */
export function readMessage(bytes: Buffer, message: string): Record<string, unknown> {
  const reader = new Reader(bytes);
  const value: Record<string, unknown> = {};
  while (!reader.over) {
    const tag = Number(reader.varint());
    const field = messages[message]![tag >>> 3];
    if (field === undefined) throw new Error(`there is no field ${tag >>> 3}, next to ${Object.keys(value)}`);
    const read = readField(reader, field, tag & 7);
    if (!field.many) value[field.name] = read.at(-1);
    else value[field.name] = [...((value[field.name] as unknown[]) ?? []), ...read];
  }
  return value;
}
