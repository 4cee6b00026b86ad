import { didYouMean } from '../../kit/text/suggest.ts';
import { DECISIVE_NAMES, fieldRule } from '../../protocols/body/field-rules.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, itemsOf, type Node, textOf } from '../../source/node.ts';
import { DECISIVE_HEADERS, isDecisiveHeader } from '../../upstreams/decisive-headers.ts';

const SEE = 'see the reference of decisive fields';

/** Whether a field, by its place as in `moderation.model`, could be refused. */
function isRefusable(field: string): boolean {
  const keys = field.replaceAll('[]', '').split('.');
  const rule = fieldRule(keys.at(-1)!, keys.length === 1);
  return field === 'tools[]' || (rule !== undefined && rule.rule !== 'pass');
}

/** Finds names in `allow_fields` and `allow_headers` that need no allowance: most likely they are misspelt. */
export function linkAllowed(upstream: Node, findings: Findings): void {
  for (const node of itemsOf(childOf(upstream, 'allow_fields'))) {
    const field = textOf(node);
    if (field === undefined || isRefusable(field)) continue;
    findings.report('W7032', node.mark, `the field ${quote(field)} is not refused anywhere`, {
      help: didYouMean(field, DECISIVE_NAMES, SEE) ?? SEE,
    });
  }
  for (const node of itemsOf(childOf(upstream, 'allow_headers'))) {
    const header = textOf(node);
    if (header === undefined || isDecisiveHeader(header)) continue;
    const names = DECISIVE_HEADERS.map(({ name }) => name);
    findings.report('W7032', node.mark, `the header ${quote(header)} is not dropped anywhere`, {
      help: didYouMean(header, names, SEE) ?? SEE,
    });
  }
}
