import { formatCondition } from './format-condition.ts';
import { truthy } from './logic.ts';
import type { Trace } from './trace.ts';

/** One comparison that decided, with the facts it saw. */
export interface Reason {
  /** The comparison in words. */
  readonly condition: string;
  readonly held: boolean;
  /** Values of the facts it read, by path; `null` for a fact that was not set. */
  readonly saw: Readonly<Record<string, unknown>>;
}

/** The facts that the evaluated part of a condition read, with their values; `null` for one that was not set. */
export function factsSeen(trace: Trace): [path: string, value: unknown][] {
  if (trace.operator === 'var') {
    const path = String((trace.logic as { var: unknown }).var);
    return path === '' ? [] : [[path, trace.value ?? null]];
  }
  return trace.operands.filter(({ evaluated }) => evaluated).flatMap(factsSeen);
}

function leaf(trace: Trace): Reason {
  return {
    condition: formatCondition(trace.logic),
    held: truthy(trace.value),
    saw: Object.fromEntries(factsSeen(trace)),
  };
}

/** The comparisons that made a condition true or false, in the order they were looked at; those it did not hang on are left out. */
export function reasonsOf(trace: Trace): readonly Reason[] {
  const { operator, operands } = trace;
  if (operator === 'and' || operator === 'or') {
    const held = truthy(trace.value);
    const decides = operands.filter((operand) => operand.evaluated && truthy(operand.value) === held);
    return decides.flatMap(reasonsOf);
  }
  if ((operator === '!' || operator === '!!') && operands[0]?.operands.length !== 0 && operands[0] !== undefined) {
    return reasonsOf(operands[0]);
  }
  return [leaf(trace)];
}
