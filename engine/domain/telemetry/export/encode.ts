/** Encoding with the OpenTelemetry SDK; loaded at the first export. @module */

import {
  type Attributes,
  DiagLogLevel,
  diag,
  type HrTime,
  logs,
  metrics,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
  ValueType,
} from '@opentelemetry/api';
import {
  JsonLogsSerializer,
  JsonMetricsSerializer,
  JsonTraceSerializer,
  ProtobufLogsSerializer,
  ProtobufMetricsSerializer,
  ProtobufTraceSerializer,
} from '@opentelemetry/otlp-transformer';
import { emptyResource, type Resource } from '@opentelemetry/resources';
import type { ReadableLogRecord } from '@opentelemetry/sdk-logs';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type MetricData,
  type MetricProducer,
  type MetricReader,
  PeriodicExportingMetricReader,
  type ResourceMetrics,
  type ScopeMetrics,
} from '@opentelemetry/sdk-metrics';
import { NodeSDK } from '@opentelemetry/sdk-node';
import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace';
import type { Log } from '../../../base/contract/services.ts';
import type { MeasuredMetric, MetricRegistry, Series } from '../metric-registry.ts';
import type { FinishedSpan, Attributes as GivenAttributes } from '../spans.ts';
import type { ExportSettings } from './settings.ts';

export const SERIALIZERS = {
  'http/protobuf': {
    traces: ProtobufTraceSerializer,
    metrics: ProtobufMetricsSerializer,
    logs: ProtobufLogsSerializer,
  },
  'http/json': { traces: JsonTraceSerializer, metrics: JsonMetricsSerializer, logs: JsonLogsSerializer },
} as const;

export { resourceFromAttributes } from '@opentelemetry/resources';

export type Scope = ReadableSpan['instrumentationScope'];

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;

