import type { Findings } from '../source/findings.ts';
import type { Call, Expression } from './expression.ts';
import { formatCondition } from './format-condition.ts';
import { constancy, variablesOf } from './guards.ts';

/** Most operands of which all pairs are compared. */
const MAX_PAIRED = 12;

const MAX_CHARS = 120;

function shown(expression: Expression): string {
  const text = formatCondition(expression.logic);
  return text.length > MAX_CHARS ? 'this' : `\`${text}\``;
}

function conditionsIn({ operator, operands }: Call): readonly Expression[] {
  const nested = ({ kind }: Expression) => kind === 'call';
  if (operator === '!' || operator === '!!') return operands.filter(nested);
  if (operator === 'if')
    return operands.filter((operand, at) => nested(operand) || (at % 2 === 0 && at + 1 < operands.length));
  return operator === 'some' || operator === 'all' || operator === 'none' ? operands.slice(1) : [];
}

/** Warns about a condition that is always or never true, at its innermost such part. @returns whether it warned */
export function lintCondition(expression: Expression, findings: Findings, is_part = false): boolean {
  if (expression.kind === 'call') {
    const { operator } = expression;
    if (operator === 'and' || operator === 'or') return lintConnection(expression, findings, is_part);
    if (lintAll(conditionsIn(expression), findings)) return true;
  }
  return lintConstant(expression, findings, is_part);
}

function lintAll(parts: readonly Expression[], findings: Findings): boolean {
  return parts.map((part) => lintCondition(part, findings, true)).includes(true);
}

/** Without a condition that is never true, its rule or stage would apply to every request. */
function helpFor(always: boolean, is_part: boolean): string {
  if (is_part) return 'correct this part of the condition';
  return always ? 'correct the condition, or remove it' : 'correct the condition, or remove its rule or stage';
}

function lintConstant(expression: Expression, findings: Findings, is_part: boolean): boolean {
  if (expression.kind === 'item' || expression.kind === 'rule' || expression.kind === 'broken') return false;
  const found = constancy(expression.logic);
  if (found === undefined) return false;
  const message = `this condition is ${found.always ? 'always' : 'never'} true${found.if_set}`;
  const help = found.if_set === '' ? helpFor(found.always, is_part) : 'compare the bucket with another number';
  findings.report('W7020', expression.mark, message, { help });
  return true;
}

function lintConnection(call: Call, findings: Findings, is_part: boolean): boolean {
  const { operands } = call;
  if (lintAll(operands, findings)) return true;
  // Conditions without a common variable cannot contradict or imply each other.
  const needs = operands.map(({ logic }) => variablesOf(logic));
  const isRelated = (a: number, b: number) => [...needs[a]!].some((name) => needs[b]!.has(name));
  if (!needs.some((_, at) => needs.some((_, other) => other < at && isRelated(other, at)))) return false;
  const is_odd = (at: number, before: number) =>
    isRelated(before, at) && lintPair(call, [operands[before]!, operands[at]!], findings);
  const found =
    operands.length <= MAX_PAIRED &&
    operands.some((_, at) => operands.slice(0, at).some((_, before) => is_odd(at, before)));
  return found || lintConstant(call, findings, is_part);
}

/** Warns about two operands of `and` that are never true together, and about two of `or` of which one is always true. */
function lintPair({ operator }: Call, operands: readonly [Expression, Expression], findings: Findings): boolean {
  const [first, second] = operands;
  const is_or = operator === 'or';
  const result = constancy({ [operator]: operands.map(({ logic }) => logic) });
  if (result?.always !== is_or) return false;
  const what = is_or ? 'one of these two conditions is always true' : 'these two conditions are never true together';
  findings.report('W7020', second.mark, `${what}${result.if_set}`, {
    found: `${shown(first)} ${operator} ${shown(second)}`,
    help: is_or ? 'if you mean both, write `and`' : 'if you mean either, write `or`',
  });
  return true;
}
