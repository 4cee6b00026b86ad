import type { Field, Message, Scalar } from './protobuf.ts';

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

const messages: Record<string, Record<number, Field>> = {};
for (const line of MESSAGES.trim().split('\n')) {
  const [message = '', fields = ''] = line.split(': ');
  messages[message] ??= {};
  for (const field of fields.split(', ')) {
    const [number, name = '', type = ''] = field.replace('*', '').split(' ');
    const is_message = /^[A-Z]/.test(type);
    messages[message][Number(number)] = {
      name,
      type: is_message ? () => messages[type]! : (type as Scalar),
      many: field.endsWith('*'),
    };
  }
}

/** Kinds of telemetry, as in the paths of OTLP over HTTP. */
export type Signal = 'traces' | 'metrics' | 'logs';

export const EXPORTS = messages as unknown as Readonly<Record<Signal, Message>>;
