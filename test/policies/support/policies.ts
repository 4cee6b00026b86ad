import { createFindings } from '../../../engine/load/findings.ts';
import type { MapNode } from '../../../engine/load/node.ts';
import { parseSource } from '../../../engine/load/source.ts';
import type { Policy } from '../../../engine/policies/policy.ts';

/** Settings as they would stand in a file; JSON is YAML. */
export function settingsNode(settings: object): MapNode {
  const findings = createFindings();
  const node = parseSource('settings', JSON.stringify(settings), findings);
  if (node === undefined) throw new Error(JSON.stringify(findings.diagnostics()));
  return node;
}

/** A policy without a file. */
export function policy(
  name: string,
  settings: object,
  more: { groups?: string[]; email_domains?: string[]; priority?: number } = {},
): Policy {
  const { groups = [], email_domains = [], priority = 0 } = more;
  return {
    name,
    version: 1,
    summary: '',
    file: `/${name}.yaml`,
    match: { groups, email_domains },
    priority,
    settings: settingsNode(settings),
  };
}
