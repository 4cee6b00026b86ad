/** Checks what must fit together in routes, and in what is said of upstreams that fail. */
import type { GatewayConfig, RouteUpstream } from '../../contract/config.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, itemsOf, type MapNode, type Mark, type Node, nodeAt, textOf } from '../../source/node.ts';
import { repeated } from '../repeated.ts';
import { reportExclusive } from './link-keys.ts';

/** A list of upstreams as it stands in the file, with what it is after defaults. */
export interface WrittenRoute {
  /** The default route, or the name of the rule. */
  readonly name: string;
  readonly upstreams: readonly RouteUpstream[];
  /** JSON pointer of the list; `undefined` where the route is written as one upstream. */
  readonly pointer: string | undefined;
}

/** Whether a route is written as one upstream or as several, and no upstream stands there twice; tolerates refused values. */
export function linkRoute(
  owner: Node | undefined,
  [one, several]: readonly [string, string],
  findings: Findings,
): void {
  reportExclusive(owner, [one, several], findings);
  const names = itemsOf(childOf(owner, several)).map((entry) => childOf(entry, 'upstream') ?? entry);
  for (const [node, first] of repeated(names, textOf)) {
    findings.report('C3010', node.mark, `${quote(textOf(node)!)} is listed twice`, {
      help: `remove one of the two: the first is in line ${first.mark.line}; \`weight\` says how much goes there`,
    });
  }
}

/** The routes of a configuration that are in force or in shadow mode, the default one last. */
export function writtenRoutes({ routing }: GatewayConfig, root: MapNode): readonly WrittenRoute[] {
  const listAt = (pointer: string) => (nodeAt(root, pointer).kind === 'list' ? pointer : undefined);
  return [
    ...routing.rules.map(({ name, upstreams }, index) => {
      return { name, upstreams, pointer: listAt(`/routing/rules/${index}/upstreams`) };
    }),
    { name: 'default', upstreams: routing.default_upstreams, pointer: listAt('/routing/default_upstreams') },
  ];
}

/** Where something is said of an entry of a route: at one of its keys, or at its name. */
export function markOfEntry(root: MapNode, { pointer }: WrittenRoute, index: number, key?: string): Mark {
  const entry = nodeAt(root, `${pointer}/${index}`);
  return ((key === undefined ? undefined : childOf(entry, key)) ?? childOf(entry, 'upstream') ?? entry).mark;
}

/** Checks routes and breakers after defaults are filled in. */
export function checkRoutes(config: GatewayConfig, root: MapNode, findings: Findings): void {
  for (const route of writtenRoutes(config, root)) checkWeights(route, root, findings);
  config.upstreams.forEach(({ breaker: { open_seconds, open_seconds_max } }, index) => {
    if (open_seconds <= open_seconds_max) return;
    const { mark } =
      childOf(nodeAt(root, `/upstreams/${index}/breaker`), 'open_seconds_max') ??
      childOf(nodeAt(root, `/upstreams/${index}/breaker`), 'open_seconds')!;
    findings.report('C4023', mark, 'the breaker opens for longer than the longest time it may', {
      found: `open_seconds: ${open_seconds}, open_seconds_max: ${open_seconds_max}`,
      expected: 'open_seconds_max to be open_seconds or more',
      help: `write open_seconds_max: ${open_seconds}, or a shorter open_seconds`,
    });
  });
}

/** Upstreams of one order that each serve only what another of them cannot would wait for each other. */
function checkWeights(route: WrittenRoute, root: MapNode, findings: Findings): void {
  const { upstreams, pointer } = route;
  if (pointer === undefined) return;
  for (const [order, entries] of Map.groupBy(upstreams, (entry) => entry.order)) {
    if (entries.some(({ weight }) => weight > 0)) continue;
    const index = upstreams.indexOf(entries[0]!);
    const alone = entries.length === 1;
    const message = alone
      ? `the weight of ${quote(entries[0]!.upstream)} is 0, and no other upstream has the order ${order}`
      : `the weights of all upstreams of order ${order} are 0`;
    findings.report('C4023', markOfEntry(root, route, index, 'weight'), message, {
      expected: 'an upstream of the same order with a weight above 0',
      help: alone ? 'leave `weight` out: its order says when it is used' : 'give one of them a weight, such as 1',
    });
  }
}
