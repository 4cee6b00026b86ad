import { type Condition, createConditionChecker } from '../../../engine/base/rules/check.ts';
import type { Diagnostic } from '../../../engine/base/source/diagnostics/diagnostic.ts';
import { createFindings } from '../../../engine/base/source/findings.ts';
import { childOf } from '../../../engine/base/source/node.ts';
import { parseSource } from '../../../engine/base/source/source.ts';

export interface CheckedCondition {
  readonly condition: Condition | undefined;
  readonly diagnostics: readonly Diagnostic[];
}

/** Checks a condition as if it stood in a file, with the named rules of that file. */
export function checkCondition(logic: unknown, rules: Readonly<Record<string, unknown>> = {}): CheckedCondition {
  return checkText(JSON.stringify({ when: logic, rules }));
}

export function checkText(text: string): CheckedCondition {
  const findings = createFindings();
  const root = parseSource('rules.yaml', text, findings);
  const when = childOf(root, 'when');
  const condition = when && createConditionChecker(childOf(root, 'rules'), findings).check(when);
  return { condition, diagnostics: findings.diagnostics() };
}
