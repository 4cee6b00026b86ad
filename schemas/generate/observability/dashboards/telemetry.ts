import { type Dashboard, PICKED, RATE_RANGE } from '../dashboard.ts';
import { areas, lines, rows } from '../panels.ts';
import { createQueries } from '../promql.ts';

const q = createQueries(PICKED, RATE_RANGE);
const RANGE = '$__range';
const EACH = 'by (instance)';

/** Whether what gateways and clients tell arrives. */
export const TELEMETRY: Dashboard = {
  id: 'telemetry',
  title: 'telemetry',
  description: 'Whether what gateways tell arrives, and what becomes of the telemetry that clients send to them.',
  sections: [
    {
      title: 'Of gateways',
      panels: [
        areas({
          title: 'Dropped',
          description: 'What did not reach its destination, by why. Requests are never held up by telemetry.',
          queries: [
            [
              q.rate('gateway.telemetry.dropped', [
                'gateway.telemetry.signal',
                'gateway.telemetry.destination',
                'gateway.telemetry.reason',
              ]),
              '{{gateway_telemetry_signal}} to {{gateway_telemetry_destination}}: {{gateway_telemetry_reason}}',
            ],
          ],
          unit: 'cps',
        }),
        lines({
          title: 'Requests to the collector',
          description: 'By whether it took them.',
          queries: [
            [
              q.rate('gateway.telemetry.sends', ['gateway.telemetry.signal', 'gateway.telemetry.outcome']),
              '{{gateway_telemetry_signal}} {{gateway_telemetry_outcome}}',
            ],
          ],
          unit: 'cps',
        }),
        lines({
          title: 'Waiting for the collector',
          description: 'Spans and log records in memory. At telemetry.otlp.queue_spans more spans are dropped.',
          queries: [
            [
              `sum by (instance, gateway_telemetry_signal) (${q.gauge('gateway.telemetry.queue.length')})`,
              '{{instance}} {{gateway_telemetry_signal}}',
            ],
          ],
          unit: 'short',
        }),
        lines({
          title: 'Series',
          description: 'Of counters and histograms of a process. Every label has few values, so this ends somewhere.',
          queries: [[`max ${EACH} (${q.gauge('gateway.telemetry.series')})`, '{{instance}}']],
          unit: 'short',
        }),
        rows({
          title: 'Metrics with too many series',
          description: 'Measurements that were counted together as otel.metric.overflow, in the time shown.',
          queries: [[q.count('gateway.telemetry.overflows', RANGE, ['gateway.telemetry.metric']), '']],
          unit: 'short',
        }),
      ],
    },
    {
      title: 'Of clients',
      panels: [
        areas({
          title: 'Received from clients',
          description: 'Spans, data points and log records that coding clients sent to the gateway.',
          queries: [
            [q.rate('gateway.client_telemetry.received', ['gateway.telemetry.signal']), '{{gateway_telemetry_signal}}'],
          ],
          unit: 'cps',
        }),
        areas({
          title: 'Taken by destinations',
          description: 'Less than what was received where names or signals are not passed on.',
          queries: [
            [
              q.rate('gateway.client_telemetry.sent', ['gateway.telemetry.signal', 'gateway.telemetry.destination']),
              '{{gateway_telemetry_signal}} to {{gateway_telemetry_destination}}',
            ],
          ],
          unit: 'cps',
        }),
        lines({
          title: 'Waiting for destinations',
          description:
            'Bytes in memory. There is a bound for each destination; what has no room is dropped and counted.',
          queries: [
            [
              `sum by (gateway_telemetry_destination) (${q.gauge('gateway.client_telemetry.queue')})`,
              '{{gateway_telemetry_destination}}',
            ],
          ],
          unit: 'bytes',
        }),
        rows({
          title: 'Not taken from clients',
          description: 'Export requests that the gateway refused, in the time shown.',
          queries: [
            [
              q.count('gateway.client_telemetry.refused', RANGE, ['gateway.telemetry.signal', 'gateway.error.code']),
              '',
            ],
          ],
          unit: 'short',
        }),
      ],
    },
  ],
};
