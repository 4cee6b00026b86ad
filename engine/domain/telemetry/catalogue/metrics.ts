/** The definition of a metric; it has one series for each combination of label values. */
export interface MetricSpec {
  readonly kind: 'counter' | 'histogram' | 'gauge';
  /** UCUM unit, as in OpenTelemetry: `s`, `By`, `1` for a ratio, and in braces the counted things (not part of the name). */
  readonly unit: string;
  /** A sentence without its full stop. */
  readonly meaning: string;
  /** Labels. Each has few values, and is never a user, a token, a session or an address. */
  readonly labels: readonly string[];
  readonly bounds?: readonly number[];
  /** Only with this value of `telemetry.conventions`; absent: with any. */
  readonly conventions?: '1.41' | 'latest';
}

/** The words of a text, which is how labels are written here. */
type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text;
const wordsOf = <Text extends string>(text: Text): readonly Words<Text>[] => text.split(' ') as never;

const metric =
  <const Kind extends MetricSpec['kind']>(kind: Kind) =>
  <const Labels extends string = never>(unit: string, meaning: string, labels?: Labels) => {
    return { kind, unit, meaning, labels: labels === undefined ? [] : wordsOf(labels) } as const;
  };
const counter = metric('counter');
const gauge = metric('gauge');
const histogram = <const Labels extends string>(
  bounds: readonly number[],
  unit: string,
  meaning: string,
  labels: Labels,
) => ({ ...metric('histogram')(unit, meaning, labels), bounds }) as const;

/** Histogram bounds of the conventions for model durations, in seconds. */
const DURATION_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/** Histogram bounds of the gateway's own time, which is far below that of a model, in seconds. */
const OVERHEAD_BOUNDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const TOKEN_BOUNDS = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864,
];
/** Histogram bounds of the conventions for the time to the first chunk, in seconds. */
const FIRST_CHUNK_BOUNDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
];

const OPERATION = 'gen_ai.operation.name gen_ai.provider.name gen_ai.request.model';
const PLACE = 'gateway.waiting.place';

const DURATION = histogram(
  DURATION_BOUNDS,
  's',
  'Duration of an attempt, until the end of its response or its failure',
  `${OPERATION} error.type`,
);
const FIRST_CHUNK = histogram(
  FIRST_CHUNK_BOUNDS,
  's',
  'Time from the start of the successful attempt to the first byte of a streamed response',
  OPERATION,
);
const tokens = (meaning: string) => ({ ...counter('{token}', meaning, OPERATION), conventions: 'latest' }) as const;

