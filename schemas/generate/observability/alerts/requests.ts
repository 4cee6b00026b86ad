import { createQueries } from '../promql.ts';
import { RECORDED } from '../recording-rules.ts';
import type { AlertRule, RuleGroup } from '../rules.ts';

const q = createQueries('', '5m');

/** About requests that clients made. */
export const REQUEST_ALERTS: RuleGroup<AlertRule> = {
  name: 'appscli-requests',
  rules: [
    {
      alert: 'ModelGatewayAbsent',
      expression: `absent(${q.gauge('gateway.build.info')})`,
      lasting: '5m',
      severity: 'critical',
      summary: 'No model gateway reports',
      description:
        'No series of any gateway has arrived for five minutes. Either none runs, or its metrics do not get here: ask /healthz of a gateway, then the collector.',
    },
    {
      alert: 'ModelGatewayRequestsFail',
      expression: `${RECORDED.failed} > 0.05 and ${RECORDED.requests} > 0.05`,
      lasting: '10m',
      severity: 'critical',
      summary: '{{ $value | humanizePercentage }} of requests fail',
      description:
        'More than 5 % of requests of {{ $labels.job }} have been answered 5xx for ten minutes, after every other upstream was tried. The dashboard of upstreams says whose attempts fail, that of refusals what the gateway itself failed at.',
    },
    {
      alert: 'ModelGatewayRefusesMany',
      expression: `${RECORDED.refused} > 0.3 and ${RECORDED.requests} > 0.05`,
      lasting: '15m',
      severity: 'warning',
      summary: '{{ $value | humanizePercentage }} of requests are refused',
      description:
        'The gateway of {{ $labels.job }} refuses almost every third request or more. A limit that is too low, a model that was renamed or a client with an old token looks like this; the dashboard of refusals names the rule and the code.',
    },
    {
      alert: 'ModelGatewayCredentialsRefused',
      expression: `${q.rate('gateway.refusals', ['job'], { 'gateway.error.code': /credential_.*/ })} > 1`,
      lasting: '10m',
      severity: 'warning',
      summary: '{{ $value | humanize }} requests per second with a wrong credential',
      description:
        'Somebody tries tokens, or a program goes on with one that has expired. The audit log has the addresses: appscli audit tail.',
    },
    {
      alert: 'ModelGatewaySlow',
      expression: `${RECORDED.overhead} > 0.25 and ${RECORDED.requests} > 0.05`,
      lasting: '15m',
      severity: 'warning',
      summary: "The gateway's own time is {{ $value | humanizeDuration }} (99 %)",
      description:
        'From the head of a request until its first attempt begins, one in a hundred requests of {{ $labels.job }} takes longer than 250 ms. Clients that send slowly make it longer too; else look at the event loop and the database on the dashboard of the gateway.',
    },
  ],
};
