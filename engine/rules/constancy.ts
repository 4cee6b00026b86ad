import { INITIAL_FACTS } from '../contract/engine-facts.ts';
import type { FactPath } from '../contract/facts.ts';
import type { FactSpec } from '../contract/own-facts.ts';
import { compileExpression } from './compile.ts';
import type { Call, Expression, Fact } from './expression.ts';
import { truthy } from './logic.ts';

/** More combinations of values are not tried: the condition then counts as neither always true nor never. */
const MAX_COMBINATIONS = 2048;

/** Some text that no condition mentions. */
const OTHER_TEXT = '\u0000other';

const ORDERINGS: ReadonlySet<string> = new Set(['<', '<=', '>', '>=']);
const initial_facts: ReadonlySet<string> = new Set(INITIAL_FACTS);

/** A value a condition depends on, with the values that decide differently, or may. */
interface Unknown {
  readonly mentioned: Set<string | number>;
  readonly values: () => readonly unknown[];
}

/** Values of a number on, between and around those it is compared with: no other can decide differently. */
function numbersAround(mentioned: ReadonlySet<unknown>): readonly number[] {
  const sorted = [0, ...mentioned].filter((value) => typeof value === 'number').toSorted((a, b) => a - b);
  const between = sorted.slice(1).map((value, at) => (value + sorted[at]!) / 2);
  return [sorted[0]! - 1, ...sorted, ...between, sorted.at(-1)! + 1];
}

function factValues(path: FactPath, spec: FactSpec, mentioned: ReadonlySet<unknown>): readonly unknown[] {
  const unset = initial_facts.has(path) ? [] : [null];
  if (spec.values !== undefined) return [...spec.values, ...unset];
  if (spec.kind === 'boolean') return [true, false, ...unset];
  if (spec.kind === 'number') return [...numbersAround(mentioned), ...unset];
  if (spec.kind === 'strings') return [[], [OTHER_TEXT], ...unset];
  return [...[...mentioned].filter((value) => typeof value === 'string'), OTHER_TEXT, '', ...unset];
}

/**
 * A condition rewritten over the values it depends on. A fact that is compared with constants stands for itself;
 * everything else (patterns, list members, arithmetic) is a condition that may hold or not, the same wherever it recurs.
 */
class Abstraction {
  readonly unknowns = new Map<string, Unknown>();

  of(expression: Expression): unknown {
    switch (expression.kind) {
      case 'call':
        return this.call(expression);
      case 'fact':
        return this.fact(expression, []);
      case 'literal':
      case 'list':
        return expression.logic;
      default:
        return this.opaque(expression);
    }
  }

  private call(call: Call): unknown {
    const { operator, operands } = call;
    if (operator === 'and' || operator === 'or' || operator === '!' || operator === '!!' || operator === 'if') {
      return { [operator]: operands.map((operand) => this.of(operand)) };
    }
    const simple = operator === '===' || operator === '!==' || operator === 'in' || ORDERINGS.has(operator);
    if (simple && operator !== 'in') {
      const bucket = operands.find(isBucket);
      const others = operands.filter((operand) => operand !== bucket);
      if (bucket !== undefined && others.every(isConstant)) return this.bucketed(call, bucket);
    }
    const facts = operands.filter(({ kind }) => kind === 'fact');
    const others = operands.filter(({ kind }) => kind !== 'fact');
    const [fact] = facts;
    // In a list that is a fact every item is a condition of its own.
    const in_fact = operator === 'in' && operands[1]?.kind === 'fact';
    if (!simple || in_fact || facts.length > 1 || !others.every(isConstant)) return this.opaque(call);
    const constants = others.flatMap(({ logic }) => (Array.isArray(logic) ? logic : [constantOf(logic)]));
    return {
      [operator]: operands.map((operand) =>
        operand === fact && fact.kind === 'fact' ? this.fact(fact, constants) : operand.logic,
      ),
    };
  }

  private fact({ path, spec }: Fact, constants: readonly unknown[]): unknown {
    const key = path.replaceAll('.', '/');
    const mentioned = this.unknowns.get(key)?.mentioned ?? new Set();
    for (const value of constants) if (typeof value === 'string' || typeof value === 'number') mentioned.add(value);
    this.unknowns.set(key, { mentioned, values: () => factValues(path, spec, mentioned) });
    return { var: key };
  }

  /** A bucket that is compared with constants is a whole number below how many there are. */
  private bucketed({ operator, operands }: Call, bucket: Call): unknown {
    const key = JSON.stringify(bucket.logic).replaceAll('.', '/');
    const mentioned = this.unknowns.get(key)?.mentioned ?? new Set();
    for (const { logic } of operands) if (typeof logic === 'number') mentioned.add(logic);
    const last = (constantOf(bucket.operands[2]!.logic) as number) - 1;
    const values = () => {
      const near = [...mentioned].flatMap((value) => [
        Math.floor(Number(value)),
        Math.ceil(Number(value)),
        Number(value) - 1,
        Number(value) + 1,
      ]);
      return [...new Set([0, last, ...near])].filter((value) => Number.isInteger(value) && value >= 0 && value <= last);
    };
    this.unknowns.set(key, { mentioned, values });
    return { [operator]: operands.map((operand) => (operand === bucket ? { var: key } : operand.logic)) };
  }

  private opaque(expression: Expression): unknown {
    const key = JSON.stringify(expression.logic).replaceAll('.', '/');
    this.unknowns.set(key, { mentioned: new Set(), values: () => [true, false] });
    return { var: key };
  }
}

/** A bucket whose number of them is written out: whatever is wrong with that was reported. */
function isBucket(expression: Expression): expression is Call {
  return (
    expression.kind === 'call' && expression.operator === 'bucket' && typeof expression.operands[2]?.logic === 'number'
  );
}

function isConstant(expression: Expression): boolean {
  if (expression.kind === 'literal') return true;
  if (expression.kind === 'list') return expression.items.every(isConstant);
  return expression.kind === 'call' && expression.operator === 'usd';
}

/** The value of a constant expression such as `{ usd: 1 }`. */
function constantOf(logic: unknown): unknown {
  return compileExpression(logic)(null);
}

/** What a condition depends on, by names that mean the same in every condition. */
export function dependencies(expression: Expression): ReadonlySet<string> {
  const abstraction = new Abstraction();
  abstraction.of(expression);
  return new Set(abstraction.unknowns.keys());
}

/**
 * Whether a condition always holds (`true`) or never does (`false`), whatever the facts; `undefined` when it depends on
 * them, or too many to tell.
 */
export function constancy(expression: Expression): boolean | undefined {
  const abstraction = new Abstraction();
  const holds = compileExpression(abstraction.of(expression));
  const unknowns = [...abstraction.unknowns].map(([key, { values }]) => [key, values()] as const);
  const combinations = unknowns.reduce((product, [, values]) => product * values.length, 1);
  if (combinations > MAX_COMBINATIONS) return undefined;
  const seen = new Set<boolean>();
  const data: Record<string, unknown> = Object.create(null);
  for (let combination = 0; combination < combinations; combination += 1) {
    let rest = combination;
    for (const [key, values] of unknowns) {
      data[key] = values[rest % values.length];
      rest = Math.floor(rest / values.length);
    }
    seen.add(truthy(holds(data)));
    if (seen.size > 1) return undefined;
  }
  return seen.has(true);
}
