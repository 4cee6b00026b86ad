import { compileExpression } from './compile.ts';
import { formatCondition } from './format-condition.ts';
import { expressionOf, truthy } from './logic.ts';

/** The evaluation of one part of a condition for one request. */
export interface Trace {
  /** Absent for a plain value. */
  readonly operator: string | undefined;
  readonly logic: unknown;
  /** `undefined` when not evaluated. A condition is true when its value is truthy. */
  readonly value: unknown;
  /** Its operands in order, without the path of a fact; for `some`, `all` and `none`, the list and each evaluated item. */
  readonly operands: readonly Trace[];
  /** False for operands skipped by short-circuit evaluation. */
  readonly evaluated: boolean;
}

const NO_OPERANDS: ReadonlySet<string> = new Set(['var', 'usd']);

function skipped(logic: unknown): Trace {
  const [operator, operands] = expressionOf(logic) ?? [undefined, []];
  const shown = operator === undefined || NO_OPERANDS.has(operator) ? [] : operands;
  return { operator, logic, value: undefined, operands: shown.map(skipped), evaluated: false };
}

function traceUntil(until: boolean, operands: readonly unknown[], data: unknown): readonly Trace[] {
  let decided = false;
  return operands.map((operand) => {
    if (decided) return skipped(operand);
    const traced = traceCondition(operand, data);
    decided = truthy(traced.value) === until;
    return traced;
  });
}

function traceIf(operands: readonly unknown[], data: unknown): readonly Trace[] {
  const traced = operands.map(skipped);
  for (let i = 0; ; i += 2) {
    traced[i] = traceCondition(operands[i], data);
    if (i + 1 >= operands.length) return traced;
    if (!truthy(traced[i]!.value)) continue;
    traced[i + 1] = traceCondition(operands[i + 1], data);
    return traced;
  }
}

function traceItems(operator: string, [list, condition]: readonly unknown[], data: unknown): readonly Trace[] {
  const traced_list = traceCondition(list, data);
  const items: readonly unknown[] = Array.isArray(traced_list.value) ? traced_list.value : [];
  const until = operator !== 'all';
  const traced: Trace[] = [];
  for (const item of items) {
    const one = traceCondition(condition, item);
    traced.push(one);
    if (truthy(one.value) === until) break;
  }
  return [traced_list, ...(traced.length === 0 ? [skipped(condition)] : traced)];
}

function traceOperands(operator: string, operands: readonly unknown[], data: unknown): readonly Trace[] {
  if (NO_OPERANDS.has(operator)) return [];
  if (operator === 'and' || operator === 'or') return traceUntil(operator === 'or', operands, data);
  if (operator === 'if') return traceIf(operands, data);
  if (operator === 'some' || operator === 'all' || operator === 'none') return traceItems(operator, operands, data);
  return operands.map((operand) => traceCondition(operand, data));
}

/** Evaluates a checked condition, recording the value of each part. @param data the facts, or the item of a list */
export function traceCondition(logic: unknown, data: unknown): Trace {
  const value = compileExpression(logic)(data);
  const [operator, operands] = expressionOf(logic) ?? [];
  if (operator === undefined) return { operator, logic, value, operands: [], evaluated: true };
  return { operator, logic, value, operands: traceOperands(operator, operands!, data), evaluated: true };
}

/** A comparison that determined the result of a condition. */
export interface Reason {
  readonly condition: string;
  readonly held: boolean;
  /** The values of the facts it read, by path; `null` for a fact that was not set. */
  readonly saw: Readonly<Record<string, unknown>>;
}

/** The facts that a condition read, with their values; `null` for a fact that was not set. */
function factsSeen(trace: Trace): [path: string, value: unknown][] {
  if (trace.operator === 'var') {
    const path = String((trace.logic as { var: unknown }).var);
    return path === '' ? [] : [[path, trace.value ?? null]];
  }
  return trace.operands.filter(({ evaluated }) => evaluated).flatMap(factsSeen);
}

/** The comparisons that determined the result of a condition, in order of evaluation. */
export function reasonsOf(trace: Trace): readonly Reason[] {
  const { operator, operands, logic } = trace;
  const held = truthy(trace.value);
  if (operator === 'and' || operator === 'or') {
    const decides = operands.filter((operand) => operand.evaluated && truthy(operand.value) === held);
    return decides.flatMap(reasonsOf);
  }
  if ((operator === '!' || operator === '!!') && operands[0]?.operands.length !== 0 && operands[0] !== undefined) {
    return reasonsOf(operands[0]);
  }
  return [{ condition: formatCondition(logic), held, saw: Object.fromEntries(factsSeen(trace)) }];
}
