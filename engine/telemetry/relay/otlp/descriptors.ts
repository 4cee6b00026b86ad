import type { INamespace } from 'protobufjs';

type Field = { readonly id: number; readonly type: string; readonly rule?: 'repeated'; readonly options?: object };

const one = (id: number, type: string): Field => ({ id, type });
const many = (id: number, type: string): Field => ({ id, type, rule: 'repeated' });
/** A scalar that is told apart from its default. */
const optional = (id: number, type: string): Field => ({ id, type, options: { proto3_optional: true } });

/** A signal's export request, its answer, and what groups its items by resource and scope. */
function envelope(kind: 'Spans' | 'Metrics' | 'LogRecords', item: string) {
  const group = kind === 'LogRecords' ? 'Logs' : kind;
  const field = (text: string) => text[0]!.toLowerCase() + text.slice(1);
  return {
    [`Export${group}Request`]: { fields: { [`resource${group}`]: many(1, `Resource${group}`) } },
    [`Export${group}Response`]: { fields: { partialSuccess: one(1, `Partial${group}`) } },
    [`Partial${group}`]: { fields: { rejected: one(1, 'int64'), errorMessage: one(2, 'string') } },
    [`Resource${group}`]: {
      fields: {
        resource: one(1, 'Resource'),
        [`scope${group}`]: many(2, `Scope${group}`),
        schemaUrl: one(3, 'string'),
      },
    },
    [`Scope${group}`]: {
      fields: { scope: one(1, 'Scope'), [field(kind)]: many(2, item), schemaUrl: one(3, 'string') },
    },
  };
}

const DROPPED = 'droppedAttributesCount';

const COMMON = {
  AnyValue: {
    oneofs: {
      value: {
        oneof: ['stringValue', 'boolValue', 'intValue', 'doubleValue', 'arrayValue', 'kvlistValue', 'bytesValue'],
      },
    },
    fields: {
      stringValue: one(1, 'string'),
      boolValue: one(2, 'bool'),
      intValue: one(3, 'int64'),
      doubleValue: one(4, 'double'),
      arrayValue: one(5, 'ArrayValue'),
      kvlistValue: one(6, 'KeyValueList'),
      bytesValue: one(7, 'bytes'),
    },
  },
  ArrayValue: { fields: { values: many(1, 'AnyValue') } },
  KeyValueList: { fields: { values: many(1, 'KeyValue') } },
  KeyValue: { fields: { key: one(1, 'string'), value: one(2, 'AnyValue') } },
  Resource: { fields: { attributes: many(1, 'KeyValue'), [DROPPED]: one(2, 'uint32') } },
  Scope: {
    fields: {
      name: one(1, 'string'),
      version: one(2, 'string'),
      attributes: many(3, 'KeyValue'),
      [DROPPED]: one(4, 'uint32'),
    },
  },
  /** `google.rpc.Status`, without its details. */
  RpcStatus: { fields: { code: one(1, 'int32'), message: one(2, 'string') } },
};

const TRACES = {
  ...envelope('Spans', 'Span'),
  Span: {
    fields: {
      traceId: one(1, 'bytes'),
      spanId: one(2, 'bytes'),
      traceState: one(3, 'string'),
      parentSpanId: one(4, 'bytes'),
      name: one(5, 'string'),
      kind: one(6, 'SpanKind'),
      startTimeUnixNano: one(7, 'fixed64'),
      endTimeUnixNano: one(8, 'fixed64'),
      attributes: many(9, 'KeyValue'),
      [DROPPED]: one(10, 'uint32'),
      events: many(11, 'Event'),
      droppedEventsCount: one(12, 'uint32'),
      links: many(13, 'Link'),
      droppedLinksCount: one(14, 'uint32'),
      status: one(15, 'Status'),
      flags: one(16, 'fixed32'),
    },
  },
  SpanKind: {
    values: {
      SPAN_KIND_UNSPECIFIED: 0,
      SPAN_KIND_INTERNAL: 1,
      SPAN_KIND_SERVER: 2,
      SPAN_KIND_CLIENT: 3,
      SPAN_KIND_PRODUCER: 4,
      SPAN_KIND_CONSUMER: 5,
    },
  },
  Event: {
    fields: {
      timeUnixNano: one(1, 'fixed64'),
      name: one(2, 'string'),
      attributes: many(3, 'KeyValue'),
      [DROPPED]: one(4, 'uint32'),
    },
  },
  Link: {
    fields: {
      traceId: one(1, 'bytes'),
      spanId: one(2, 'bytes'),
      traceState: one(3, 'string'),
      attributes: many(4, 'KeyValue'),
      [DROPPED]: one(5, 'uint32'),
      flags: one(6, 'fixed32'),
    },
  },
  Status: { fields: { message: one(2, 'string'), code: one(3, 'StatusCode') } },
  StatusCode: { values: { STATUS_CODE_UNSET: 0, STATUS_CODE_OK: 1, STATUS_CODE_ERROR: 2 } },
};

