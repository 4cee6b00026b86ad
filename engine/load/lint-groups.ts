import type { GatewayConfig } from '../config.ts';
import type { Policy } from '../policies/policy.ts';
import { decidingGroups, MOST_TOKEN_CHARS, tokenChars } from '../services/identity/deciding-groups.ts';
import type { Findings } from './findings.ts';
import { childOf, type MapNode } from './node.ts';
import type { PipelineSpec } from './spec.ts';

/** Warns where a session token has no room for all groups that a configuration goes by. */
export function lintGroups(
  config: GatewayConfig,
  more: { readonly pipelines: readonly PipelineSpec[]; readonly policies: readonly Policy[] },
  root: MapNode,
  findings: Findings,
): void {
  const oidc = childOf(childOf(root, 'auth'), 'oidc');
  const { names } = decidingGroups(config, more);
  const chars = tokenChars(names);
  if (oidc === undefined || chars <= MOST_TOKEN_CHARS) return;
  const message = `a session token has no room for all ${names.size} groups that the configuration names`;
  const why = `with them it would have about ${chars} characters, and has ${MOST_TOKEN_CHARS} at most`;
  findings.report('W7057', oidc.mark, message, {
    help: `${why}; the groups of somebody in too many of them are read from the database, so none is lost`,
  });
}
