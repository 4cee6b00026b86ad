/** What is known of a metric: one series for each combination of its labels' values. */
export interface MetricSpec {
  readonly kind: 'counter' | 'histogram' | 'gauge';
  /** By UCUM, as OpenTelemetry wants it: `s`, `By`, `1` for a ratio, and in braces what is counted, which is in no name. */
  readonly unit: string;
  /** A sentence without its full stop. */
  readonly meaning: string;
  /** Attributes that tell its series apart. Each has few values, never a user, a token, a session or an address. */
  readonly labels: readonly string[];
  readonly bounds?: readonly number[];
  /** Value of `telemetry.conventions` with which it is there; absent: with any. */
  readonly conventions?: '1.41' | 'latest';
}

const counter = <const L extends readonly string[]>(unit: string, meaning: string, ...labels: L) =>
  ({ kind: 'counter', unit, meaning, labels }) as const;
const gauge = <const L extends readonly string[]>(unit: string, meaning: string, ...labels: L) =>
  ({ kind: 'gauge', unit, meaning, labels }) as const;
const histogram = <const L extends readonly string[]>(
  unit: string,
  bounds: readonly number[],
  meaning: string,
  ...labels: L
) => ({ kind: 'histogram', unit, meaning, labels, bounds }) as const;

export const CLIENT_METRICS = {
  'gateway.client_telemetry.received': counter(
    '{request}',
    'Export requests of clients that the gateway took',
    'gateway.telemetry.signal',
  ),
  'gateway.client_telemetry.refused': counter(
    '{request}',
    'Export requests of clients that the gateway did not take, by the code of its error',
    'gateway.telemetry.signal',
    'gateway.error.code',
  ),
  'gateway.client_telemetry.sent': counter(
    '{request}',
    'Export requests of clients that a destination took',
    'gateway.telemetry.signal',
    'gateway.telemetry.destination',
  ),
  'gateway.client_telemetry.queue': gauge(
    'By',
    'Telemetry of clients that waits for a destination',
    'gateway.telemetry.destination',
  ),
} as const satisfies Readonly<Record<string, MetricSpec>>;

/** Metrics about telemetry itself: what was sent, and what was dropped. */
export const EXPORT_METRICS = {
  'gateway.telemetry.dropped': counter(
    '{item}',
    'Spans, log records, collections of metrics and export requests of clients that did not reach their destination, by why',
    'gateway.telemetry.signal',
    'gateway.telemetry.destination',
    'gateway.telemetry.reason',
  ),
  'gateway.telemetry.sends': counter(
    '{request}',
    "Requests to the collector with the gateway's own telemetry, by whether it took them",
    'gateway.telemetry.signal',
    'gateway.telemetry.outcome',
  ),
  'gateway.telemetry.queue.length': gauge(
    '{item}',
    'Spans and log records that wait for the collector',
    'gateway.telemetry.signal',
  ),
} as const satisfies Readonly<Record<string, MetricSpec>>;

export const OPERATION_METRICS = {
  'gateway.sign_ins': counter(
    '{step}',
    'Steps of sign-ins, by how they ended and, where one did not go well, why',
    'gateway.sign_in.outcome',
    'error.type',
  ),
  'gateway.sessions': counter(
    '{step}',
    'Sessions that began, were renewed or ended at the wish of their client, and what of this was refused, by why',
    'gateway.session.outcome',
    'error.type',
  ),
  'gateway.account_checks': counter(
    '{person}',
    'People the identity provider was asked about, by what it said',
    'gateway.account_check.outcome',
  ),
  'gateway.admin_changes': counter(
    '{change}',
    'Changes through the admin API and of the gateway itself, by what was to be done, by what kind of caller and, where it was refused, why',
    'gateway.admin.action',
    'gateway.admin.actor_kind',
    'error.type',
  ),
  'gateway.reloads': counter(
    '{reload}',
    'Reloads of the configuration, by whether the new one is in force',
    'gateway.reload.result',
  ),
} as const satisfies Readonly<Record<string, MetricSpec>>;

const PLACE = 'gateway.waiting.place';