const LOGS = {
  ...envelope('LogRecords', 'LogRecord'),
  LogRecord: {
    fields: {
      timeUnixNano: one(1, 'fixed64'),
      severityNumber: one(2, 'SeverityNumber'),
      severityText: one(3, 'string'),
      body: one(5, 'AnyValue'),
      attributes: many(6, 'KeyValue'),
      [DROPPED]: one(7, 'uint32'),
      flags: one(8, 'fixed32'),
      traceId: one(9, 'bytes'),
      spanId: one(10, 'bytes'),
      observedTimeUnixNano: one(11, 'fixed64'),
      eventName: one(12, 'string'),
    },
  },
  SeverityNumber: { values: severities() },
};

function severities(): Record<string, number> {
  const values: Record<string, number> = { SEVERITY_NUMBER_UNSPECIFIED: 0 };
  let number = 1;
  for (const name of ['TRACE', 'DEBUG', 'INFO', 'WARN', 'ERROR', 'FATAL']) {
    for (const step of ['', '2', '3', '4']) values[`SEVERITY_NUMBER_${name}${step}`] = number++;
  }
  return values;
}

const POINT_TIMES = { startTimeUnixNano: one(2, 'fixed64'), timeUnixNano: one(3, 'fixed64') };

const METRICS = {
  ...envelope('Metrics', 'Metric'),
  Metric: {
    fields: {
      name: one(1, 'string'),
      description: one(2, 'string'),
      unit: one(3, 'string'),
      gauge: one(5, 'Gauge'),
      sum: one(7, 'Sum'),
      histogram: one(9, 'Histogram'),
      exponentialHistogram: one(10, 'ExponentialHistogram'),
      summary: one(11, 'Summary'),
      metadata: many(12, 'KeyValue'),
    },
  },
  AggregationTemporality: {
    values: {
      AGGREGATION_TEMPORALITY_UNSPECIFIED: 0,
      AGGREGATION_TEMPORALITY_DELTA: 1,
      AGGREGATION_TEMPORALITY_CUMULATIVE: 2,
    },
  },
  Gauge: { fields: { dataPoints: many(1, 'NumberPoint') } },
  Sum: {
    fields: {
      dataPoints: many(1, 'NumberPoint'),
      aggregationTemporality: one(2, 'AggregationTemporality'),
      isMonotonic: one(3, 'bool'),
    },
  },
  Histogram: {
    fields: { dataPoints: many(1, 'HistogramPoint'), aggregationTemporality: one(2, 'AggregationTemporality') },
  },
  ExponentialHistogram: {
    fields: { dataPoints: many(1, 'ExponentialPoint'), aggregationTemporality: one(2, 'AggregationTemporality') },
  },
  Summary: { fields: { dataPoints: many(1, 'SummaryPoint') } },
  NumberPoint: {
    fields: {
      ...POINT_TIMES,
      asDouble: optional(4, 'double'),
      exemplars: many(5, 'Exemplar'),
      asInt: optional(6, 'sfixed64'),
      attributes: many(7, 'KeyValue'),
      flags: one(8, 'uint32'),
    },
  },
  HistogramPoint: {
    fields: {
      ...POINT_TIMES,
      count: one(4, 'fixed64'),
      sum: optional(5, 'double'),
      bucketCounts: many(6, 'fixed64'),
      explicitBounds: many(7, 'double'),
      exemplars: many(8, 'Exemplar'),
      attributes: many(9, 'KeyValue'),
      flags: one(10, 'uint32'),
      min: optional(11, 'double'),
      max: optional(12, 'double'),
    },
  },
  ExponentialPoint: {
    fields: {
      attributes: many(1, 'KeyValue'),
      ...POINT_TIMES,
      count: one(4, 'fixed64'),
      sum: optional(5, 'double'),
      scale: one(6, 'sint32'),
      zeroCount: one(7, 'fixed64'),
      positive: one(8, 'Buckets'),
      negative: one(9, 'Buckets'),
      flags: one(10, 'uint32'),
      exemplars: many(11, 'Exemplar'),
      min: optional(12, 'double'),
      max: optional(13, 'double'),
      zeroThreshold: one(14, 'double'),
    },
  },
  Buckets: { fields: { offset: one(1, 'sint32'), bucketCounts: many(2, 'uint64') } },
  SummaryPoint: {
    fields: {
      ...POINT_TIMES,
      count: one(4, 'fixed64'),
      sum: one(5, 'double'),
      quantileValues: many(6, 'Quantile'),
      attributes: many(7, 'KeyValue'),
      flags: one(8, 'uint32'),
    },
  },
  Quantile: { fields: { quantile: one(1, 'double'), value: one(2, 'double') } },
  Exemplar: {
    fields: {
      timeUnixNano: one(2, 'fixed64'),
      asDouble: optional(3, 'double'),
      spanId: one(4, 'bytes'),
      traceId: one(5, 'bytes'),
      asInt: optional(6, 'sfixed64'),
      filteredAttributes: many(7, 'KeyValue'),
    },
  },
};

/**
 * The messages of OTLP 1.x with the field numbers and types of its `.proto` files (opentelemetry-proto, packages
 * `collector`, `trace`, `metrics`, `logs`, `common`), some under a shorter name. What is not in here is not passed on.
 */
export const OTLP = { nested: { ...COMMON, ...TRACES, ...LOGS, ...METRICS } } as unknown as INamespace;
