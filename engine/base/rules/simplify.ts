import { compileCondition } from './compile.ts';
import { factView } from './fact-view.ts';
import { expressionOf } from './logic.ts';

/** Values of some facts, by dotted path. */
export type KnownFacts = ReadonlyMap<string, unknown>;

function isDecided(logic: unknown, known: KnownFacts): boolean {
  if (Array.isArray(logic)) return logic.every((item) => isDecided(item, known));
  const entry = expressionOf(logic);
  if (entry === undefined) return true;
  const [operator, operands] = entry;
  // The item of some, all and none is known when the list is.
  if (operator === 'var') return operands[0] === '' || known.has(String(operands[0]));
  return operands.every((operand) => isDecided(operand, known));
}

function combine(operator: 'and' | 'or', operands: readonly unknown[]): unknown {
  const decides = operator === 'or';
  if (operands.includes(decides)) return decides;
  const open = operands.filter((operand) => typeof operand !== 'boolean');
  if (open.length === 0) return !decides;
  return open.length === 1 ? open[0] : { [operator]: open };
}

/** Simplifies `if`: drops branches whose condition is false, and all after one whose condition is true. */
function choose(operands: readonly unknown[], known: KnownFacts): unknown {
  const open: unknown[] = [];
  for (let i = 0; i + 1 < operands.length; i += 2) {
    const condition = simplify(operands[i], known);
    if (condition === false) continue;
    const value = simplify(operands[i + 1], known);
    if (condition === true) return chosen([...open, value]);
    open.push(condition, value);
  }
  return chosen([...open, simplify(operands.at(-1), known)]);
}

function chosen(open: readonly unknown[]): unknown {
  if (open.length !== 3) return open.length === 1 ? open[0] : { if: open };
  const [condition, value, otherwise] = open;
  if (value === false) return combine('and', [{ '!': [condition] }, otherwise]);
  if (otherwise === false) return combine('and', [condition, value]);
  if (value === true) return combine('or', [condition, otherwise]);
  return { if: open };
}

/** Partial evaluation: the condition over the facts that are not known, or `true` or `false`. */
export function simplify(logic: unknown, known: KnownFacts): unknown {
  if (isDecided(logic, known)) return compileCondition(logic)(factView(known));
  const [operator, operands] = expressionOf(logic)!;
  if (operator === 'and' || operator === 'or') {
    return combine(
      operator,
      operands.map((operand) => simplify(operand, known)),
    );
  }
  if (operator === 'if') return choose(operands, known);
  if (operator === '!') {
    const inner = simplify(operands[0], known);
    return typeof inner === 'boolean' ? !inner : { '!': [inner] };
  }
  return logic;
}