/** Metrics about this process and what it keeps: ledger, spool, breakers, configuration. */
export const PROCESS_METRICS = {
  'gateway.build.info': gauge(
    '{build}',
    'Always 1; its labels say what runs',
    'service.version',
    'process.runtime.version',
    'gateway.config.hash',
  ),
  'gateway.config.loaded_at': gauge('s', 'When the configuration in force was loaded, in seconds since 1970'),
  'gateway.config.reload_ok': gauge(
    '{state}',
    '1, or 0 while the files hold a configuration that could not be put in force',
  ),
  'gateway.inflight': gauge('{request}', 'Requests of pipelines that are under way'),
  'gateway.connections': gauge('{connection}', 'Connections of clients'),
  'gateway.connections.limit': gauge('{connection}', 'Most connections of clients there may be'),
  'gateway.bodies.held': gauge('By', 'Bytes of bodies that are held for requests under way'),
  'gateway.bodies.limit': gauge(
    'By',
    'Most bytes of bodies that may be held; from there on requests are refused as overloaded',
  ),
  'gateway.breaker.state': gauge(
    '{state}',
    'For each upstream 1 at the state it is in, the worst where its models differ, and 0 at all others: closed, open, half_open, limited, credential, model_missing or drained. In the mode shadow nothing follows from it',
    'gateway.upstream',
    'gateway.breaker.state',
    'gateway.breaker.mode',
  ),
  'gateway.upstream.models_unavailable': gauge(
    '{model}',
    'Models of an upstream that get no requests now, though the upstream as a whole does',
    'gateway.upstream',
  ),
  'gateway.upstream.inflight': gauge('{request}', 'Requests that are with an upstream', 'gateway.upstream'),
  'gateway.database.up': gauge(
    '{state}',
    '1 while the heartbeat of this process, every 5 seconds, is written to the database, 0 otherwise',
  ),
  'gateway.ledger.waiting': gauge(
    '{request}',
    'Requests that are over and not in the ledger yet, in memory or in the spool',
    PLACE,
  ),
  'gateway.ledger.lag': gauge(
    's',
    'For how long requests that are over have waited for the ledger with none being written; 0 when none waits',
    PLACE,
  ),
  'gateway.reservations': counter(
    '{reservation}',
    'Reservations that this process asked for, by whether they were placed in leased room (spend_limits.lease)',
    'gateway.reservation.path',
  ),
  'gateway.leases': counter(
    '{lease}',
    'What this process did about room that it leases of limits',
    'gateway.lease.event',
  ),
  'gateway.audit.waiting': gauge(
    '{record}',
    'Audit records that are not in the database yet, in memory or in the spool',
    PLACE,
  ),
  'gateway.audit.lost': counter(
    '{record}',
    'Audit records that were lost because the database was away for too long or could not store them',
  ),
  'gateway.spool.size': gauge('By', 'Size of the spool of this process on the disk'),
  'gateway.spool.limit': gauge('By', 'From this size on the spool takes no more requests'),
  'gateway.overshoot.bound': gauge(
    '{USD}',
    'Most US dollars by which requests under way can pass a limit in money, as appscli check --verbose prints it; what is in no bound is printed there too',
    'gateway.rule',
  ),
  'nodejs.eventloop.delay.p50': gauge(
    's',
    'How late the event loop gets to what is due, the median; the higher one of this minute and the last',
  ),
  'nodejs.eventloop.delay.p99': gauge('s', 'The same of the latest hundredth'),
  'nodejs.eventloop.delay.max': gauge('s', 'The same at its worst'),
  'nodejs.eventloop.time': counter(
    's',
    'How long the event loop was active or idle; the active part of both is its utilization',
    'nodejs.eventloop.state',
  ),
  'process.cpu.time': counter('s', 'Processor time of this process, by user or system', 'cpu.mode'),
  'process.memory.usage': gauge('By', 'Physical memory of this process'),
  'process.uptime': gauge('s', 'For how long this process has run'),
  'v8js.memory.heap.used': gauge(
    'By',
    'Memory in use for values of the program, by the space of the heap',
    'v8js.heap.space.name',
  ),
  'gateway.heap.limit': gauge('By', 'Size of the whole heap at which the process would end for lack of memory'),
  'gateway.telemetry.series': gauge('{series}', 'Series of all counters and histograms of this process'),
  'gateway.telemetry.overflows': counter(
    '{measurement}',
    'Measurements that were counted in the overflow series of their metric, because it has as many series as it may',
    'gateway.telemetry.metric',
  ),
} as const satisfies Readonly<Record<string, MetricSpec>>;

