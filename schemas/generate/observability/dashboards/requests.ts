import { type Dashboard, PICKED, RATE_RANGE } from '../dashboard.ts';
import { areas, lines, number, rows } from '../panels.ts';
import { attemptQuantile, createQueries } from '../promql.ts';

const q = createQueries(PICKED, RATE_RANGE);

/** Requests: how many, how they ended, how long they took, and the gateway's own part in that. */
export const REQUESTS: Dashboard = {
  id: 'requests',
  title: 'requests and latency',
  description: 'Requests that clients made: how many, how they ended, how long they took.',
  sections: [
    {
      title: 'Now',
      panels: [
        number({
          title: 'Requests per second',
          description: 'Requests that are over.',
          queries: [[q.rate('gateway.requests'), 'requests']],
          unit: 'reqps',
        }),
        number({
          title: 'Failed',
          description: 'Part of requests answered 5xx, by an upstream or the gateway itself.',
          queries: [
            [
              `(${q.rate('gateway.requests', [], { 'gateway.status_class': '5xx' })} or vector(0)) / ${q.rate('gateway.requests')}`,
              'failed',
            ],
          ],
          unit: 'percentunit',
          steps: [
            [0.01, 'yellow'],
            [0.05, 'red'],
          ],
        }),
        number({
          title: 'Refused',
          description:
            'Part of requests that the gateway refused: limits, credentials, models. The dashboard of decisions says why.',
          queries: [[`(${q.rate('gateway.refusals')} or vector(0)) / ${q.rate('gateway.requests')}`, 'refused']],
          unit: 'percentunit',
          steps: [
            [0.1, 'yellow'],
            [0.3, 'red'],
          ],
        }),
        number({
          title: 'Median time',
          description: 'Half of the requests took less, from their head to the end of the answer.',
          queries: [[q.quantile(0.5, 'http.server.request.duration'), 'median']],
          unit: 's',
        }),
        number({
          title: 'Until the first chunk, 95 %',
          description: 'From the beginning of the attempt that served until the first byte of a streamed answer.',
          queries: [[attemptQuantile(q, 0.95, 'time_to_first_chunk'), '95 %']],
          unit: 's',
        }),
        number({
          title: "Gateway's own time, 99 %",
          description: 'From the head of a request until its first attempt begins. It includes receiving the body.',
          queries: [[q.quantile(0.99, 'gateway.overhead.duration'), '99 %']],
          unit: 's',
          steps: [
            [0.05, 'yellow'],
            [0.25, 'red'],
          ],
        }),
      ],
    },
    {
      title: 'Volume',
      panels: [
        areas({
          title: 'Requests by how they ended',
          description: 'By class of status.',
          queries: [[q.rate('gateway.requests', ['gateway.status_class']), '{{gateway_status_class}}']],
          unit: 'reqps',
        }),
        areas({
          title: 'Requests by surface',
          description: 'Which API clients spoke.',
          queries: [[q.rate('gateway.requests', ['gateway.surface']), '{{gateway_surface}}']],
          unit: 'reqps',
        }),
        areas({
          title: 'Requests by model',
          description: 'Models of gateway.yaml; empty where a request was refused before its model was known.',
          queries: [[q.rate('gateway.requests', ['gateway.model']), '{{gateway_model}}']],
          unit: 'reqps',
        }),
        areas({
          title: 'Requests by upstream',
          description:
            'The upstream that answered, or would have been asked first; empty where none had been chosen yet.',
          queries: [[q.rate('gateway.requests', ['gateway.upstream']), '{{gateway_upstream}}']],
          unit: 'reqps',
        }),
      ],
    },
    {
      title: 'Latency',
      panels: [
        lines({
          title: 'Time of a request',
          description:
            'From the head of a request to the end of its answer. Long answers take long; compare with the first chunk.',
          queries: [
            [q.quantile(0.5, 'http.server.request.duration'), '50 %'],
            [q.quantile(0.95, 'http.server.request.duration'), '95 %'],
            [q.quantile(0.99, 'http.server.request.duration'), '99 %'],
          ],
          unit: 's',
        }),
        lines({
          title: 'Until the first chunk, by model, 95 %',
          description: 'What people notice of a streamed answer.',
          queries: [
            [attemptQuantile(q, 0.95, 'time_to_first_chunk', ['gen_ai.request.model']), '{{gen_ai_request_model}}'],
          ],
          unit: 's',
        }),
        lines({
          title: 'Time of an attempt, by model, 95 %',
          description: 'How long upstreams took, until an answer had ended or failed.',
          queries: [[attemptQuantile(q, 0.95, 'duration', ['gen_ai.request.model']), '{{gen_ai_request_model}}']],
          unit: 's',
        }),
        lines({
          title: "Gateway's own time",
          description:
            'From the head of a request until its first attempt begins: receiving and reading the body, rules, limits. A slow client makes it longer too.',
          queries: [
            [q.quantile(0.5, 'gateway.overhead.duration'), '50 %'],
            [q.quantile(0.95, 'gateway.overhead.duration'), '95 %'],
            [q.quantile(0.99, 'gateway.overhead.duration'), '99 %'],
          ],
          unit: 's',
        }),
      ],
    },
    {
      title: 'Before any pipeline',
      panels: [
        rows({
          title: 'Rejected without a pipeline',
          description: 'Requests for unknown paths, of a wrong method, or that are no HTTP; in the time shown.',
          queries: [[q.count('gateway.rejected', '$__range', ['gateway.error.code', 'http.response.status_code']), '']],
          unit: 'short',
          width: 24,
        }),
      ],
    },
  ],
};
