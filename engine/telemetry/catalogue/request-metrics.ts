import type { MetricSpec } from './metric-spec.ts';

/** Bounds that the conventions want for durations of models, in seconds. */
const DURATION_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/** The gateway's own share of a request is far below that of a model, in seconds. */
const OVERHEAD_BOUNDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
/** Bounds that the conventions want for tokens. */
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
  'gateway.requests': {
    kind: 'counter',
    unit: '{request}',
    meaning:
      'Requests that are over, by how they ended: answered, refused by the gateway, refused by the upstream, failed, or aborted by the client',
    labels: [
      'gateway.protocol',
      'gateway.model',
      'gateway.upstream',
      'gateway.status_class',
      'gateway.outcome',
      'gateway.team',
    ],
  },
  'gateway.refusals': {
    kind: 'counter',
    unit: '{request}',
    meaning:
      "Requests that the gateway refused or failed itself, by the code of its error and, for limits and policies, the rule's name",
    labels: ['gateway.protocol', 'gateway.error.code', 'gateway.rule', 'gateway.team'],
  },
  'gateway.rejected': {
    kind: 'counter',
    unit: '{request}',
    meaning: 'Requests answered with an error before any pipeline took them, such as those for unknown paths',
    labels: ['gateway.error.code', 'http.response.status_code'],
  },
  'http.server.request.duration': {
    kind: 'histogram',
    unit: 's',
    meaning: 'From the head of a request to the end of its answer',
    labels: ['http.request.method', 'http.route', 'http.response.status_code', 'error.type'],
    bounds: DURATION_BOUNDS,
  },
  'gateway.overhead.duration': {
    kind: 'histogram',
    unit: 's',
    meaning: 'From the head of a request until its first attempt begins; it includes receiving the body',
    labels: ['gateway.protocol'],
    bounds: OVERHEAD_BOUNDS,
  },
  'gateway.decisions': {
    kind: 'counter',
    unit: '{decision}',
    meaning:
      'Decisions by rules and policies of the configuration; in shadow mode what they would have decided did not happen',
    labels: ['gateway.decision.kind', 'gateway.rule', 'gateway.rule.mode', 'gateway.decision.outcome'],
  },
  'gateway.attempts': {
    kind: 'counter',
    unit: '{attempt}',
    meaning: 'Attempts to have a request served by an upstream, by how each ended and what happened then',
    labels: ['gateway.upstream', 'gateway.attempt.outcome', 'gateway.attempt.reason'],
  },
  'gateway.fallbacks': {
    kind: 'counter',
    unit: '{fallback}',
    meaning:
      'Times that a request went to another upstream than the one it would have gone to, by that one and why: its attempt failed, or it was not asked',
    labels: ['gateway.upstream', 'gateway.fallback.reason'],
  },
  'gateway.unconfirmed_attempts': {
    kind: 'counter',
    unit: '{attempt}',
    meaning: 'Attempts that an upstream may have accepted and did not answer, so that it may bill them',
    labels: ['gateway.upstream'],
  },
  'gateway.cost': {
    kind: 'counter',
    unit: '{USD}',
    meaning: 'What requests cost by the prices of gateway.yaml, in US dollars',
    labels: ['gateway.protocol', 'gateway.model', 'gateway.upstream', 'gateway.team'],
  },
  'gateway.cost.possible': {
    kind: 'counter',
    unit: '{USD}',
    meaning: 'What upstreams may bill for attempts that they did not answer, in US dollars',
    labels: ['gateway.model', 'gateway.upstream'],
  },
  'gateway.tokens': {
    kind: 'counter',
    unit: '{token}',
    meaning:
      'Tokens by what they are priced as: uncached_input, cache_read, cache_write_5m, cache_write_1h, output; no token counts twice',
    labels: ['gateway.model', 'gateway.upstream', 'gateway.token.type'],
  },
  'gateway.cache.downgrades': {
    kind: 'counter',
    unit: '{request}',
    meaning:
      'Requests for an hour of prompt cache that were sent for five minutes, as their upstream keeps none longer',
    labels: ['gateway.model', 'gateway.upstream'],
  },
  'gateway.budget.used_ratio': {
    kind: 'gauge',
    unit: '1',
    meaning:
      'Part of a limit in money that is spent or reserved, of the caller, team or whatever the rule counts that has used most of it',
    labels: ['gateway.rule', 'gateway.budget.window'],
  },
  'gateway.budget.remaining': {
    kind: 'gauge',
    unit: '{USD}',
    meaning: 'What is left of the same limit, in US dollars',
    labels: ['gateway.rule', 'gateway.budget.window'],
  },
  'gateway.budget.resets_in': {
    kind: 'gauge',
    unit: 's',
    meaning: 'Seconds until the window of the same limit ends',
    labels: ['gateway.rule', 'gateway.budget.window'],
  },
  'gen_ai.client.operation.duration': {
    kind: 'histogram',
    unit: 's',
    meaning: 'How long an attempt took, until its answer had ended or it had failed',
    labels: [...OPERATION, 'error.type'],
    bounds: DURATION_BOUNDS,
    conventions: '1.41',
  },
  'gen_ai.client.operation.time_to_first_chunk': {
    kind: 'histogram',
    unit: 's',
    meaning: 'From the beginning of the attempt that served until the first byte of a streamed answer',
    labels: OPERATION,
    bounds: FIRST_CHUNK_BOUNDS,
    conventions: '1.41',
  },
  'gen_ai.client.token.usage': {
    kind: 'histogram',
    unit: '{token}',
    meaning: 'Tokens of a request, by whether they are input, cached input included, or output',
    labels: [...OPERATION, 'gen_ai.token.type'],
    bounds: TOKEN_BOUNDS,
    conventions: '1.41',
  },
  'gen_ai.client.inference.duration': {
    kind: 'histogram',
    unit: 's',
    meaning: '`gen_ai.client.operation.duration` under its name in the latest conventions',
    labels: [...OPERATION, 'error.type'],
    bounds: DURATION_BOUNDS,
    conventions: 'latest',
  },
  'gen_ai.client.inference.time_to_first_chunk': {
    kind: 'histogram',
    unit: 's',
    meaning: '`gen_ai.client.operation.time_to_first_chunk` under its name in the latest conventions',
    labels: OPERATION,
    bounds: FIRST_CHUNK_BOUNDS,
    conventions: 'latest',
  },
  'gen_ai.client.inference.usage.input_tokens': {
    kind: 'counter',
    unit: '{token}',
    meaning: 'Input tokens, cached ones included',
    labels: OPERATION,
    conventions: 'latest',
  },
  'gen_ai.client.inference.usage.output_tokens': {
    kind: 'counter',
    unit: '{token}',
    meaning: 'Output tokens',
    labels: OPERATION,
    conventions: 'latest',
  },
  'gen_ai.client.inference.usage.cache_read.input_tokens': {
    kind: 'counter',
    unit: '{token}',
    meaning: 'Input tokens read from the prompt cache',
    labels: OPERATION,
    conventions: 'latest',
  },
  'gen_ai.client.inference.usage.cache_write.input_tokens': {
    kind: 'counter',
    unit: '{token}',
    meaning: 'Input tokens written to the prompt cache',
    labels: OPERATION,
    conventions: 'latest',
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;
