import type { GatewayConfig } from '../../contract/config.ts';
import { protocolOf } from '../../contract/protocol.ts';
import { listed } from '../../kit/text/suggest.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, itemsOf, type MapNode } from '../../source/node.ts';
import type { PipelineSpec } from '../../source/spec.ts';
import { reaches } from '../../upstreams/routes/reaches.ts';

/** Domains that are nobody's (RFC 2606, RFC 6761): an address there is one that is still to be replaced. */
const RESERVED = /(?:^|\.)(?:example(?:\.(?:com|net|org))?|test|invalid)\.?$/;

/** Warns about what requests need that a pipeline translates into Messages: names of headers, bounds of models. */
export function lintTranslation(
  config: GatewayConfig,
  pipelines: readonly PipelineSpec[],
  root: MapNode,
  findings: Findings,
): void {
  const names = pipelines.filter(translatesToMessages).map(({ name }) => name);
  if (names.length === 0) return;
  lintHeaderNames(config, names, root, findings);
  lintBounds(config, names, root, findings);
}

/** Whether clients of another protocol are served, and what they ask is translated before it is sent. */
function translatesToMessages({ match, stages }: PipelineSpec): boolean {
  const protocol = protocolOf(match.protocol);
  if (protocol === undefined || protocol === 'messages') return false;
  return stages.some(({ definition, mode }) => definition.name === 'translate' && mode === 'enforce');
}

function lintHeaderNames(
  { upstreams, models, routing }: GatewayConfig,
  pipelines: readonly string[],
  root: MapNode,
  findings: Findings,
): void {
  const reached = new Set(models.flatMap((model) => [...reaches(model, routing)]));
  for (const [index, upstream] of upstreams.entries()) {
    const { name, base_url, protocols, profile } = upstream;
    if (profile !== undefined || protocols[0] !== 'messages' || RESERVED.test(new URL(base_url).hostname)) continue;
    if (!reached.has(name)) continue;
    const node = itemsOf(childOf(root, 'upstreams'))[index];
    const { mark } = childOf(node, 'base_url') ?? node!;
    findings.report('W7026', mark, `whose header names the upstream ${quote(name)} takes is not known`, {
      expected: `\`profile\`: requests are translated into Messages by ${listed(pipelines)}`,
      help: 'write `profile: anthropic` beside the `base_url`, or a file with other names',
    });
  }
}

function lintBounds(
  { upstreams, models, routing }: GatewayConfig,
  pipelines: readonly string[],
  root: MapNode,
  findings: Findings,
): void {
  const vendors = upstreams.filter(({ protocols }) => protocols[0] === 'messages').map(({ name }) => name);
  for (const [index, model] of models.entries()) {
    if (!model.assumed.includes('max_output_tokens')) continue;
    const reached = reaches(model, routing);
    if (!vendors.some((name) => reached.has(name))) continue;
    const node = itemsOf(childOf(root, 'models'))[index];
    const { mark } = childOf(node, 'id') ?? node!;
    const sent = `max_tokens: ${model.default_output_tokens}`;
    findings.report('W7027', mark, `how much the model ${quote(model.id)} can say in one answer is not known`, {
      help: `write max_output_tokens; without it requests that say no bound get ${sent} in ${listed(pipelines)}`,
    });
  }
}
