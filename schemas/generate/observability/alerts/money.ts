import { createQueries } from '../promql.ts';
import { RECORDED } from '../recording-rules.ts';
import type { AlertRule, RuleGroup } from '../rules.ts';

const q = createQueries('', '5m');
const used = `max by (job, gateway_rule, gateway_budget_window) (${q.gauge('gateway.budget.used_ratio')})`;

/** About money. */
export const MONEY_ALERTS: RuleGroup<AlertRule> = {
  name: 'appscli-money',
  rules: [
    {
      alert: 'ModelBudgetAlmostUsed',
      expression: `${used} > 0.9`,
      lasting: '5m',
      severity: 'info',
      summary:
        '{{ $labels.gateway_rule }} has used {{ $value | humanizePercentage }} of its {{ $labels.gateway_budget_window }}',
      description:
        'Of a limit that everybody has for themselves it is whoever has used most. appscli limits shows who, and can grant more.',
    },
    {
      alert: 'ModelBudgetEmptySoon',
      expression: `${RECORDED.time_to_empty} < 3600 and ${used} > 0.5`,
      lasting: '10m',
      severity: 'warning',
      summary: '{{ $labels.gateway_rule }} will be used up in {{ $value | humanizeDuration }}',
      description:
        'If spending goes on as in the last hour, requests under this limit are refused from then until its window ends. appscli usage says who spends, appscli limits can grant more.',
    },
    {
      alert: 'ModelAttemptsUnconfirmed',
      expression: `${q.count('gateway.unconfirmed_attempts', '1h', ['job', 'gateway.upstream'])} > 10`,
      lasting: '0m',
      severity: 'warning',
      summary:
        '{{ $labels.gateway_upstream }} may bill {{ $value | humanize }} attempts of the last hour that it did not answer',
      description:
        'They are in the ledger as possible cost. If the bill has them, the provider took requests and lost the answers; a first_byte_seconds that is too short looks the same.',
    },
  ],
};
