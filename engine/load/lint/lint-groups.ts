import type { GatewayConfig } from '../../contract/config.ts';
import { decidingGroups, MOST_TOKEN_CHARS, tokenChars } from '../../identity/provider/deciding-groups.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, type MapNode } from '../../source/node.ts';
import type { PipelineSpec, Policy } from '../../source/spec.ts';

/** Warns where a session token has no room for all groups that a configuration goes by. */
export function lintGroups(
  config: GatewayConfig,
  more: { readonly pipelines: readonly PipelineSpec[]; readonly policies: readonly Policy[] },
  root: MapNode,
  findings: Findings,
): void {
  const oidc = childOf(root, 'auth', 'oidc');
  const { names } = decidingGroups(config, more);
  const chars = tokenChars(names);
  if (oidc === undefined || chars <= MOST_TOKEN_CHARS) return;
  const message = `a session token has no room for all ${names.size} groups that the configuration names`;
  const why = `with them it would have about ${chars} characters, and has ${MOST_TOKEN_CHARS} at most`;
  findings.report('W7057', oidc.mark, message, {
    help: `${why}; the groups of somebody in too many of them are read from the database, so none is lost`,
  });
}
