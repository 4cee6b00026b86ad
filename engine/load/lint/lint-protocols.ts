import type { GatewayConfig, UpstreamConfig } from '../../contract/config.ts';
import { protocolOf } from '../../contract/protocol.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import type { LinkedPipeline } from '../flow.ts';
import type { LinkedStage } from '../link/link-stages.ts';

const isThere =
  (name: string) =>
  ({ entry }: LinkedStage): boolean =>
    entry.mode === 'enforce' && entry.definition.name === name;

/** Warns about upstreams that clients of a pipeline cannot reach, because nothing in it translates to their protocol. */
export function lintProtocols(
  { stages }: LinkedPipeline,
  protocol: string,
  config: GatewayConfig | undefined,
  findings: Findings,
): void {
  const spoken = protocol === 'count_tokens' ? undefined : protocolOf(protocol);
  const at = stages.findIndex(isThere('forward'));
  if (config === undefined || spoken === undefined || at < 0 || stages.slice(0, at).some(isThere('translate'))) return;
  const routes = routesOf(config);
  const speaks = ({ protocols }: UpstreamConfig) => protocols.includes(spoken);
  const refused = routes.find((upstreams) => !upstreams.some(speaks));
  const foreign = (refused ?? routes.flat()).find((upstream) => !speaks(upstream));
  if (foreign === undefined) return;
  const sender = stages[at]!;
  const message =
    refused === undefined
      ? 'requests never go to an upstream of another protocol, even if others fail'
      : 'requests routed to an upstream of another protocol are refused';
  const why = `${quote(foreign.name)} speaks ${foreign.protocols.join(' and ')}, not ${spoken}`;
  findings.report('W7025', sender.mark, `${message}: ${why}`, {
    help: `add \`- stage: translate\` above ${quote(sender.entry.id)}`,
  });
}

/** The upstreams of each route in force. */
function routesOf({ upstreams, routing }: GatewayConfig): readonly (readonly UpstreamConfig[])[] {
  const in_force = routing.rules.filter(({ mode }) => mode === 'enforce');
  return [...in_force.map((rule) => rule.upstreams), routing.default_upstreams].map((entries) =>
    entries.map((entry) => upstreams.find(({ name }) => name === entry.upstream)!),
  );
}
