import type { AttributeSpec } from './span-spec.ts';

/** Attributes that only metrics have, by name. */
export const LABEL_ATTRIBUTES = {
  'service.version': { kind: 'string', meaning: 'Version of the gateway' },
  'process.runtime.version': { kind: 'string', meaning: 'Version of Node.js' },
  'gateway.breaker.state': {
    kind: 'string',
    meaning: 'State of an upstream',
    values: ['closed', 'open', 'half_open', 'limited', 'credential', 'model_missing', 'drained'],
  },
  'gateway.breaker.mode': {
    kind: 'string',
    meaning: 'Whether requests stay away because of it',
    values: ['enforce', 'shadow'],
  },
  'gateway.waiting.place': {
    kind: 'string',
    meaning: 'Where rows and records wait for the database',
    values: ['memory', 'spool'],
  },
  'gateway.reservation.path': {
    kind: 'string',
    meaning: 'Whether a reservation was placed in leased room, or waited for the database',
    values: ['leased', 'waited'],
  },
  'gateway.lease.event': {
    kind: 'string',
    meaning: 'What happened to leases: taken, refused because too little is left, or asked for before a refusal',
    values: ['taken', 'refused', 'recalled'],
  },
  'nodejs.eventloop.state': {
    kind: 'string',
    meaning: 'What the event loop did',
    values: ['active', 'idle'],
  },
  'cpu.mode': { kind: 'string', meaning: 'On whose behalf the processor worked', values: ['user', 'system'] },
  'v8js.heap.space.name': { kind: 'string', meaning: 'Space of the heap, such as `old_space`' },
  'gateway.telemetry.metric': { kind: 'string', meaning: 'Metric that has as many series as it may' },
  'gateway.telemetry.signal': {
    kind: 'string',
    meaning: 'Signal of OpenTelemetry',
    values: ['traces', 'metrics', 'logs'],
  },
  'gateway.telemetry.destination': {
    kind: 'string',
    meaning: "`collector` for the gateway's own telemetry; for that of clients the host of the destination",
  },
  'gateway.telemetry.reason': {
    kind: 'string',
    meaning:
      'Why it was dropped: no room in the queue; not taken, for good or in all attempts; the gateway stopped; too many of the same in a second',
    values: ['queue_full', 'refused', 'failed', 'closing', 'flood'],
  },
  'gateway.telemetry.outcome': {
    kind: 'string',
    meaning: 'What became of a request to the collector: taken; refused for good; failed, and sent again',
    values: ['taken', 'refused', 'failed'],
  },
} as const satisfies Readonly<Record<string, AttributeSpec>>;
