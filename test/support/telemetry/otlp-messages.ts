/**
 * The fields of an OTLP export, by their numbers.
 * @see https://github.com/open-telemetry/opentelemetry-proto (v1)
 * @module
 */
import type { Field, Message, Scalar } from './protobuf.ts';

const one = (name: string, type: Field['type']): Field => ({ name, type });
const many = (name: string, type: Field['type']): Field => ({ name, type, many: true });
const number = (name: string, type: Scalar = 'varint'): Field => ({ name, type });

const KEY_VALUE: Message = { 1: one('key', 'string'), 2: one('value', () => ANY_VALUE) };
const ATTRIBUTES = many('attributes', () => KEY_VALUE);

const ANY_VALUE: Message = {
  1: one('stringValue', 'string'),
  2: one('boolValue', 'bool'),
  3: one('intValue', 'int64'),
  4: one('doubleValue', 'double'),
  5: one('arrayValue', () => ({ 1: many('values', () => ANY_VALUE) })),
  6: one('kvlistValue', () => ({ 1: many('values', () => KEY_VALUE) })),
  7: one('bytesValue', 'bytes'),
};

const RESOURCE: Message = { 1: ATTRIBUTES, 2: number('droppedAttributesCount') };
const SCOPE: Message = {
  1: one('name', 'string'),
  2: one('version', 'string'),
  3: ATTRIBUTES,
  4: number('droppedAttributesCount'),
};

const SPAN: Message = {
  1: one('traceId', 'id'),
  2: one('spanId', 'id'),
  3: one('traceState', 'string'),
  4: one('parentSpanId', 'id'),
  5: one('name', 'string'),
  6: number('kind'),
  7: number('startTimeUnixNano', 'fixed64'),
  8: number('endTimeUnixNano', 'fixed64'),
  9: ATTRIBUTES,
  10: number('droppedAttributesCount'),
  11: many('events', () => ({
    1: number('timeUnixNano', 'fixed64'),
    2: one('name', 'string'),
    3: ATTRIBUTES,
    4: number('droppedAttributesCount'),
  })),
  12: number('droppedEventsCount'),
  13: many('links', () => ({
    1: one('traceId', 'id'),
    2: one('spanId', 'id'),
    3: one('traceState', 'string'),
    4: ATTRIBUTES,
    5: number('droppedAttributesCount'),
    6: number('flags', 'fixed32'),
  })),
  14: number('droppedLinksCount'),
  15: one('status', () => ({ 2: one('message', 'string'), 3: number('code') })),
  16: number('flags', 'fixed32'),
};

const NUMBER_POINT: Message = {
  2: number('startTimeUnixNano', 'fixed64'),
  3: number('timeUnixNano', 'fixed64'),
  4: number('asDouble', 'double'),
  6: number('asInt', 'sfixed64'),
  7: ATTRIBUTES,
  8: number('flags'),
};

const HISTOGRAM_POINT: Message = {
  2: number('startTimeUnixNano', 'fixed64'),
  3: number('timeUnixNano', 'fixed64'),
  4: number('count', 'fixed64'),
  5: number('sum', 'double'),
  6: many('bucketCounts', 'fixed64'),
  7: many('explicitBounds', 'double'),
  9: ATTRIBUTES,
  10: number('flags'),
  11: number('min', 'double'),
  12: number('max', 'double'),
};

const METRIC: Message = {
  1: one('name', 'string'),
  2: one('description', 'string'),
  3: one('unit', 'string'),
  5: one('gauge', () => ({ 1: many('dataPoints', () => NUMBER_POINT) })),
  7: one('sum', () => ({
    1: many('dataPoints', () => NUMBER_POINT),
    2: number('aggregationTemporality'),
    3: one('isMonotonic', 'bool'),
  })),
  9: one('histogram', () => ({ 1: many('dataPoints', () => HISTOGRAM_POINT), 2: number('aggregationTemporality') })),
};

const LOG_RECORD: Message = {
  1: number('timeUnixNano', 'fixed64'),
  2: number('severityNumber'),
  3: one('severityText', 'string'),
  5: one('body', () => ANY_VALUE),
  6: ATTRIBUTES,
  7: number('droppedAttributesCount'),
  8: number('flags', 'fixed32'),
  9: one('traceId', 'id'),
  10: one('spanId', 'id'),
  11: number('observedTimeUnixNano', 'fixed64'),
  12: one('eventName', 'string'),
};

/** Resources, within them scopes, within them the records of the signal. */
function exportOf(resources: string, scopes: string, items: string, item: Message): Message {
  const scope: Message = { 1: one('scope', () => SCOPE), 2: many(items, () => item), 3: one('schemaUrl', 'string') };
  const resource: Message = {
    1: one('resource', () => RESOURCE),
    2: many(scopes, () => scope),
    3: one('schemaUrl', 'string'),
  };
  return { 1: many(resources, () => resource) };
}

/** Kinds of telemetry, as in the paths of OTLP over HTTP. */
export type Signal = 'traces' | 'metrics' | 'logs';

/** The request of an export by its signal. */
export const EXPORTS: Readonly<Record<Signal, Message>> = {
  traces: exportOf('resourceSpans', 'scopeSpans', 'spans', SPAN),
  metrics: exportOf('resourceMetrics', 'scopeMetrics', 'metrics', METRIC),
  logs: exportOf('resourceLogs', 'scopeLogs', 'logRecords', LOG_RECORD),
};
