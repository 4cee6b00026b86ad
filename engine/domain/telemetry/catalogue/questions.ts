import type { MetricName } from './metrics.ts';
import type { MODEL_ATTRIBUTES, REQUEST_ATTRIBUTES, REQUEST_EVENTS } from './spans.ts';

/** Something an operator wants to know, and by what telemetry answers it. */
export interface Question {
  readonly asked: string;
  /** Of spans and events. */
  readonly attributes: readonly (keyof typeof REQUEST_ATTRIBUTES | keyof typeof MODEL_ATTRIBUTES)[];
  readonly events: readonly (keyof typeof REQUEST_EVENTS)[];
  readonly metrics: readonly MetricName[];
}

/** What telemetry is there to answer, each on the spans of one request and in a metric about all; conventions 1.41. */
export const QUESTIONS: Readonly<Record<string, Question>> = {
  requests: {
    asked: 'How many requests are there?',
    attributes: ['gateway.request_id', 'http.route', 'gateway.protocol', 'gateway.outcome'],
    events: [],
    metrics: ['gateway.requests'],
  },
  latency: {
    asked: 'How long do they take, and how much of that is the gateway?',
    attributes: ['gateway.time_to_first_byte', 'gen_ai.response.time_to_first_chunk'],
    events: [],
    metrics: [
      'http.server.request.duration',
      'gen_ai.client.operation.duration',
      'gen_ai.client.operation.time_to_first_chunk',
      'gateway.overhead.duration',
    ],
  },
  errors: {
    asked: 'Which requests and attempts fail, and how?',
    attributes: ['error.type', 'http.response.status_code', 'gateway.outcome', 'gateway.attempt.outcome'],
    events: [],
    metrics: ['gateway.requests', 'gateway.attempts'],
  },
  routing: {
    asked: 'Where do they go, and which rule said so?',
    attributes: ['gateway.model', 'gateway.route.rule', 'gateway.route.candidates', 'gateway.upstream'],
    events: ['gateway.decision'],
    metrics: ['gateway.decisions', 'gateway.requests'],
  },
  spend: {
    asked: 'What do they use and cost?',
    attributes: [
      'gateway.cost_usd',
      'gateway.team',
      'gen_ai.usage.input_tokens',
      'gen_ai.usage.output_tokens',
      'gen_ai.usage.cache_read.input_tokens',
      'gen_ai.usage.cache_creation.input_tokens',
    ],
    events: [],
    metrics: ['gateway.cost', 'gateway.tokens', 'gen_ai.client.token.usage'],
  },
  policies: {
    asked: 'Which policies applied?',
    attributes: ['gateway.decision.kind', 'gateway.rule', 'gateway.decision.outcome'],
    events: ['gateway.decision'],
    metrics: ['gateway.decisions'],
  },
  budgets: {
    asked: 'How far are budgets used?',
    attributes: [
      'gateway.budget.rule',
      'gateway.budget.window',
      'gateway.budget.used_ratio',
      'gateway.budget.remaining_usd',
    ],
    events: [],
    metrics: ['gateway.budget.used_ratio', 'gateway.budget.remaining', 'gateway.budget.resets_in'],
  },
  refusals: {
    asked: 'How many are refused?',
    attributes: ['gateway.outcome', 'gateway.error.code', 'gateway.error.stage'],
    events: ['gateway.refused'],
    metrics: ['gateway.refusals'],
  },
  rules: {
    asked: 'By which rules, and would a rule in shadow mode have?',
    attributes: [
      'gateway.rule',
      'gateway.rule.mode',
      'gateway.limit.scope',
      'gateway.limit.window',
      'gateway.limit.limit',
      'gateway.limit.spent',
      'gateway.limit.held',
      'gateway.limit.resets_at',
      'gateway.shadow',
    ],
    events: ['gateway.refused', 'gateway.decision'],
    metrics: ['gateway.refusals', 'gateway.decisions'],
  },
  fallback: {
    asked: 'What was tried after a failure?',
    attributes: [
      'gateway.fallback',
      'gateway.fallback.reason',
      'gateway.attempts',
      'gateway.attempt',
      'gateway.attempt.reason',
    ],
    events: ['gateway.fallback'],
    metrics: ['gateway.fallbacks', 'gateway.attempts'],
  },
  cache_downgrade: {
    asked: 'Did an hour of prompt cache become five minutes?',
    attributes: ['gateway.cache.downgraded', 'gateway.cache.requested', 'gateway.cache.effective'],
    events: ['gateway.cache.downgraded'],
    metrics: ['gateway.cache.downgrades'],
  },
};
