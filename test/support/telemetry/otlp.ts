/** OTLP exports, of protobuf or JSON, in the form tests need: spans, points of metrics, log records. */
import { EXPORTS, type Signal } from './otlp-messages.ts';
import { readMessage } from './protobuf.ts';

/** Values of attributes; whole numbers are numbers. */
export type Value = string | number | boolean | readonly Value[] | Readonly<{ [name: string]: Value }> | undefined;
type Attributes = Readonly<Record<string, Value>>;

export interface Origin {
  readonly resource: Attributes;
  readonly scope: { readonly name: string; readonly version: string; readonly schema_url: string };
}

/** A span as it arrived; times in milliseconds since the epoch, identifiers in hexadecimal digits. */
export interface ReceivedSpan extends Origin {
  readonly name: string;
  readonly kind: 'unspecified' | 'internal' | 'server' | 'client' | 'producer' | 'consumer';
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_span_id: string | undefined;
  readonly trace_state: string;
  readonly began_at: number;
  readonly ended_at: number;
  readonly status: 'unset' | 'ok' | 'error';
  readonly attributes: Attributes;
  readonly events: readonly { readonly name: string; readonly at: number; readonly attributes: Attributes }[];
}

export interface ReceivedPoint extends Origin {
  readonly metric: string;
  readonly kind: 'gauge' | 'sum' | 'histogram';
  readonly unit: string;
  readonly temporality: 'delta' | 'cumulative' | undefined;
  readonly monotonic: boolean;
  readonly labels: Attributes;
  /** Of a histogram the sum of its values. */
  readonly value: number;
  readonly count: number;
  readonly buckets: readonly number[];
  readonly bounds: readonly number[];
}

export interface ReceivedLog extends Origin {
  readonly severity: string;
  readonly severity_number: number;
  readonly body: Value;
  readonly at: number;
  readonly attributes: Attributes;
  readonly trace_id: string | undefined;
  readonly span_id: string | undefined;
}

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

function spanOf(origin: Origin, span: Json): ReceivedSpan {
  return {
    ...origin,
    name: span.name,
    kind: KINDS[span.kind ?? 0]!,
    trace_id: span.traceId,
    span_id: span.spanId,
    parent_span_id: span.parentSpanId || undefined,
    trace_state: span.traceState ?? '',
    began_at: millisecondsOf(span.startTimeUnixNano),
    ended_at: millisecondsOf(span.endTimeUnixNano),
    status: STATUSES[span.status?.code ?? 0]!,
    attributes: attributesOf(span.attributes),
    events: (span.events ?? []).map((event: Json) => ({
      name: event.name,
      at: millisecondsOf(event.timeUnixNano),
      attributes: attributesOf(event.attributes),
    })),
  };
}

function pointsOf(origin: Origin, metric: Json): ReceivedPoint[] {
  const kind = (['gauge', 'sum', 'histogram'] as const).find((one) => metric[one] !== undefined);
  if (kind === undefined) throw new Error(`${metric.name} has no data that is known here`);
  const data = metric[kind];
  return (data.dataPoints ?? []).map((point: Json) => ({
    ...origin,
    metric: metric.name,
    kind,
    unit: metric.unit ?? '',
    temporality: TEMPORALITIES[data.aggregationTemporality ?? 0],
    monotonic: data.isMonotonic ?? false,
    labels: attributesOf(point.attributes),
    value: Number(point.asDouble ?? point.asInt ?? point.sum ?? 0),
    count: Number(point.count ?? 0),
    buckets: (point.bucketCounts ?? []).map(Number),
    bounds: point.explicitBounds ?? [],
  }));
}

function logOf(origin: Origin, record: Json): ReceivedLog {
  return {
    ...origin,
    severity: record.severityText ?? '',
    severity_number: record.severityNumber ?? 0,
    body: readValue(record.body),
    at: millisecondsOf(record.timeUnixNano),
    attributes: attributesOf(record.attributes),
    trace_id: record.traceId || undefined,
    span_id: record.spanId || undefined,
  };
}

export interface Export {
  readonly spans: readonly ReceivedSpan[];
  readonly points: readonly ReceivedPoint[];
  readonly logs: readonly ReceivedLog[];
}

function* itemsOf(resources: Json[] = [], scopes: string, items: string): Generator<[Origin, Json]> {
  for (const resource of resources) {
    for (const scope of resource[scopes] ?? []) {
      const origin: Origin = {
        resource: attributesOf(resource.resource?.attributes),
        scope: {
          name: scope.scope?.name ?? '',
          version: scope.scope?.version ?? '',
          schema_url: scope.schemaUrl ?? '',
        },
      };
      for (const item of scope[items] ?? []) yield [origin, item];
    }
  }
}

/** Raises Error for a body that is no export. */
export function readExport(signal: Signal, body: Buffer, is_json: boolean): Export {
  const text = () => new TextDecoder('utf-8', { fatal: true }).decode(body);
  const json: Json = is_json ? JSON.parse(text()) : readMessage(body, EXPORTS[signal]);
  return {
    spans: [...itemsOf(json.resourceSpans, 'scopeSpans', 'spans')].map(([origin, span]) => spanOf(origin, span)),
    points: [...itemsOf(json.resourceMetrics, 'scopeMetrics', 'metrics')].flatMap(([origin, metric]) =>
      pointsOf(origin, metric),
    ),
    logs: [...itemsOf(json.resourceLogs, 'scopeLogs', 'logRecords')].map(([origin, record]) => logOf(origin, record)),
  };
}
