import { didYouMean } from '../../kit/text/suggest.ts';
import { DECISIVE_NAMES, fieldRule } from '../../protocols/body/field-rules.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, itemsOf, type Node, textOf } from '../../source/node.ts';
import { DECISIVE_HEADERS, isDecisiveHeader } from '../../upstreams/decisive-headers.ts';
import { traceHeaderOf } from '../../upstreams/trace-headers.ts';

const SEE = 'see the reference of decisive fields';

/** Whether a field, by its place as in `moderation.model`, could be refused. */
function isRefusable(field: string): boolean {
  const keys = field.replaceAll('[]', '').split('.');
  const rule = fieldRule(keys.at(-1)!, keys.length === 1);
  return field === 'tools[]' || (rule !== undefined && rule.rule !== 'pass');
}

const HEADERS = DECISIVE_HEADERS.map(({ name }) => name);

const HELP = {
  baggage: 'take it out: baggage never reaches an upstream',
  trace: 'take it out: telemetry.propagate says what upstreams get of the trace of a request',
} as const;

/** Finds names in `allow_fields` and `allow_headers` that need no allowance: most likely they are misspelt. */
export function linkAllowed(upstream: Node, findings: Findings): void {
  const report = ({ mark }: Node, problem: string, name: string, known: readonly string[]) =>
    findings.report('W7032', mark, `the ${problem} anywhere`, { help: didYouMean(name, known, SEE) });
  for (const node of itemsOf(childOf(upstream, 'allow_fields'))) {
    const field = textOf(node);
    if (field === undefined || isRefusable(field)) continue;
    report(node, `field ${quote(field)} is not refused`, field, DECISIVE_NAMES);
  }
  for (const node of itemsOf(childOf(upstream, 'allow_headers'))) {
    const header = textOf(node);
    if (header === undefined || isDecisiveHeader(header)) continue;
    const carries = traceHeaderOf(header.toLowerCase());
    if (carries !== undefined) {
      const help = HELP[carries];
      findings.report('W7032', node.mark, `whether the header ${quote(header)} passes is not decided here`, { help });
      continue;
    }
    report(node, `header ${quote(header)} is not dropped`, header, HEADERS);
  }
}
