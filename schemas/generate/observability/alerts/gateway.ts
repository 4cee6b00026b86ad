import { createQueries } from '../promql.ts';
import type { AlertRule, RuleGroup } from '../rules.ts';

const q = createQueries('', '5m');

/** About the gateway as a program. */
export const GATEWAY_ALERTS: RuleGroup<AlertRule> = {
  name: 'appscli-gateway',
  rules: [
    {
      alert: 'ModelGatewayReloadFails',
      expression: `${q.gauge('gateway.config.reload_ok')} == 0`,
      lasting: '5m',
      severity: 'warning',
      summary: '{{ $labels.instance }} does not take its new configuration',
      description:
        'Its files hold a configuration with mistakes, so the one before stays in force, and the next start would fail. appscli check says what is wrong.',
    },
    {
      alert: 'ModelGatewayConfigurationsDiffer',
      expression: `count by (job) (count by (job, gateway_config_hash) (${q.gauge('gateway.build.info')})) > 1`,
      lasting: '15m',
      severity: 'warning',
      summary: 'Gateways of {{ $labels.job }} run {{ $value }} different configurations',
      description:
        'What a request may do and costs depends on which gateway it meets. A gateway that did not reload, or files that reached only some machines. The dashboard of the gateway lists who runs what.',
    },
    {
      alert: 'ModelGatewayDatabaseAway',
      expression: `${q.gauge('gateway.database.up')} == 0`,
      lasting: '2m',
      severity: 'critical',
      summary: '{{ $labels.instance }} does not reach its database',
      description:
        'With on_store_error: allow requests go on and are written down on the disk, and limits are not enforced; with deny they are refused.',
    },
    {
      alert: 'ModelLedgerLate',
      expression: `max by (job, instance, gateway_waiting_place) (${q.gauge('gateway.ledger.lag')}) > 300`,
      lasting: '0m',
      severity: 'warning',
      summary: 'Requests have waited {{ $value | humanizeDuration }} for the ledger of {{ $labels.instance }}',
      description:
        'They wait in the {{ $labels.gateway_waiting_place }}. Limits do not know of what they cost yet beyond what is reserved. Look at the database; appscli ledger verify says afterwards whether the money adds up.',
    },
    {
      alert: 'ModelSpoolFills',
      expression: `${q.gauge('gateway.spool.size')} / ${q.gauge('gateway.spool.limit')} > 0.5`,
      lasting: '0m',
      severity: 'critical',
      summary: 'The spool of {{ $labels.instance }} is {{ $value | humanizePercentage }} full',
      description: 'When it is full, requests are refused until the database is back.',
    },
    {
      alert: 'ModelAuditRecordsLost',
      expression: `${q.count('gateway.audit.lost', '15m', ['job', 'instance'])} > 0`,
      lasting: '0m',
      severity: 'critical',
      summary: '{{ $labels.instance }} lost {{ $value | humanize }} audit records',
      description:
        'The database was away for too long, or could not store them. Their requests are in the ledger all the same.',
    },
    {
      alert: 'ModelUpstreamTakesNoRequests',
      expression: `max by (job, gateway_upstream, gateway_breaker_state) (${q.gauge('gateway.breaker.state', { 'gateway.breaker.state': { not: /closed|half_open|drained/ }, 'gateway.breaker.mode': { not: 'shadow' } })}) == 1`,
      lasting: '10m',
      severity: 'warning',
      summary: '{{ $labels.gateway_upstream }} gets no requests: {{ $labels.gateway_breaker_state }}',
      description:
        'Its breaker is open, its account is limited, its credential is refused or a model is missing there, for ten minutes, at one gateway at least. appscli upstreams list says since when and why.',
    },
    {
      alert: 'ModelGatewayFull',
      expression: `${q.gauge('gateway.connections')} / ${q.gauge('gateway.connections.limit')} > 0.8 or ${q.gauge('gateway.bodies.held')} / ${q.gauge('gateway.bodies.limit')} > 0.8`,
      lasting: '5m',
      severity: 'warning',
      summary: '{{ $labels.instance }} has {{ $value | humanizePercentage }} of its room taken',
      description:
        'Connections or bytes of bodies; at 100 % requests are refused as overloaded. More gateways, or larger limits if there is memory.',
    },
    {
      alert: 'ModelGatewayEventLoopLate',
      expression: `${q.gauge('nodejs.eventloop.delay.p99')} > 0.1`,
      lasting: '10m',
      severity: 'warning',
      summary: 'The event loop of {{ $labels.instance }} is {{ $value | humanizeDuration }} late',
      description:
        'Every stream of this process stutters. It has too many requests for one processor, or a stage of your own computes for too long.',
    },
    {
      alert: 'ModelTelemetryDropped',
      expression: `${q.count('gateway.telemetry.dropped', '15m', ['job', 'gateway.telemetry.signal', 'gateway.telemetry.destination', 'gateway.telemetry.reason'])} > 0`,
      lasting: '0m',
      severity: 'warning',
      summary:
        '{{ $value | humanize }} {{ $labels.gateway_telemetry_signal }} did not reach {{ $labels.gateway_telemetry_destination }}: {{ $labels.gateway_telemetry_reason }}',
      description:
        'Requests are not affected. Until this is mended, what is seen here is less than what happens. appscli check --live tries the destinations.',
    },
    {
      alert: 'ModelMetricOverflows',
      expression: `${q.count('gateway.telemetry.overflows', '15m', ['job', 'gateway.telemetry.metric'])} > 0`,
      lasting: '0m',
      severity: 'info',
      summary: '{{ $labels.gateway_telemetry_metric }} has as many series as it may',
      description:
        'New combinations of its labels are counted together as otel.metric.overflow. Switch telemetry.metrics.team off if there are very many teams.',
    },
  ],
};
