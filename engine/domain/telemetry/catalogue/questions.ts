import type { MetricName } from './metrics.ts';
import type { MODEL_ATTRIBUTES, REQUEST_ATTRIBUTES, REQUEST_EVENTS } from './spans.ts';

/** A question of operators, and the telemetry that answers it. */
export interface Question {
  readonly question: string;
  /** Attributes of spans and events. */
  readonly attributes: readonly (keyof typeof REQUEST_ATTRIBUTES | keyof typeof MODEL_ATTRIBUTES)[];
  readonly events: readonly (keyof typeof REQUEST_EVENTS)[];
  readonly metrics: readonly MetricName[];
}

/** The questions that telemetry must answer, on the spans of one request and in metrics of all; conventions 1.41. */
export const QUESTIONS: Readonly<Record<string, Question>> = {
  requests: {
    question: 'How many requests are there?',
    attributes: ['gateway.request_id', 'http.route', 'gateway.protocol', 'gateway.outcome'],
    events: [],
    metrics: ['gateway.requests'],
  },
  latency: {
    question: 'How long do requests take, and how much of it is the gateway?',
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
    question: 'Which requests and attempts fail, and how?',
    attributes: ['error.type', 'http.response.status_code', 'gateway.outcome', 'gateway.attempt.outcome'],
    events: [],
    metrics: ['gateway.requests', 'gateway.attempts'],
  },
  routing: {
    question: 'Where do requests go, and by which rule?',
    attributes: ['gateway.model', 'gateway.route.rule', 'gateway.route.candidates', 'gateway.upstream'],
    events: ['gateway.decision'],
    metrics: ['gateway.decisions', 'gateway.requests'],
  },
  spend: {
    question: 'What do requests use and cost?',
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
    question: 'Which policies applied?',
    attributes: ['gateway.decision.kind', 'gateway.rule', 'gateway.decision.outcome'],
    events: ['gateway.decision'],
    metrics: ['gateway.decisions'],
  },
  budgets: {
    question: 'How far are budgets used?',
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
    question: 'How many requests are rejected?',
    attributes: ['gateway.outcome', 'gateway.error.code', 'gateway.error.stage'],
    events: ['gateway.refused'],
    metrics: ['gateway.refusals'],
  },
  rules: {
    question: 'By which rules, and which rules in shadow mode would have matched?',
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
    question: 'What was tried after a failure?',
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
    question: 'Did an hour of prompt cache become five minutes?',
    attributes: ['gateway.cache.downgraded', 'gateway.cache.requested', 'gateway.cache.effective'],
    events: ['gateway.cache.downgraded'],
    metrics: ['gateway.cache.downgrades'],
  },
};
