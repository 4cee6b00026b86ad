import { type Dashboard, PICKED, RATE_RANGE } from '../dashboard.ts';
import { FAILURES } from '../outcomes.ts';
import { areas, bars, lines, number, rows, states } from '../panels.ts';
import { cacheHitRatio, createQueries, partOf } from '../promql.ts';

const q = createQueries(PICKED, RATE_RANGE);
const RANGE = '$__range';
const FAILED = { 'gateway.attempt.outcome': FAILURES } as const;
const NOT_SERVED = { 'gateway.attempt.outcome': { not: /answered|caller/ } } as const;

/** States of an upstream, the worst last: what they are called in the metric, what they mean, their colour. */
const STATES = [
  ['closed', 'takes requests', 'green'],
  ['half_open', 'tried again', 'yellow'],
  ['limited', 'limited', 'yellow'],
  ['model_missing', 'a model is missing', 'orange'],
  ['drained', 'drained', 'blue'],
  ['open', 'failed too often', 'red'],
  ['credential', 'credential refused', 'red'],
] as const;
const STATE_QUERY = `max by (gateway_upstream) (${STATES.map(
  ([state], index) => `${index} * ${q.gauge('gateway.breaker.state', { 'gateway.breaker.state': state })}`,
).join(' or ')})`;

/** Upstreams: whether they serve, what happens when they do not, and whether prompts are read from their caches. */
export const UPSTREAMS: Dashboard = {
  id: 'upstreams',
  title: 'upstreams and prompt cache',
  description:
    'How attempts at upstreams end, where requests go instead and why, and how much of prompts is read from caches.',
  sections: [
    {
      title: 'Attempts',
      panels: [
        areas({
          title: 'Attempts by upstream',
          description: 'A request has one attempt, and one more for each time it is sent again.',
          queries: [[q.rate('gateway.attempts', ['gateway.upstream']), '{{gateway_upstream}}']],
          unit: 'cps',
        }),
        lines({
          title: 'Part of attempts that failed',
          description:
            'By upstream. A 429, a refused credential and the fault of a request itself are no failures of an upstream.',
          queries: [
            [
              partOf(
                q.rate('gateway.attempts', ['gateway.upstream']),
                q.rate('gateway.attempts', ['gateway.upstream'], FAILED),
              ),
              '{{gateway_upstream}}',
            ],
          ],
          unit: 'percentunit',
        }),
        areas({
          title: 'Attempts that served nobody, by outcome',
          description: '`appscli explain failover` says what follows from each outcome.',
          queries: [
            [
              q.rate('gateway.attempts', ['gateway.upstream', 'gateway.attempt.outcome'], NOT_SERVED),
              '{{gateway_upstream}}: {{gateway_attempt_outcome}}',
            ],
          ],
          unit: 'cps',
        }),
      ],
    },
    {
      title: 'States',
      panels: [
        states(
          {
            title: 'Breakers',
            description:
              'Whether an upstream takes requests, at any gateway. appscli upstreams list says since when and why.',
            queries: [[STATE_QUERY, '{{gateway_upstream}}']],
            unit: 'none',
          },
          Object.fromEntries(STATES.map(([, text, colour], index) => [String(index), [text, colour] as const])),
        ),
        lines({
          title: 'Requests at upstreams',
          description: 'That are under way.',
          queries: [[`sum by (gateway_upstream) (${q.gauge('gateway.upstream.inflight')})`, '{{gateway_upstream}}']],
          unit: 'short',
        }),
        lines({
          title: 'Models that an upstream does not serve now',
          description: 'Models that are left out at an upstream which takes requests for others.',
          queries: [
            [`max by (gateway_upstream) (${q.gauge('gateway.upstream.models_unavailable')})`, '{{gateway_upstream}}'],
          ],
          unit: 'short',
        }),
      ],
    },
    {
      title: 'Fallback',
      panels: [
        areas({
          title: 'Fallbacks by reason',
          description: 'Requests that went to another upstream than the one they would have gone to, by why.',
          queries: [[q.rate('gateway.fallbacks', ['gateway.fallback.reason']), '{{gateway_fallback_reason}}']],
          unit: 'reqps',
        }),
        rows({
          title: 'Fallbacks',
          description: 'In the time shown, by the upstream that was left and why.',
          queries: [[q.count('gateway.fallbacks', RANGE, ['gateway.upstream', 'gateway.fallback.reason']), '']],
          unit: 'short',
        }),
      ],
    },
    {
      title: 'Prompt cache',
      panels: [
        number({
          title: 'Hit ratio',
          description: 'Part of input tokens that were read from a prompt cache, in the time shown.',
          queries: [[cacheHitRatio(q, RANGE), 'hit ratio']],
          unit: 'percentunit',
          max: 1,
        }),
        number({
          title: 'Downgrades',
          description: 'Requests for an hour of prompt cache that were sent for five minutes, in the time shown.',
          queries: [[`${q.count('gateway.cache.downgrades', RANGE)} or vector(0)`, 'downgrades']],
          unit: 'short',
          steps: [[1, 'yellow']],
        }),
        lines({
          title: 'Hit ratio by model',
          description: 'A fall means that the same input costs up to ten times as much.',
          queries: [[cacheHitRatio(q, '$__rate_interval', ['gateway.model']), '{{gateway_model}}']],
          unit: 'percentunit',
          max: 1,
          width: 16,
        }),
        areas({
          title: 'Input tokens',
          description: 'By how they were priced.',
          queries: [
            [
              q.rate('gateway.tokens', ['gateway.token.type'], { 'gateway.token.type': { not: 'output' } }),
              '{{gateway_token_type}}',
            ],
          ],
          unit: 'cps',
        }),
        bars({
          title: 'Downgrades by upstream',
          description:
            'Upstreams that keep prompts for five minutes only, and were asked for an hour; in the time shown.',
          queries: [
            [
              q.count('gateway.cache.downgrades', RANGE, ['gateway.upstream', 'gateway.model']),
              '{{gateway_upstream}}, {{gateway_model}}',
            ],
          ],
          unit: 'short',
        }),
      ],
    },
  ],
};
