/** OTLP exports, of protobuf or JSON, in the form tests need: spans, points of metrics, log records. */
import { readMessage, type Signal } from './protobuf.ts';

/** Values of attributes; whole numbers are numbers. */
export type Value = string | number | boolean | readonly Value[] | Readonly<{ [name: string]: Value }> | undefined;
type Attributes = Readonly<Record<string, Value>>;

/** A span as it arrived; times in milliseconds since the epoch, identifiers in hexadecimal digits. */
export type ReceivedSpan = Readonly<ReturnType<typeof spanOf>>;
/** Of a histogram, `value` is the sum of its values. */
export type ReceivedPoint = Readonly<ReturnType<typeof pointsOf>[number]>;
export type ReceivedLog = Readonly<ReturnType<typeof logOf>>;
type Origin = ReturnType<typeof originOf>;

// biome-ignore lint/suspicious/noExplicitAny: of the shape that the readers below say
type Json = any;

const KINDS = ['unspecified', 'internal', 'server', 'client', 'producer', 'consumer'] as const;
const STATUSES = ['unset', 'ok', 'error'] as const;
const TEMPORALITIES = [undefined, 'delta', 'cumulative'] as const;

function readValue(value: Json = {}): Value {
  if (value.intValue !== undefined) return Number(value.intValue);
  if (value.arrayValue !== undefined) return (value.arrayValue.values ?? []).map(readValue);
  if (value.kvlistValue !== undefined) return attributesOf(value.kvlistValue.values);
  return value.stringValue ?? value.boolValue ?? value.doubleValue ?? value.bytesValue;
}

function attributesOf(list: Json[] = []): Attributes {
  const names = list.map(({ key }) => key);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new Error(`the attribute ${twice} is there twice`);
  return Object.fromEntries(list.map(({ key, value }) => [key, readValue(value)]));
}

function millisecondsOf(nanoseconds: string | number = 0): number {
  const whole = BigInt(nanoseconds);
  return Number(whole / 1_000_000n) + Number(whole % 1_000_000n) / 1e6;
}

const textOf = (value: Json): string => value ?? '';
const listOf = (value: Json): Json[] => value ?? [];

function spanOf(origin: Origin, span: Json) {
  return {
    ...origin,
    name: textOf(span.name),
    kind: KINDS[span.kind ?? 0]!,
    trace_id: textOf(span.traceId),
    span_id: textOf(span.spanId),
    parent_span_id: textOf(span.parentSpanId) || undefined,
    trace_state: textOf(span.traceState),
    began_at: millisecondsOf(span.startTimeUnixNano),
    ended_at: millisecondsOf(span.endTimeUnixNano),
    status: STATUSES[span.status?.code ?? 0]!,
    attributes: attributesOf(span.attributes),
    events: listOf(span.events).map((event) => ({
      name: textOf(event.name),
      at: millisecondsOf(event.timeUnixNano),
      attributes: attributesOf(event.attributes),
    })),
  };
}

function pointsOf(origin: Origin, metric: Json) {
  const kind = (['gauge', 'sum', 'histogram'] as const).find((one) => metric[one] !== undefined);
  if (kind === undefined) throw new Error(`${metric.name} has no data that is known here`);
  const data = metric[kind];
  return listOf(data.dataPoints).map((point) => ({
    ...origin,
    metric: textOf(metric.name),
    kind,
    unit: textOf(metric.unit),
    temporality: TEMPORALITIES[data.aggregationTemporality ?? 0],
    monotonic: Boolean(data.isMonotonic),
    labels: attributesOf(point.attributes),
    value: Number(point.asDouble ?? point.asInt ?? point.sum ?? 0),
    count: Number(point.count ?? 0),
    buckets: listOf(point.bucketCounts).map(Number),
    bounds: listOf(point.explicitBounds).map(Number),
  }));
}

function logOf(origin: Origin, record: Json) {
  return {
    ...origin,
    severity: textOf(record.severityText),
    severity_number: Number(record.severityNumber ?? 0),
    body: readValue(record.body),
    at: millisecondsOf(record.timeUnixNano),
    attributes: attributesOf(record.attributes),
    trace_id: textOf(record.traceId) || undefined,
    span_id: textOf(record.spanId) || undefined,
  };
}

const originOf = (resource: Json, scope: Json) => ({
  resource: attributesOf(resource.resource?.attributes),
  scope: {
    name: textOf(scope.scope?.name),
    version: textOf(scope.scope?.version),
    schema_url: textOf(scope.schemaUrl),
  },
});

export interface Export {
  readonly spans: readonly ReceivedSpan[];
  readonly points: readonly ReceivedPoint[];
  readonly logs: readonly ReceivedLog[];
}

function itemsOf(resources: Json, scopes: string, items: string): (readonly [Origin, Json])[] {
  return listOf(resources).flatMap((resource) =>
    listOf(resource[scopes]).flatMap((scope) =>
      listOf(scope[items]).map((item) => [originOf(resource, scope), item] as const),
    ),
  );
}

/** Raises Error for a body that is no export. */
export function readExport(signal: Signal, body: Buffer, is_json: boolean): Export {
  const text = () => new TextDecoder('utf-8', { fatal: true }).decode(body);
  const json: Json = is_json ? JSON.parse(text()) : readMessage(body, signal);
  const metrics = itemsOf(json.resourceMetrics, 'scopeMetrics', 'metrics');
  return {
    spans: itemsOf(json.resourceSpans, 'scopeSpans', 'spans').map((item) => spanOf(...item)),
    points: metrics.flatMap((item) => pointsOf(...item)),
    logs: itemsOf(json.resourceLogs, 'scopeLogs', 'logRecords').map((item) => logOf(...item)),
  };
}