/** A span for the encoder. */
export function exportedSpan(span: FinishedSpan, resource: Resource, scope: Scope): ReadableSpan {
  const { name, kind, began_at, ended_at, parent_span_id } = span;
  const context = contextOf(span, span.span_id, false);
  return {
    name,
    kind: KINDS[kind],
    spanContext: () => context,
    ...(parent_span_id !== undefined && {
      // Attempts are within the gateway, all others below a span of a caller.
      parentSpanContext: contextOf(span, parent_span_id, kind !== 'client'),
    }),
    startTime: hrTime(began_at),
    endTime: hrTime(ended_at),
    duration: hrTime(Math.max(0, ended_at - began_at)),
    status: { code: span.failed ? SpanStatusCode.ERROR : SpanStatusCode.UNSET },
    attributes: definedOnly(span.attributes),
    events: span.events.map(({ name, at, attributes }) => ({
      name,
      time: hrTime(at),
      attributes: definedOnly(attributes),
    })),
    links: [],
    ended: true,
    resource,
    instrumentationScope: scope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function contextOf({ trace_id, trace_state }: FinishedSpan, spanId: string, isRemote: boolean): SpanContext {
  const context = { traceId: trace_id, spanId, traceFlags: TraceFlags.SAMPLED, isRemote };
  return trace_state === undefined ? context : { ...context, traceState: traceState(trace_state) };
}

/** A `tracestate` that is forwarded unchanged; the encoder never reads its members. */
function traceState(text: string): NonNullable<SpanContext['traceState']> {
  const state = { get: () => undefined, set: () => state, unset: () => state, serialize: () => text };
  return state;
}

/** Attributes without `undefined` values, which the encoder would write as empty. */
function definedOnly(attributes: GivenAttributes): Attributes {
  const defined: Record<string, Attributes[string]> = {};
  for (const name in attributes) {
    const value = attributes[name];
    if (value !== undefined) defined[name] = value as Attributes[string];
  }
  return defined;
}

/** Seconds and nanoseconds of milliseconds since the epoch, with the microsecond precision of a double. */
function hrTime(milliseconds: number): HrTime {
  const seconds = Math.floor(milliseconds / 1000);
  const nanoseconds = Math.round((milliseconds - seconds * 1000) * 1000) * 1000;
  return nanoseconds === 1_000_000_000 ? [seconds + 1, 0] : [seconds, nanoseconds];
}

const SEVERITIES: Readonly<Record<number, readonly [number, string]>> = {
  20: [5, 'DEBUG'],
  30: [9, 'INFO'],
  40: [13, 'WARN'],
  50: [17, 'ERROR'],
};
const TRACE_ID = /^[0-9a-f]{32}$/;
const SPAN_ID = /^[0-9a-f]{16}$/;

export function logRecordOf(line: string, resource: Resource, scope: Scope): ReadableLogRecord {
  const { level, time, msg, err, trace_id, span_id, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const [severityNumber, severityText] = SEVERITIES[Number(level)] ?? [0, ''];
  const at: HrTime = hrTime(Date.parse(String(time)) || 0);
  const context = spanContextOf(trace_id, span_id);
  return {
    hrTime: at,
    hrTimeObserved: at,
    severityNumber,
    severityText,
    body: String(msg),
    attributes: {
      ...fields,
      ...exceptionOf(err),
    } as ReadableLogRecord['attributes'],
    ...(context && { spanContext: context }),
    resource,
    instrumentationScope: scope,
    droppedAttributesCount: 0,
  };
}

function spanContextOf(trace_id: unknown, span_id: unknown): SpanContext | undefined {
  if (typeof trace_id !== 'string' || !TRACE_ID.test(trace_id)) return undefined;
  const spanId = typeof span_id === 'string' && SPAN_ID.test(span_id) ? span_id : '';
  return { traceId: trace_id, spanId, traceFlags: TraceFlags.NONE };
}

function exceptionOf(err: unknown): Readonly<Record<string, string>> {
  const { type, message, stack } = (err ?? {}) as Partial<Record<'type' | 'message' | 'stack', string>>;
  return {
    ...(type !== undefined && { 'exception.type': type }),
    ...(message !== undefined && { 'exception.message': message }),
    ...(stack !== undefined && { 'exception.stacktrace': stack }),
  };
}

interface MetricProducerOptions {
  readonly registry: Pick<MetricRegistry, 'measure' | 'began_at'>;
  readonly scope: ScopeMetrics['scope'];
  readonly temporality?: AggregationTemporality;
  readonly now?: () => number;
}

type Totals = Pick<Series, 'sum' | 'count' | 'buckets'>;

/** Values of the last delta collection; there is only one delta reader. */
interface LastValues {
  readonly of_series: WeakMap<Series, Totals>;
  since: number;
}

/** By registry, so that a new producer after a reload continues where the last one ended. */
const LAST_VALUES = new WeakMap<MetricProducerOptions['registry'], LastValues>();

function lastValuesOf(registry: MetricProducerOptions['registry']): LastValues {
  const last = LAST_VALUES.get(registry) ?? { of_series: new WeakMap(), since: registry.began_at };
  LAST_VALUES.set(registry, last);
  return last;
}

export function createMetricProducer(options: MetricProducerOptions): MetricProducer {
  const { registry, scope, temporality = AggregationTemporality.CUMULATIVE, now = Date.now } = options;
  const delta = temporality === AggregationTemporality.DELTA;
  const last = delta ? lastValuesOf(registry) : undefined;

  /** Values of a series; `undefined` without a change since the last delta collection. */
  function totalsOf(series: Series): Totals | undefined {
    if (last === undefined) return { sum: series.sum, count: series.count, buckets: [...series.buckets] };
    const { sum, count, buckets } = last.of_series.get(series) ?? { sum: 0, count: 0, buckets: [] };
    if (series.sum === sum && series.count === count) return undefined;
    last.of_series.set(series, { sum: series.sum, count: series.count, buckets: [...series.buckets] });
    return {
      sum: series.sum - sum,
      count: series.count - count,
      buckets: series.buckets.map((n, at) => n - (buckets[at] ?? 0)),
    };
  }

  function dataOf({ name, spec, series }: MeasuredMetric, startTime: HrTime, endTime: HrTime): MetricData {
    const { kind, unit, meaning, bounds = [] } = spec;
    const descriptor = { name, unit, description: meaning, valueType: ValueType.DOUBLE };
    if (kind === 'gauge') {
      const dataPoints = series.map(({ labels, sum }) => ({ startTime, endTime, attributes: labels, value: sum }));
      const aggregationTemporality = AggregationTemporality.CUMULATIVE;
      return { descriptor, aggregationTemporality, dataPointType: DataPointType.GAUGE, dataPoints };
    }
    const points = <T>(of: (totals: Totals) => T): DataPoint<T>[] =>
      series.flatMap((one) => {
        const totals = totalsOf(one);
        if (totals === undefined) return [];
        return [{ startTime, endTime, attributes: one.labels, value: of(totals) }];
      });
    const shared = { descriptor, aggregationTemporality: temporality };
    if (kind === 'counter') {
      const dataPoints = points(({ sum }) => sum);
      return { ...shared, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints };
    }
    const dataPoints = points(({ sum, count, buckets }) => ({
      sum,
      count,
      buckets: { boundaries: [...bounds], counts: buckets },
    }));
    return { ...shared, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }

  const resource = emptyResource();
  return {
    async collect() {
      const ended = now();
      const metrics = registry
        .measure()
        .map((metric) => dataOf(metric, hrTime(last?.since ?? registry.began_at), hrTime(ended)))
        .filter(({ dataPoints }) => dataPoints.length > 0);
      if (last !== undefined) last.since = ended;
      const scopeMetrics = metrics.length > 0 ? [{ scope, metrics }] : [];
      return { resourceMetrics: { resource, scopeMetrics }, errors: [] };
    },
  };
}

/** A periodic reader of the metrics of the registry and of stages. @param take receives a collection; must not block */
export function metricReader(
  { registry, scope }: Pick<MetricProducerOptions, 'registry' | 'scope'>,
  { metrics_interval_ms, metrics_as_deltas }: Pick<ExportSettings, 'metrics_interval_ms' | 'metrics_as_deltas'>,
  take: (metrics: ResourceMetrics) => void,
): PeriodicExportingMetricReader {
  const temporality = metrics_as_deltas ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE;
  return new PeriodicExportingMetricReader({
    exporter: {
      export(metrics, done) {
        take(metrics);
        done({ code: 0 });
      },
      forceFlush: async () => {},
      shutdown: async () => {},
      selectAggregationTemporality: () => temporality,
    },
    exportIntervalMillis: metrics_interval_ms,
    exportTimeoutMillis: metrics_interval_ms,
    metricProducers: [createMetricProducer({ registry, scope, temporality })],
  });
}

/**
 * Starts the OpenTelemetry SDK around the exports of the gateway, so that custom stages can use `@opentelemetry/api`; returns its stop
 * function. It uses no instrumentation, context manager, propagator or detector, so it adds no work to requests.
 */
export function startSdk(options: {
  readonly resource: Resource;
  readonly readers: readonly MetricReader[];
  readonly take: (span: ReadableSpan) => void;
  readonly log: Log;
}): () => Promise<void> {
  const { resource, readers, take, log } = options;
  const processor: SpanProcessor = {
    onStart() {},
    onEnd: take,
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  // Globals of the process.
  for (const owner of [trace, metrics, logs, diag]) owner.disable();
  const sdk = new NodeSDK({
    resource,
    autoDetectResources: false,
    instrumentations: [],
    // The SDK accepts `null` for none, but its types do not.
    contextManager: null as never,
    textMapPropagator: null,
    spanProcessors: [processor],
    metricReaders: [...readers],
    logRecordProcessors: [],
  });
  logDiagnostics(log);
  sdk.start();
  return () => sdk.shutdown();
}

const LOGGED_MAX = 50;

/** Logs messages of the SDK. Only the first words, because the rest may contain exported data. */
function logDiagnostics(log: Log): void {
  const logged = new Set<string>();
  const logAt = (level: 'error' | 'warn') => (message: string) => {
    const reason = message.slice(0, 200);
    // Otherwise an unreachable collector would be logged at every interval.
    if (logged.has(reason) || logged.size >= LOGGED_MAX) return;
    logged.add(reason);
    log[level]({ reason, code: 'opentelemetry_sdk' }, 'the OpenTelemetry SDK reports a problem');
  };
  const quiet = () => {};
  const logger = { error: logAt('error'), warn: logAt('warn'), info: quiet, debug: quiet, verbose: quiet };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
}
