/**
 * What of the SDK is needed to encode; loaded when something is exported for the first time.
 * @module
 */
import {
  JsonLogsSerializer,
  JsonMetricsSerializer,
  JsonTraceSerializer,
  ProtobufLogsSerializer,
  ProtobufMetricsSerializer,
  ProtobufTraceSerializer,
} from '@opentelemetry/otlp-transformer';

/** Encoders of each signal, by protocol. */
export const SERIALIZERS = {
  'http/protobuf': {
    traces: ProtobufTraceSerializer,
    metrics: ProtobufMetricsSerializer,
    logs: ProtobufLogsSerializer,
  },
  'http/json': { traces: JsonTraceSerializer, metrics: JsonMetricsSerializer, logs: JsonLogsSerializer },
} as const;

export { resourceFromAttributes } from '@opentelemetry/resources';
export { logRecordOf } from './log-record.ts';
export { metricReader } from './metric-producer.ts';
export { startSdk } from './node-sdk.ts';
export { ExportedSpan } from './readable-span.ts';
