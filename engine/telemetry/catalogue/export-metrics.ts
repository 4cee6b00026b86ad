import type { MetricSpec } from './metric-spec.ts';

/** Metrics about telemetry itself: what was sent, and what was dropped. */
export const EXPORT_METRICS = {
  'gateway.telemetry.dropped': {
    kind: 'counter',
    unit: '{item}',
    meaning:
      'Spans, log records, collections of metrics and export requests of clients that did not reach their destination, by why',
    labels: ['gateway.telemetry.signal', 'gateway.telemetry.destination', 'gateway.telemetry.reason'],
  },
  'gateway.telemetry.sends': {
    kind: 'counter',
    unit: '{request}',
    meaning: "Requests to the collector with the gateway's own telemetry, by whether it took them",
    labels: ['gateway.telemetry.signal', 'gateway.telemetry.outcome'],
  },
  'gateway.telemetry.queue.length': {
    kind: 'gauge',
    unit: '{item}',
    meaning: 'Spans and log records that wait for the collector',
    labels: ['gateway.telemetry.signal'],
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;
