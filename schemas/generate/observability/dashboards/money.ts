import { type Dashboard, PICKED, RATE_RANGE } from '../dashboard.ts';
import { areas, bars, lines, number, rows } from '../panels.ts';
import { createQueries, timeToEmpty } from '../promql.ts';

const q = createQueries(PICKED, RATE_RANGE);
const RANGE = '$__range';

/** What requests cost, and what is left of limits. */
export const MONEY: Dashboard = {
  id: 'money',
  title: 'cost and budgets',
  description: 'What requests cost, who spent it, and when limits will be used up.',
  sections: [
    {
      title: 'Spent in the time shown',
      panels: [
        number({
          title: 'Cost',
          description: 'By the prices of gateway.yaml.',
          queries: [[q.count('gateway.cost', RANGE), 'cost']],
          unit: 'currencyUSD',
          width: 6,
        }),
        number({
          title: 'Cost per hour, now',
          description: 'What the next hour costs if nothing changes.',
          queries: [[`3600 * ${q.rate('gateway.cost')}`, 'per hour']],
          unit: 'currencyUSD',
          width: 6,
        }),
        number({
          title: 'Cost of a thousand requests',
          description: 'Of all requests that are over, refused ones included.',
          queries: [[`1000 * ${q.count('gateway.cost', RANGE)} / ${q.count('gateway.requests', RANGE)}`, 'per 1,000']],
          unit: 'currencyUSD',
          width: 6,
        }),
        number({
          title: 'Possibly billed',
          description:
            'What upstreams may bill for attempts they did not answer. It is in no limit and no ledger as spent; compare with the bill.',
          queries: [[`${q.count('gateway.cost.possible', RANGE)} or vector(0)`, 'possible']],
          unit: 'currencyUSD',
          width: 6,
        }),
        areas({
          title: 'Cost per hour by model',
          description: 'US dollars per hour.',
          queries: [[`3600 * ${q.rate('gateway.cost', ['gateway.model'])}`, '{{gateway_model}}']],
          unit: 'currencyUSD',
        }),
        areas({
          title: 'Cost per hour by upstream',
          description: 'US dollars per hour.',
          queries: [[`3600 * ${q.rate('gateway.cost', ['gateway.upstream'])}`, '{{gateway_upstream}}']],
          unit: 'currencyUSD',
        }),
        bars({
          title: 'Cost by team',
          description: 'In the time shown. One bar without a name unless `telemetry.metrics.team` is on.',
          queries: [[`topk(20, ${q.count('gateway.cost', RANGE, ['gateway.team'])})`, '{{gateway_team}}']],
          unit: 'currencyUSD',
        }),
        areas({
          title: 'Tokens per second',
          description: 'By what they are priced as. No token counts twice.',
          queries: [[q.rate('gateway.tokens', ['gateway.token.type']), '{{gateway_token_type}}']],
          unit: 'cps',
        }),
      ],
    },
    {
      title: 'Limits',
      panels: [
        bars({
          title: 'Used',
          description:
            'Spent and reserved, of whoever has used most of the limit. At 100 % requests are refused (or counted, in shadow mode).',
          queries: [
            [
              `max by (gateway_rule, gateway_budget_window) (${q.gauge('gateway.budget.used_ratio')})`,
              '{{gateway_rule}}, {{gateway_budget_window}}',
            ],
          ],
          unit: 'percentunit',
          max: 1,
          steps: [
            [0.75, 'yellow'],
            [0.9, 'red'],
          ],
        }),
        rows({
          title: 'Time to empty',
          description:
            'When a limit will be used up, if spending goes on as in the last hour. A limit that will last until its window ends is not listed.',
          queries: [[timeToEmpty(q, '1h'), '']],
          unit: 's',
        }),
        lines({
          title: 'Used over time',
          description: 'It falls when a window ends.',
          queries: [
            [
              `max by (gateway_rule, gateway_budget_window) (${q.gauge('gateway.budget.used_ratio')})`,
              '{{gateway_rule}}, {{gateway_budget_window}}',
            ],
          ],
          unit: 'percentunit',
        }),
        lines({
          title: 'Left',
          description: 'US dollars that are left of a limit, of whoever has used most of it.',
          queries: [
            [
              `min by (gateway_rule, gateway_budget_window) (${q.gauge('gateway.budget.remaining')})`,
              '{{gateway_rule}}, {{gateway_budget_window}}',
            ],
          ],
          unit: 'currencyUSD',
        }),
      ],
    },
    {
      title: 'Beside the ledger and beyond limits',
      panels: [
        lines({
          title: 'Unconfirmed attempts',
          description: 'Attempts that an upstream may have accepted and did not answer.',
          queries: [[q.rate('gateway.unconfirmed_attempts', ['gateway.upstream']), '{{gateway_upstream}}']],
          unit: 'cps',
        }),
        bars({
          title: 'How far limits can be passed',
          description:
            'At most, by requests that are under way together, as appscli check --verbose prints it. What is in no bound is printed there too.',
          queries: [[`max by (gateway_rule) (${q.gauge('gateway.overshoot.bound')})`, '{{gateway_rule}}']],
          unit: 'currencyUSD',
        }),
      ],
    },
  ],
};
