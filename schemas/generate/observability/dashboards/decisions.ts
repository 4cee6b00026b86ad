import { type Dashboard, PICKED, RATE_RANGE } from '../dashboard.ts';
import { areas, bars, lines, rows } from '../panels.ts';
import { createQueries } from '../promql.ts';

const q = createQueries(PICKED, RATE_RANGE);
const RANGE = '$__range';
const RULE = ['gateway.decision.kind', 'gateway.rule', 'gateway.decision.outcome'] as const;
const RULE_LEGEND = '{{gateway_rule}}: {{gateway_decision_outcome}}';

/** What rules decided, and what those in shadow mode would have. */
export const DECISIONS: Dashboard = {
  id: 'decisions',
  title: 'refusals and rules',
  description:
    'Which requests were refused and by which rule, what rules decided, and what rules in shadow mode would have.',
  sections: [
    {
      title: 'Refusals',
      panels: [
        areas({
          title: 'Refusals by rule',
          description: 'Requests that a limit or a policy refused.',
          queries: [[q.rate('gateway.refusals', ['gateway.rule'], { 'gateway.rule': /.+/ }), '{{gateway_rule}}']],
          unit: 'reqps',
        }),
        areas({
          title: 'Refusals by code',
          description:
            'Code of the error, as in the reference of errors. It includes what the gateway failed at itself.',
          queries: [[q.rate('gateway.refusals', ['gateway.error.code']), '{{gateway_error_code}}']],
          unit: 'reqps',
        }),
        bars({
          title: 'Rules that refused most',
          description: 'In the time shown.',
          queries: [
            [
              `topk(20, ${q.count('gateway.refusals', RANGE, ['gateway.rule'], { 'gateway.rule': /.+/ })})`,
              '{{gateway_rule}}',
            ],
          ],
          unit: 'short',
        }),
        rows({
          title: 'Refusals',
          description:
            'In the time shown, by team where `telemetry.metrics.team` is on. Traces of refusals are always kept.',
          queries: [
            [
              q.count('gateway.refusals', RANGE, [
                'gateway.error.code',
                'gateway.rule',
                'gateway.surface',
                'gateway.team',
              ]),
              '',
            ],
          ],
          unit: 'short',
        }),
      ],
    },
    {
      title: 'Shadow mode',
      panels: [
        lines({
          title: 'What rules in shadow mode would have decided',
          description: 'Nothing of it happened. Watch a new rule here before it is enforced.',
          queries: [[q.rate('gateway.decisions', RULE, { 'gateway.rule.mode': 'shadow' }), RULE_LEGEND]],
          unit: 'reqps',
        }),
        bars({
          title: 'Part of requests that a shadow rule would have decided',
          description: 'In the time shown, of all requests.',
          queries: [
            [
              `${q.count('gateway.decisions', RANGE, ['gateway.rule'], { 'gateway.rule.mode': 'shadow' })} / scalar(${q.count('gateway.requests', RANGE)})`,
              '{{gateway_rule}}',
            ],
          ],
          unit: 'percentunit',
        }),
      ],
    },
    {
      title: 'In force',
      panels: [
        lines({
          title: 'What rules decided',
          description: 'Routes that were chosen, limits that refused, policies that hid or served something.',
          queries: [[q.rate('gateway.decisions', RULE, { 'gateway.rule.mode': 'enforce' }), RULE_LEGEND]],
          unit: 'reqps',
        }),
        rows({
          title: 'Decisions',
          description: 'In the time shown. A rule that is not here decided nothing.',
          queries: [[q.count('gateway.decisions', RANGE, [...RULE, 'gateway.rule.mode']), '']],
          unit: 'short',
        }),
      ],
    },
  ],
};
