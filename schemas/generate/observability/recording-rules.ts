import { cacheHitRatio, createQueries, partOf, timeToEmpty } from './promql.ts';
import type { RecordingRule, RuleGroup } from './rules.ts';

const q = createQueries('', '5m');

/** Names of what is recorded, by level, what it is, and over which time; alerts ask for them. */
export const RECORDED = {
  requests: 'job:gateway_requests:rate5m',
  failed: 'job:gateway_requests_failed:ratio_rate5m',
  refused: 'job:gateway_requests_refused:ratio_rate5m',
  overhead: 'job:gateway_overhead_seconds:p99_5m',
  cost: 'job:gateway_cost_usd:rate5m',
  cache_hits: 'job_model:gateway_cache_hit:ratio1h',
  time_to_empty: 'job_rule_window:gateway_budget_time_to_empty_seconds:deriv1h',
} as const;

const requests = q.rate('gateway.requests', ['job']);

/** Every recording rule. */
export const RECORDING_RULES: readonly RuleGroup<RecordingRule>[] = [
  {
    name: 'appscli-recorded',
    rules: [
      { record: RECORDED.requests, expression: requests },
      {
        record: RECORDED.failed,
        expression: partOf(requests, q.rate('gateway.requests', ['job'], { 'gateway.status_class': '5xx' })),
      },
      { record: RECORDED.refused, expression: partOf(requests, q.rate('gateway.refusals', ['job'])) },
      { record: RECORDED.overhead, expression: q.quantile(0.99, 'gateway.overhead.duration', ['job']) },
      { record: RECORDED.cost, expression: q.rate('gateway.cost', ['job']) },
      { record: RECORDED.cache_hits, expression: cacheHitRatio(q, '1h', ['job', 'gateway.model']) },
      { record: RECORDED.time_to_empty, expression: timeToEmpty(q, '1h') },
    ],
  },
];
