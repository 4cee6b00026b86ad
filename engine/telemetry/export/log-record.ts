import { type HrTime, type SpanContext, TraceFlags } from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import type { ReadableLogRecord } from '@opentelemetry/sdk-logs';
import { hrTime, type Scope } from './readable-span.ts';

/** Numbers and words of OpenTelemetry for the levels of the log. */
const SEVERITIES: Readonly<Record<number, readonly [number, string]>> = {
  20: [5, 'DEBUG'],
  30: [9, 'INFO'],
  40: [13, 'WARN'],
  50: [17, 'ERROR'],
};
const TRACE_ID = /^[0-9a-f]{32}$/;
const SPAN_ID = /^[0-9a-f]{16}$/;

interface WrittenError {
  readonly type?: string;
  readonly message?: string;
  readonly stack?: string;
}

/** A line of the log, which is JSON, in the shape that exporters of OpenTelemetry take. */
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
      ...exceptionOf(err as WrittenError | undefined),
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

/** By the names of the conventions for exceptions. */
function exceptionOf(err: WrittenError | undefined): Readonly<Record<string, string>> {
  if (err === undefined || err === null) return {};
  return {
    ...(err.type !== undefined && { 'exception.type': err.type }),
    ...(err.message !== undefined && { 'exception.message': err.message }),
    ...(err.stack !== undefined && { 'exception.stacktrace': err.stack }),
  };
}
