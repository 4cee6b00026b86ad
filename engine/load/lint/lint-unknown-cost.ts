import type { GatewayConfig } from '../../contract/config.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import type { LinkedPipeline } from '../flow.ts';

/** Warns about requests that leave though nothing says what they cost, where limits in money are meant to count them. */
export function lintUnknownCost(
  { stages }: LinkedPipeline,
  config: GatewayConfig | undefined,
  findings: Findings,
): void {
  if (config?.spend_limits === undefined) return;
  for (const { entry, mark } of stages) {
    const { unknown_cost } = (entry.options ?? {}) as { unknown_cost?: string };
    if (entry.definition.name !== 'route-to' || unknown_cost !== 'allow') continue;
    const message = `no limit in money counts what ${quote(entry.id)} sends without knowing what it costs`;
    findings.report('W7240', mark, message, {
      help: 'say what one request costs, such as `per_request_usd: 0.05`, in the place of `unknown_cost: allow`',
    });
  }
}