/** Bounds that the conventions want for durations of models, in seconds. */
const DURATION_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/** The gateway's own share of a request is far below that of a model, in seconds. */
const OVERHEAD_BOUNDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const TOKEN_BOUNDS = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864,
];
/** Bounds that the conventions want for the time to the first chunk, in seconds. */
const FIRST_CHUNK_BOUNDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
];

/** What tells operations of models apart, by the conventions. */
const OPERATION = ['gen_ai.operation.name', 'gen_ai.provider.name', 'gen_ai.request.model'] as const;

/** Metrics about requests, by name. `gateway.team` is absent unless `telemetry.metrics.team` asks for it. */
export const REQUEST_METRICS = {
  'gateway.requests': counter(
    '{request}',
    'Requests that are over, by how they ended: answered, refused by the gateway, refused by the upstream, failed, or aborted by the client',
    'gateway.protocol',
    'gateway.model',
    'gateway.upstream',
    'gateway.status_class',
    'gateway.outcome',
    'gateway.team',
  ),
  'gateway.refusals': counter(
    '{request}',
    "Requests that the gateway refused or failed itself, by the code of its error and, for limits and policies, the rule's name",
    'gateway.protocol',
    'gateway.error.code',
    'gateway.rule',
    'gateway.team',
  ),
  'gateway.rejected': counter(
    '{request}',
    'Requests answered with an error before any pipeline took them, such as those for unknown paths',
    'gateway.error.code',
    'http.response.status_code',
  ),
  'http.server.request.duration': histogram(
    's',
    DURATION_BOUNDS,
    'From the head of a request to the end of its answer',
    'http.request.method',
    'http.route',
    'http.response.status_code',
    'error.type',
  ),
  'gateway.overhead.duration': histogram(
    's',
    OVERHEAD_BOUNDS,
    'From the head of a request until its first attempt begins; it includes receiving the body',
    'gateway.protocol',
  ),
  'gateway.decisions': counter(
    '{decision}',
    'Decisions by rules and policies of the configuration; in shadow mode what they would have decided did not happen',
    'gateway.decision.kind',
    'gateway.rule',
    'gateway.rule.mode',
    'gateway.decision.outcome',
  ),
  'gateway.attempts': counter(
    '{attempt}',
    'Attempts to have a request served by an upstream, by how each ended and what happened then',
    'gateway.upstream',
    'gateway.attempt.outcome',
    'gateway.attempt.reason',
  ),
  'gateway.fallbacks': counter(
    '{fallback}',
    'Times that a request went to another upstream than the one it would have gone to, by that one and why: its attempt failed, or it was not asked',
    'gateway.upstream',
    'gateway.fallback.reason',
  ),
  'gateway.unconfirmed_attempts': counter(
    '{attempt}',
    'Attempts that an upstream may have accepted and did not answer, so that it may bill them',
    'gateway.upstream',
  ),
  'gateway.cost': counter(
    '{USD}',
    'What requests cost by the prices of gateway.yaml, in US dollars',
    'gateway.protocol',
    'gateway.model',
    'gateway.upstream',
    'gateway.team',
  ),
  'gateway.cost.possible': counter(
    '{USD}',
    'What upstreams may bill for attempts that they did not answer, in US dollars',
    'gateway.model',
    'gateway.upstream',
  ),
  'gateway.tokens': counter(
    '{token}',
    'Tokens by what they are priced as: uncached_input, cache_read, cache_write_5m, cache_write_1h, output; no token counts twice',
    'gateway.model',
    'gateway.upstream',
    'gateway.token.type',
  ),
  'gateway.cache.downgrades': counter(
    '{request}',
    'Requests for an hour of prompt cache that were sent for five minutes, as their upstream keeps none longer',
    'gateway.model',
    'gateway.upstream',
  ),
  'gateway.budget.used_ratio': gauge(
    '1',
    'Part of a limit in money that is spent or reserved, of the caller, team or whatever the rule counts that has used most of it',
    'gateway.rule',
    'gateway.budget.window',
  ),
  'gateway.budget.remaining': gauge(
    '{USD}',
    'What is left of the same limit, in US dollars',
    'gateway.rule',
    'gateway.budget.window',
  ),
  'gateway.budget.resets_in': gauge(
    's',
    'Seconds until the window of the same limit ends',
    'gateway.rule',
    'gateway.budget.window',
  ),
  'gen_ai.client.operation.duration': {
    ...histogram(
      's',
      DURATION_BOUNDS,
      'How long an attempt took, until its answer had ended or it had failed',
      ...OPERATION,
      'error.type',
    ),
    conventions: '1.41',
  },
  'gen_ai.client.operation.time_to_first_chunk': {
    ...histogram(
      's',
      FIRST_CHUNK_BOUNDS,
      'From the beginning of the attempt that served until the first byte of a streamed answer',
      ...OPERATION,
    ),
    conventions: '1.41',
  },
  'gen_ai.client.token.usage': {
    ...histogram(
      '{token}',
      TOKEN_BOUNDS,
      'Tokens of a request, by whether they are input, cached input included, or output',
      ...OPERATION,
      'gen_ai.token.type',
    ),
    conventions: '1.41',
  },
  'gen_ai.client.inference.duration': {
    ...histogram(
      's',
      DURATION_BOUNDS,
      '`gen_ai.client.operation.duration` under its name in the latest conventions',
      ...OPERATION,
      'error.type',
    ),
    conventions: 'latest',
  },
  'gen_ai.client.inference.time_to_first_chunk': {
    ...histogram(
      's',
      FIRST_CHUNK_BOUNDS,
      '`gen_ai.client.operation.time_to_first_chunk` under its name in the latest conventions',
      ...OPERATION,
    ),
    conventions: 'latest',
  },
  'gen_ai.client.inference.usage.input_tokens': {
    ...counter('{token}', 'Input tokens, cached ones included', ...OPERATION),
    conventions: 'latest',
  },
  'gen_ai.client.inference.usage.output_tokens': {
    ...counter('{token}', 'Output tokens', ...OPERATION),
    conventions: 'latest',
  },
  'gen_ai.client.inference.usage.cache_read.input_tokens': {
    ...counter('{token}', 'Input tokens read from the prompt cache', ...OPERATION),
    conventions: 'latest',
  },
  'gen_ai.client.inference.usage.cache_write.input_tokens': {
    ...counter('{token}', 'Input tokens written to the prompt cache', ...OPERATION),
    conventions: 'latest',
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;

/**
 * Every metric of the gateway. The reference page, the dashboards and the alert rules are made from it. The names of `gen_ai.*` are
 * those of the conventions that `telemetry.conventions` names by default.
 */
export const METRICS = {
  ...REQUEST_METRICS,
  ...OPERATION_METRICS,
  ...PROCESS_METRICS,
  ...EXPORT_METRICS,
  ...CLIENT_METRICS,
} as const satisfies Readonly<Record<string, MetricSpec>>;

export type MetricName = keyof typeof METRICS;

type NamesOf<K extends MetricSpec['kind']> = {
  [N in MetricName]: (typeof METRICS)[N]['kind'] extends K ? N : never;
}[MetricName];

/** Metrics that only go up, by what is added to them. */
export type CounterMetric = NamesOf<'counter'>;
/** Metrics that keep how often values fell into each bucket. */
export type HistogramMetric = NamesOf<'histogram'>;
/** Metrics whose value is asked for when it is needed. */
export type GaugeMetric = NamesOf<'gauge'>;

/** What tells a series of a metric apart; a label that is left out is absent. */
export type LabelsOf<N extends MetricName> = {
  readonly [L in (typeof METRICS)[N]['labels'][number]]?: string | number | undefined;
};
