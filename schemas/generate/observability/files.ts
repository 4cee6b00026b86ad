import { json } from '../json.ts';
import { GATEWAY_ALERTS } from './alerts/gateway.ts';
import { MONEY_ALERTS } from './alerts/money.ts';
import { REQUEST_ALERTS } from './alerts/requests.ts';
import { UPSTREAM_ALERTS } from './alerts/upstreams.ts';
import { dashboardJson } from './dashboard.ts';
import { DECISIONS } from './dashboards/decisions.ts';
import { GATEWAY } from './dashboards/gateway.ts';
import { MONEY } from './dashboards/money.ts';
import { REQUESTS } from './dashboards/requests.ts';
import { TELEMETRY } from './dashboards/telemetry.ts';
import { UPSTREAMS } from './dashboards/upstreams.ts';
import { RECORDING_RULES } from './recording-rules.ts';
import { ruleFile } from './rules.ts';

/** Every dashboard. */
const DASHBOARDS = [REQUESTS, MONEY, DECISIONS, UPSTREAMS, GATEWAY, TELEMETRY];
const ALERTS = [REQUEST_ALERTS, UPSTREAM_ALERTS, MONEY_ALERTS, GATEWAY_ALERTS];

/** The text of the files of `examples/observability/` that are generated, by their path in it. */
export function observabilityFiles(): readonly (readonly [path: string, text: string])[] {
  return [
    ...DASHBOARDS.map(
      (dashboard) => [`grafana/dashboards/${dashboard.id}.json`, json(dashboardJson(dashboard))] as const,
    ),
    ['prometheus/recording-rules.yaml', ruleFile(RECORDING_RULES)],
    ['prometheus/alert-rules.yaml', ruleFile(ALERTS)],
  ];
}
