import type { MetricSpec } from './metric-spec.ts';

/** Metrics about the telemetry of coding clients that is passed on. */
export const CLIENT_METRICS = {
  'gateway.client_telemetry.received': {
    kind: 'counter',
    unit: '{request}',
    meaning: 'Export requests of clients that the gateway took',
    labels: ['gateway.telemetry.signal'],
  },
  'gateway.client_telemetry.refused': {
    kind: 'counter',
    unit: '{request}',
    meaning: 'Export requests of clients that the gateway did not take, by the code of its error',
    labels: ['gateway.telemetry.signal', 'gateway.error.code'],
  },
  'gateway.client_telemetry.sent': {
    kind: 'counter',
    unit: '{request}',
    meaning: 'Export requests of clients that a destination took',
    labels: ['gateway.telemetry.signal', 'gateway.telemetry.destination'],
  },
  'gateway.client_telemetry.queue': {
    kind: 'gauge',
    unit: 'By',
    meaning: 'Telemetry of clients that waits for a destination',
    labels: ['gateway.telemetry.destination'],
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;