/** Every metric of the gateway. The reference page is made from it. The label `gateway.team` needs `telemetry.metrics.team`. */
export const METRICS = {
  'gateway.requests': counter(
    '{request}',
    'Ended requests, by outcome: answered, refused (by the gateway), upstream_refused, failed, aborted (by the client)',
    'gateway.protocol gateway.model gateway.upstream gateway.status_class gateway.outcome gateway.team',
  ),
  'gateway.refusals': counter(
    '{request}',
    'Requests that a pipeline ended with an error of the gateway, by error code and, for limits and policies, by rule',
    'gateway.protocol gateway.error.code gateway.rule gateway.team',
  ),
  'gateway.rejected': counter(
    '{request}',
    'Requests without a pipeline, such as those for unknown paths; `gateway.refusals` does not count them',
    'gateway.error.code http.response.status_code',
  ),
  'http.server.request.duration': histogram(
    DURATION_BOUNDS,
    's',
    'Time from the request headers to the end of the response',
    'http.request.method http.route http.response.status_code error.type',
  ),
  'gateway.overhead.duration': histogram(
    OVERHEAD_BOUNDS,
    's',
    'Time from the request headers to the start of the first attempt, including the receipt of the body',
    'gateway.protocol',
  ),
  'gateway.decisions': counter(
    '{decision}',
    'Decisions of rules and policies; in shadow mode they have no effect',
    'gateway.decision.kind gateway.rule gateway.rule.mode gateway.decision.outcome',
  ),
  'gateway.attempts': counter(
    '{attempt}',
    'Attempts at upstreams, by outcome and by what happened next',
    'gateway.upstream gateway.attempt.outcome gateway.attempt.reason',
  ),
  'gateway.fallbacks': counter(
    '{fallback}',
    'Requests that skipped or left an upstream for another one, by that upstream and the reason',
    'gateway.upstream gateway.fallback.reason',
  ),
  'gateway.unconfirmed_attempts': counter(
    '{attempt}',
    'Unanswered attempts that an upstream may have accepted and may bill',
    'gateway.upstream',
  ),
  'gateway.cost': counter(
    '{USD}',
    'Cost of requests by the prices of gateway.yaml, in US dollars',
    'gateway.protocol gateway.model gateway.upstream gateway.team',
  ),
  'gateway.cost.possible': counter(
    '{USD}',
    'What upstreams may bill for unanswered attempts, in US dollars',
    'gateway.model gateway.upstream',
  ),
  'gateway.tokens': counter(
    '{token}',
    'Tokens by price: uncached_input, cache_read, cache_write_5m, cache_write_1h, output; each token counts once',
    'gateway.model gateway.upstream gateway.token.type',
  ),
  'gateway.cache.downgrades': counter(
    '{request}',
    'Requests for one hour of prompt cache that were sent with five minutes, because their upstream does not support an hour',
    'gateway.model gateway.upstream',
  ),
  'gateway.budget.used_ratio': gauge(
    '1',
    'Spent and reserved share of a money limit, for the caller, team or other key with the highest share',
    'gateway.rule gateway.budget.window',
  ),
  'gateway.budget.remaining': gauge(
    '{USD}',
    'Remaining amount of the same limit, in US dollars',
    'gateway.rule gateway.budget.window',
  ),
  'gateway.budget.resets_in': gauge(
    's',
    'Seconds until the window of the same limit ends',
    'gateway.rule gateway.budget.window',
  ),
  'gen_ai.client.operation.duration': { ...DURATION, conventions: '1.41' },
  'gen_ai.client.operation.time_to_first_chunk': { ...FIRST_CHUNK, conventions: '1.41' },
  'gen_ai.client.token.usage': {
    ...histogram(
      TOKEN_BOUNDS,
      '{token}',
      'Tokens of a request: input (including cached input) or output',
      `${OPERATION} gen_ai.token.type`,
    ),
    conventions: '1.41',
  },
  'gen_ai.client.inference.duration': { ...DURATION, conventions: 'latest' },
  'gen_ai.client.inference.time_to_first_chunk': { ...FIRST_CHUNK, conventions: 'latest' },
  'gen_ai.client.inference.usage.input_tokens': tokens('Input tokens, including cached ones'),
  'gen_ai.client.inference.usage.output_tokens': tokens('Output tokens'),
  'gen_ai.client.inference.usage.cache_read.input_tokens': tokens('Input tokens read from the prompt cache'),
  'gen_ai.client.inference.usage.cache_write.input_tokens': tokens('Input tokens written to the prompt cache'),
  'gateway.sign_ins': counter(
    '{step}',
    'Steps of sign-ins, by outcome and error',
    'gateway.sign_in.outcome error.type',
  ),
  'gateway.sessions': counter(
    '{step}',
    'Sessions that began, were renewed or signed out, and rejected attempts, by outcome and error',
    'gateway.session.outcome error.type',
  ),
  'gateway.account_checks': counter(
    '{person}',
    'Account checks at the identity provider, by outcome',
    'gateway.account_check.outcome',
  ),
  'gateway.admin_changes': counter(
    '{change}',
    'Changes through the admin API and by the gateway itself, by action, kind of caller and error',
    'gateway.admin.action gateway.admin.actor_kind error.type',
  ),
  'gateway.reloads': counter('{reload}', 'Reloads of the configuration, by result', 'gateway.reload.result'),
  'gateway.build.info': gauge(
    '{build}',
    'Always 1; the labels identify gateway, Node.js and configuration',
    'service.version process.runtime.version gateway.config.hash',
  ),
  'gateway.config.loaded_at': gauge('s', 'Load time of the current configuration, in seconds since 1970'),
  'gateway.config.reload_ok': gauge('{state}', '1; 0 while the configuration files could not be loaded'),
  'gateway.inflight': gauge('{request}', 'Requests of pipelines in flight'),
  'gateway.connections': gauge('{connection}', 'Connections of clients'),
  'gateway.connections.limit': gauge('{connection}', 'Limit on connections of clients'),
  'gateway.bodies.held': gauge('By', 'Bytes of buffered bodies of requests in flight'),
  'gateway.bodies.limit': gauge(
    'By',
    'Limit on buffered bytes of bodies; above it requests are rejected as overloaded',
  ),
  'gateway.breaker.state': gauge(
    '{state}',
    '1 for the state of each upstream (the worst of its models), 0 for all other states: closed, open, half_open, limited, credential, model_missing, drained. In shadow mode the state has no effect',
    'gateway.upstream gateway.breaker.state gateway.breaker.mode',
  ),
  'gateway.upstream.models_unavailable': gauge(
    '{model}',
    'Models of an available upstream that currently get no requests',
    'gateway.upstream',
  ),
  'gateway.upstream.inflight': gauge('{request}', 'Requests in flight at an upstream', 'gateway.upstream'),
  'gateway.database.up': gauge(
    '{state}',
    '1 while this process writes its heartbeat (every 5 seconds) to the database, otherwise 0',
  ),
  'gateway.ledger.waiting': gauge(
    '{request}',
    'Ended requests that are not in the ledger yet, in memory or in the spool',
    PLACE,
  ),
  'gateway.ledger.lag': gauge(
    's',
    'How long ended requests have waited without any write to the ledger; 0 if none waits',
    PLACE,
  ),
  'gateway.reservations': counter(
    '{reservation}',
    'Reservations of this process, by whether they came from a budget lease (spend_limits.lease)',
    'gateway.reservation.path',
  ),
  'gateway.leases': counter('{lease}', 'Events of the budget leases of this process', 'gateway.lease.event'),
  'gateway.audit.waiting': gauge(
    '{record}',
    'Audit records that are not in the database yet, in memory or in the spool',
    PLACE,
  ),
  'gateway.audit.lost': counter(
    '{record}',
    'Audit records lost because the database was unavailable for too long or could not store them',
  ),
  'gateway.spool.size': gauge('By', 'Size of the spool of this process on disk'),
  'gateway.spool.limit': gauge('By', 'Size limit of the spool; above it no more requests are spooled'),
  'gateway.overshoot.bound': gauge(
    '{USD}',
    'Most US dollars by which requests in flight can exceed a money limit, as printed by appscli check --verbose, which also lists the exceptions',
    'gateway.rule',
  ),
  'nodejs.eventloop.delay.p50': gauge(
    's',
    'Median delay of the event loop; the higher value of this minute and the last',
  ),
  'nodejs.eventloop.delay.p99': gauge('s', '99th percentile of the delay of the event loop'),
  'nodejs.eventloop.delay.max': gauge('s', 'Maximum delay of the event loop'),
  'nodejs.eventloop.time': counter(
    's',
    'Active and idle time of the event loop; the active share is its utilization',
    'nodejs.eventloop.state',
  ),
  'process.cpu.time': counter('s', 'CPU time of this process, user and system', 'cpu.mode'),
  'process.memory.usage': gauge('By', 'Physical memory of this process'),
  'process.uptime': gauge('s', 'Uptime of this process'),
  'v8js.memory.heap.used': gauge('By', 'Used memory of the JavaScript heap, by heap space', 'v8js.heap.space.name'),
  'gateway.heap.limit': gauge('By', 'Size limit of the heap; above it the process runs out of memory'),
  'gateway.telemetry.series': gauge('{series}', 'Series of all counters and histograms of this process'),
  'gateway.telemetry.overflows': counter(
    '{measurement}',
    'Measurements in the overflow series of a metric, because it has reached its limit on series',
    'gateway.telemetry.metric',
  ),
  'gateway.telemetry.dropped': counter(
    '{item}',
    'Spans, log records, metric collections and export requests of clients that did not reach their destination, by reason',
    'gateway.telemetry.signal gateway.telemetry.destination gateway.telemetry.reason',
  ),
  'gateway.telemetry.sends': counter(
    '{request}',
    "Export requests with the gateway's own telemetry, by outcome",
    'gateway.telemetry.signal gateway.telemetry.outcome',
  ),
  'gateway.telemetry.queue.length': gauge('{item}', 'Queued spans and log records', 'gateway.telemetry.signal'),
  'gateway.client_telemetry.received': counter(
    '{request}',
    'Export requests of clients that the gateway accepted',
    'gateway.telemetry.signal',
  ),
  'gateway.client_telemetry.refused': counter(
    '{request}',
    'Export requests of clients that the gateway rejected, by error code',
    'gateway.telemetry.signal gateway.error.code',
  ),
  'gateway.client_telemetry.sent': counter(
    '{request}',
    'Export requests of clients that a destination accepted',
    'gateway.telemetry.signal gateway.telemetry.destination',
  ),
  'gateway.client_telemetry.queue': gauge(
    'By',
    'Queued telemetry of clients, by destination',
    'gateway.telemetry.destination',
  ),
} as const satisfies Readonly<Record<string, MetricSpec>>;

export type MetricName = keyof typeof METRICS;

type NamesOf<K extends MetricSpec['kind']> = {
  [N in MetricName]: (typeof METRICS)[N]['kind'] extends K ? N : never;
}[MetricName];

export type CounterMetric = NamesOf<'counter'>;
export type HistogramMetric = NamesOf<'histogram'>;
export type GaugeMetric = NamesOf<'gauge'>;

/** The labels of a series of a metric; an omitted label is absent. */
export type LabelsOf<N extends MetricName> = {
  readonly [L in (typeof METRICS)[N]['labels'][number]]?: string | number | undefined;
};
