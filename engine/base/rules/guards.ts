import type { StageEntry } from '../source/spec.ts';
import { expressionOf } from './logic.ts';

function operandsOf(logic: unknown, operator: string): readonly unknown[] {
  const entry = expressionOf(logic);
  return entry?.[0] === operator ? entry[1] : [];
}

function same(a: unknown, b: unknown): boolean {
  const [left, right] = [expressionOf(a), expressionOf(b)];
  if (left === undefined || right === undefined) return JSON.stringify(a) === JSON.stringify(b);
  return (
    left[0] === right[0] &&
    left[1].length === right[1].length &&
    left[1].every((operand, index) => same(operand, right[1][index]))
  );
}

function isNegation(a: unknown, b: unknown): boolean {
  const [negated] = operandsOf(a, '!');
  return negated !== undefined && same(negated, b);
}

/** The expression and the values that a comparison with constants allows; `undefined` for other conditions. */
function allowedValues(logic: unknown): { readonly of: unknown; readonly values: readonly unknown[] } | undefined {
  const [operator, operands] = expressionOf(logic) ?? ['', []];
  const [first, second] = operands;
  if (operator === '===') {
    if (expressionOf(second) === undefined) return { of: first, values: [second] };
    if (expressionOf(first) === undefined) return { of: second, values: [first] };
  }
  const are_constants = Array.isArray(second) && second.every((item) => expressionOf(item) === undefined);
  if (operator === 'in' && are_constants && expressionOf(first) !== undefined) return { of: first, values: second };
  return undefined;
}

/** Whether `given` provably implies `wanted`; `undefined` stands for always. */
export function implies(given: unknown, wanted: unknown): boolean {
  if (wanted === undefined || wanted === true || same(given, wanted)) return true;
  if (operandsOf(given, 'and').some((operand) => implies(operand, wanted))) return true;
  if (operandsOf(wanted, 'or').some((operand) => implies(given, operand))) return true;
  const each = operandsOf(wanted, 'and');
  return each.length > 0 && each.every((operand) => implies(given, operand));
}

/** Whether two conditions provably exclude each other; `undefined` stands for always. */
export function excludes(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) return false;
  if (isNegation(a, b) || isNegation(b, a)) return true;
  for (const [one, other] of [
    [a, b],
    [b, a],
  ]) {
    if (operandsOf(one, 'and').some((operand) => excludes(operand, other))) return true;
    const either = operandsOf(one, 'or');
    if (either.length > 0 && either.every((operand) => excludes(operand, other))) return true;
    const [differing, unequal] = [operandsOf(one, '!=='), allowedValues(other)];
    if (differing.length === 2 && unequal !== undefined && unequal.values.length === 1) {
      if (same({ '===': differing }, other)) return true;
    }
  }
  const [left, right] = [allowedValues(a), allowedValues(b)];
  if (left === undefined || right === undefined || !same(left.of, right.of)) return false;
  return !left.values.some((value) => right.values.includes(value));
}

/** Whether one of two guards provably holds for every request. */
export function coverAll(a: unknown, b: unknown): boolean {
  return a === undefined || b === undefined || isNegation(a, b) || isNegation(b, a);
}

/** Whether an entry runs for every request that reaches it. */
export function isCertain({ mode, when, fail_closed }: StageEntry): boolean {
  return mode === 'enforce' && when === undefined && fail_closed;
}
