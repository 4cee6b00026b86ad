import { keyName } from '../source/describe.ts';
import { DIAGNOSTICS } from '../source/diagnostics/codes.ts';
import type { Findings } from '../source/findings.ts';
import { childOf, entriesOf, type Node } from '../source/node.ts';

/**
 * Silences the warnings that a file allows under `allow:`.
 * @param more files that it extends.
 */
export function allowWarnings(root: Node, findings: Findings, more: readonly string[] = []): void {
  for (const { key, key_mark } of entriesOf(childOf(root, 'allow'))) {
    findings.allow(key_mark, key, more);
    // The schema refuses what has not even the form of a code.
    if (Object.hasOwn(DIAGNOSTICS, key) || !/^W\d{4}$/.test(key)) continue;
    findings.report('C3004', key_mark, `there is no warning ${keyName(key)}`, {
      expected: 'a code as the warning shows it, such as W7008',
    });
  }
}
