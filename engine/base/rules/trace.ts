import type { FactView } from '../contract/services.ts';
import { compileExpression } from './compile.ts';
import { formatCondition } from './format-condition.ts';
import { expressionOf, truthy } from './logic.ts';

/** What one part of a condition was for one request. */
export interface Trace {
  /** Absent for a plain value. */
  readonly operator: string | undefined;
  readonly logic: unknown;
  /** Its value; for the whole condition, whether it is truthy decides. `undefined` when not evaluated. */
  readonly value: unknown;
  /**
   * Its operands in order. After the list of `some`, `all` and `none` comes one trace of the condition per item that was
   * looked at. The path of a fact is no operand.
   */
  readonly operands: readonly Trace[];
  /** Whether it was reached: what comes after the operand that decides is not. */
  readonly evaluated: boolean;
}

const NO_OPERANDS: ReadonlySet<string> = new Set(['var', 'usd']);

function skipped(logic: unknown): Trace {
  const [operator, operands] = expressionOf(logic) ?? [undefined, []];
  const shown = operator === undefined || NO_OPERANDS.has(operator) ? [] : operands;
  return { operator, logic, value: undefined, operands: shown.map(skipped), evaluated: false };
}

/** Traces operands in order up to the first whose truth is `decisive`. */
function traceUntil(decisive: boolean, operands: readonly unknown[], data: unknown): readonly Trace[] {
  let decided = false;
  return operands.map((operand) => {
    if (decided) return skipped(operand);
    const traced = trace(operand, data);
    decided = truthy(traced.value) === decisive;
    return traced;
  });
}

function traceIf(operands: readonly unknown[], data: unknown): readonly Trace[] {
  const traced = operands.map(skipped);
  for (let i = 0; ; i += 2) {
    traced[i] = trace(operands[i], data);
    if (i + 1 >= operands.length) return traced;
    if (!truthy(traced[i]!.value)) continue;
    traced[i + 1] = trace(operands[i + 1], data);
    return traced;
  }
}

function traceItems(operator: string, [list, condition]: readonly unknown[], data: unknown): readonly Trace[] {
  const traced_list = trace(list, data);
  const items: readonly unknown[] = Array.isArray(traced_list.value) ? traced_list.value : [];
  const decisive = operator !== 'all';
  const traced: Trace[] = [];
  for (const item of items) {
    const one = trace(condition, item);
    traced.push(one);
    if (truthy(one.value) === decisive) break;
  }
  return [traced_list, ...(traced.length === 0 ? [skipped(condition)] : traced)];
}

function traceOperands(operator: string, operands: readonly unknown[], data: unknown): readonly Trace[] {
  if (NO_OPERANDS.has(operator)) return [];
  if (operator === 'and' || operator === 'or') return traceUntil(operator === 'or', operands, data);
  if (operator === 'if') return traceIf(operands, data);
  if (operator === 'some' || operator === 'all' || operator === 'none') return traceItems(operator, operands, data);
  return operands.map((operand) => trace(operand, data));
}

function trace(logic: unknown, data: unknown): Trace {
  const value = compileExpression(logic)(data);
  const found = expressionOf(logic);
  if (found === undefined) return { operator: undefined, logic, value, operands: [], evaluated: true };
  const [operator, operands] = found;
  return { operator, logic, value, operands: traceOperands(operator, operands, data), evaluated: true };
}

/** Evaluates a condition that passed the load checks and keeps the value of each of its parts. */
export function traceCondition(logic: unknown, facts: FactView): Trace {
  return trace(logic, facts);
}

/** One comparison that decided, with the facts it saw. */
export interface Reason {
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
