import type { Operation } from '../../base/contract/telemetry.ts';
import { beginTrace } from '../../base/kit/net/trace-context.ts';
import { printableLine } from '../../base/kit/text/printable.ts';
import { type CounterMetric, type LabelsOf, METRICS } from './catalogue/metrics.ts';
import { OPERATION_SPANS, type OperationSpanSpec } from './catalogue/spans.ts';
import type { TelemetrySurroundings } from './metric-registry.ts';
import { type Attributes, type AttributeValue, internalSpan, type SpanSink, spansPerSecond } from './spans.ts';

/** Spans of one name: a flood of failed sign-ins must not displace requests. The metrics count all of them. */
const SPANS_PER_SECOND = 50;
const TEXT_LENGTH_MAX = 100;
const LIST_LENGTH_MAX = 20;

/** Creates the recorder of operations: a span and a count each. */
export function createOperationTelemetry(
  options: Pick<TelemetrySurroundings, 'metrics' | 'clock'> & { readonly sink: SpanSink },
): (operation: Operation) => void {
  const { sink, metrics, clock } = options;
  const isWithinRate = spansPerSecond(SPANS_PER_SECOND);
  return (operation) => {
    const attributes = attributesOf(operation);
    const { counter }: OperationSpanSpec = OPERATION_SPANS[operation.name];
    if (counter !== undefined) metrics.add(counter, labelsOf(counter, attributes));
    if (!sink.active) return;
    const { name, began_at, duration_ms, error_type, trace = beginTrace() } = operation;
    if (!isWithinRate(clock.monotonic(), name)) return metrics.add('gateway.telemetry.dropped', DROPPED);
    sink.take([internalSpan(name, trace, [began_at, began_at + duration_ms], attributes, error_type !== undefined)]);
  };
}

const DROPPED = {
  'gateway.telemetry.signal': 'traces',
  'gateway.telemetry.destination': 'collector',
  'gateway.telemetry.reason': 'flood',
} as const;

/** The attributes of the catalogue, bounded; others are dropped. */
function attributesOf({ name, attributes, error_type }: Operation): Attributes {
  const kept: Record<string, AttributeValue> = {};
  for (const key of Object.keys(OPERATION_SPANS[name].attributes)) {
    const value = key === 'error.type' ? error_type : attributes[key];
    if (value !== undefined) kept[key] = bounded(value);
  }
  return kept;
}

function bounded(value: AttributeValue): AttributeValue {
  if (typeof value === 'string') return printableLine(value).slice(0, TEXT_LENGTH_MAX);
  return typeof value === 'object' ? value.slice(0, LIST_LENGTH_MAX).map((text) => bounded(text) as string) : value;
}

function labelsOf(counter: CounterMetric, attributes: Attributes): LabelsOf<CounterMetric> {
  const labels: Record<string, AttributeValue> = {};
  for (const label of METRICS[counter].labels) if (attributes[label] !== undefined) labels[label] = attributes[label];
  return labels as LabelsOf<CounterMetric>;
}
