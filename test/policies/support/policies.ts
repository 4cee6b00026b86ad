import { createFindings } from '../../../engine/base/source/findings.ts';
import type { MapNode } from '../../../engine/base/source/node.ts';
import { parseSource } from '../../../engine/base/source/source.ts';
import type { Policy } from '../../../engine/base/source/spec.ts';

/** Settings as they would stand in a file; JSON is YAML. */
export function settingsNode(settings: object): MapNode {
  const findings = createFindings();
  const node = parseSource('settings', JSON.stringify(settings), findings);
  if (node === undefined) throw new Error(JSON.stringify(findings.diagnostics()));
  return node;
}

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
