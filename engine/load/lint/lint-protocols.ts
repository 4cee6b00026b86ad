import type { UpstreamConfig } from '../../contract/config.ts';
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
  upstreams: readonly UpstreamConfig[],
  findings: Findings,
): void {
  const spoken = protocol === 'count_tokens' ? undefined : protocolOf(protocol);
  const at = stages.findIndex(isThere('forward'));
  if (spoken === undefined || at < 0 || stages.slice(0, at).some(isThere('translate'))) return;
  const [upstream] = upstreams.filter(({ protocols }) => !protocols.includes(spoken));
  if (upstream === undefined) return;
  const speaks = `${quote(upstream.name)} speaks ${upstream.protocols.join(' and ')}, not ${spoken}`;
  const sender = stages[at]!;
  findings.report('W7025', sender.mark, `requests routed to an upstream of another protocol are refused: ${speaks}`, {
    help: `add \`- stage: translate\` above ${quote(sender.entry.id)}`,
  });
}
