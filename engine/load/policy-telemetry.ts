import {
  CONTENT_VARIABLES,
  NEUTRAL_FEATURE_PREFIX,
  type Signal,
  telemetryVariables,
} from '../contract/client-telemetry.ts';
import type { GatewayConfig } from '../contract/config.ts';
import { mergeSettings } from '../identity/policies/merge.ts';
import { keyName } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import {
  childOf,
  entriesOf,
  itemsOf,
  type ListNode,
  type MapNode,
  type Mark,
  type Node,
  textOf,
} from '../source/node.ts';

type ServerConfig = Pick<GatewayConfig, 'server' | 'telemetry'>;

/**
 * The settings of a policy with the variables that make clients send these signals; what the policy itself sets stays. There
 * is no address: who has managed settings has signed in, and with one the client would have each person approve it first.
 */
export function withTelemetry(settings: MapNode, signals: Node | undefined, { server }: ServerConfig): MapNode {
  if (signals?.kind !== 'list') return settings;
  const feature_prefix = server.profile.clients?.messages?.feature_prefix ?? NEUTRAL_FEATURE_PREFIX;
  const variables = telemetryVariables(signalsOf(signals), { feature_prefix });
  const { mark } = signals;
  const env: MapNode = {
    kind: 'map',
    mark,
    entries: Object.entries(variables).map(([key, value]) => ({ key, key_mark: mark, value: textNode(value, mark) })),
  };
  return mergeSettings({ kind: 'map', mark, entries: [{ key: 'env', key_mark: mark, value: env }] }, settings);
}

function textNode(value: string, mark: Mark): Node {
  return { kind: 'scalar', value, mark, range: [0, 0] };
}

function signalsOf(signals: ListNode): Signal[] {
  return itemsOf(signals).map((item) => textOf(item) as Signal);
}

/** Reports telemetry that no client would send, or that would go nowhere. */
export function checkTelemetry(
  signals: Node | undefined,
  { server, telemetry }: ServerConfig,
  findings: Findings,
): void {
  const items = itemsOf(signals);
  if (items.length === 0) return;
  if (server.profile.clients?.messages?.feature_prefix === undefined) {
    const message = `no client will send it: the variable is called ${NEUTRAL_FEATURE_PREFIX}_ENABLE_TELEMETRY where no profile has a name for it`;
    findings.report('W7068', signals!.mark, message, {
      help: 'name a profile with the names of your clients under `server.profile` of gateway.yaml',
    });
  }
  for (const item of items) {
    const signal = textOf(item) as Signal;
    if (telemetry.forward_to.some((destination) => destination[signal])) continue;
    findings.report('W7066', item.mark, `clients will send ${signal} to the gateway, which sends them on to nobody`, {
      help:
        telemetry.forward_to.length === 0
          ? 'name a destination under `telemetry.forward_to` of gateway.yaml'
          : `set \`${signal}: true\` at a destination under \`telemetry.forward_to\` of gateway.yaml`,
    });
  }
}

/** Values with which clients leave texts out. */
const OFF = /^(?:0|false|no|off)?$/i;

/** Reports variables that put the texts of prompts, answers or tools into the telemetry of clients. */
export function checkContent(settings: MapNode, findings: Findings): void {
  for (const { key, value } of entriesOf(childOf(settings, 'env'))) {
    const is_off = value.kind !== 'scalar' || OFF.test(String(value.value ?? ''));
    if (is_off || !(CONTENT_VARIABLES as readonly string[]).includes(key)) continue;
    findings.report('W7067', value.mark, `${keyName(key)} puts texts of people's work into their telemetry`, {
      help: 'remove it, or accept it with the reason: allow: { W7067: "..." }',
    });
  }
}
