import type { MetricSpec } from './metric-spec.ts';

/** Where rows and records wait: `memory` or `spool`. */
const PLACE = 'gateway.waiting.place';

/** Metrics about this process and what it keeps: ledger, spool, breakers, configuration. */
export const PROCESS_METRICS = {
  'gateway.build.info': {
    kind: 'gauge',
    unit: '{build}',
    meaning: 'Always 1; its labels say what runs',
    labels: ['service.version', 'process.runtime.version', 'gateway.config.hash'],
  },
  'gateway.config.loaded_at': {
    kind: 'gauge',
    unit: 's',
    meaning: 'When the configuration in force was loaded, in seconds since 1970',
    labels: [],
  },
  'gateway.config.reload_ok': {
    kind: 'gauge',
    unit: '{state}',
    meaning: '1, or 0 while the files hold a configuration that could not be put in force',
    labels: [],
  },
  'gateway.inflight': {
    kind: 'gauge',
    unit: '{request}',
    meaning: 'Requests of pipelines that are under way',
    labels: [],
  },
  'gateway.connections': {
    kind: 'gauge',
    unit: '{connection}',
    meaning: 'Connections of clients',
    labels: [],
  },
  'gateway.connections.limit': {
    kind: 'gauge',
    unit: '{connection}',
    meaning: 'Most connections of clients there may be',
    labels: [],
  },
  'gateway.bodies.held': {
    kind: 'gauge',
    unit: 'By',
    meaning: 'Bytes of bodies that are held for requests under way',
    labels: [],
  },
  'gateway.bodies.limit': {
    kind: 'gauge',
    unit: 'By',
    meaning: 'Most bytes of bodies that may be held; from there on requests are refused as overloaded',
    labels: [],
  },
  'gateway.breaker.state': {
    kind: 'gauge',
    unit: '{state}',
    meaning:
      'For each upstream 1 at the state it is in, the worst where its models differ, and 0 at all others: closed, open, half_open, limited, credential, model_missing or drained. In the mode shadow nothing follows from it',
    labels: ['gateway.upstream', 'gateway.breaker.state', 'gateway.breaker.mode'],
  },
  'gateway.upstream.models_unavailable': {
    kind: 'gauge',
    unit: '{model}',
    meaning: 'Models of an upstream that get no requests now, though the upstream as a whole does',
    labels: ['gateway.upstream'],
  },
  'gateway.upstream.inflight': {
    kind: 'gauge',
    unit: '{request}',
    meaning: 'Requests that are with an upstream',
    labels: ['gateway.upstream'],
  },
  'gateway.database.up': {
    kind: 'gauge',
    unit: '{state}',
    meaning: '1 while the heartbeat of this process, every 5 seconds, is written to the database, 0 otherwise',
    labels: [],
  },
  'gateway.ledger.waiting': {
    kind: 'gauge',
    unit: '{request}',
    meaning: 'Requests that are over and not in the ledger yet, in memory or in the spool',
    labels: [PLACE],
  },
  'gateway.ledger.lag': {
    kind: 'gauge',
    unit: 's',
    meaning:
      'For how long requests that are over have waited for the ledger with none being written; 0 when none waits',
    labels: [PLACE],
  },
  'gateway.reservations': {
    kind: 'counter',
    unit: '{reservation}',
    meaning:
      'Reservations that this process asked for, by whether they were placed in leased room (spend_limits.lease)',
    labels: ['gateway.reservation.path'],
  },
  'gateway.leases': {
    kind: 'counter',
    unit: '{lease}',
    meaning: 'What this process did about room that it leases of limits',
    labels: ['gateway.lease.event'],
  },
  'gateway.audit.waiting': {
    kind: 'gauge',
    unit: '{record}',
    meaning: 'Audit records that are not in the database yet, in memory or in the spool',
    labels: [PLACE],
  },
  'gateway.audit.lost': {
    kind: 'counter',
    unit: '{record}',
    meaning: 'Audit records that were lost because the database was away for too long or could not store them',
    labels: [],
  },
  'gateway.spool.size': {
    kind: 'gauge',
    unit: 'By',
    meaning: 'Size of the spool of this process on the disk',
    labels: [],
  },
  'gateway.spool.limit': {
    kind: 'gauge',
    unit: 'By',
    meaning: 'From this size on the spool takes no more requests',
    labels: [],
  },
  'gateway.overshoot.bound': {
    kind: 'gauge',
    unit: '{USD}',
    meaning:
      'Most US dollars by which requests under way can pass a limit in money, as appscli check --verbose prints it; what is in no bound is printed there too',
    labels: ['gateway.rule'],
  },
  'nodejs.eventloop.delay.p50': {
    kind: 'gauge',
    unit: 's',
    meaning: 'How late the event loop gets to what is due, the median; the higher one of this minute and the last',
    labels: [],
  },
  'nodejs.eventloop.delay.p99': {
    kind: 'gauge',
    unit: 's',
    meaning: 'The same of the latest hundredth',
    labels: [],
  },
  'nodejs.eventloop.delay.max': {
    kind: 'gauge',
    unit: 's',
    meaning: 'The same at its worst',
    labels: [],
  },
  'nodejs.eventloop.time': {
    kind: 'counter',
    unit: 's',
    meaning: 'How long the event loop was active or idle; the active part of both is its utilization',
    labels: ['nodejs.eventloop.state'],
  },
  'process.cpu.time': {
    kind: 'counter',
    unit: 's',
    meaning: 'Processor time of this process, by user or system',
    labels: ['cpu.mode'],
  },
  'process.memory.usage': {
    kind: 'gauge',
    unit: 'By',
    meaning: 'Physical memory of this process',
    labels: [],
  },
  'process.uptime': {
    kind: 'gauge',
    unit: 's',
    meaning: 'For how long this process has run',
    labels: [],
  },
  'v8js.memory.heap.used': {
    kind: 'gauge',
    unit: 'By',
    meaning: 'Memory in use for values of the program, by the space of the heap',
    labels: ['v8js.heap.space.name'],
  },
  'gateway.heap.limit': {
    kind: 'gauge',
    unit: 'By',
    meaning: 'Size of the whole heap at which the process would end for lack of memory',
    labels: [],
  },
  'gateway.telemetry.series': {
    kind: 'gauge',
    unit: '{series}',
    meaning: 'Series of all counters and histograms of this process',
    labels: [],
  },
  'gateway.telemetry.overflows': {
    kind: 'counter',
    unit: '{measurement}',
    meaning:
      'Measurements that were counted in the overflow series of their metric, because it has as many series as it may',
    labels: ['gateway.telemetry.metric'],
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;
