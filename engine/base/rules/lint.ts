import { type FactPath, INITIAL_FACTS } from '../contract/facts.ts';
import type { FactSpec } from '../contract/own-facts.ts';
import type { Findings } from '../source/findings.ts';
import { compileExpression } from './compile.ts';
import type { Call, Expression, Fact } from './expression.ts';
import { formatCondition } from './format-condition.ts';
import { truthy } from './logic.ts';

/** Most combinations of values to evaluate. With more, a condition counts as depending on the facts. */
const MAX_COMBINATIONS = 2048;

const OTHER_TEXT = '\u0000other';

const ORDERINGS: ReadonlySet<string> = new Set(['<', '<=', '>', '>=']);
const initial_facts: ReadonlySet<string> = new Set(INITIAL_FACTS);

/** A variable of a condition, with representatives of all values that the condition can distinguish. */
interface Unknown {
  readonly mentioned: Set<string | number>;
  readonly values: () => readonly unknown[];
}

/** Numbers at, between and around the constants: the condition cannot distinguish others from them. */
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

/** A condition over variables: facts compared with constants; other parts (patterns, members, arithmetic) are booleans. */
class Abstraction {
  /** By names that are comparable between conditions. */
  readonly unknowns = new Map<string, Unknown>();
  readonly logic: unknown;

  constructor(expression: Expression) {
    this.logic = this.of(expression);
  }

  private of(expression: Expression): unknown {
    switch (expression.kind) {
      case 'call':
        return isBucket(expression) ? this.bucket(expression, []) : this.call(expression);
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
    const isSubject = (operand: Expression): operand is Fact | Call =>
      operand.kind === 'fact' || (operator !== 'in' && isBucket(operand));
    const facts = operands.filter(isSubject);
    const others = operands.filter((operand) => !isSubject(operand));
    const [fact] = facts;
    // Membership in a list fact is a separate variable for each item.
    const in_fact = operator === 'in' && operands[1]?.kind === 'fact';
    if (!simple || in_fact || facts.length > 1 || !others.every(isConstant)) return this.opaque(call);
    const constants = others.flatMap(({ logic }) => (Array.isArray(logic) ? logic : [compileExpression(logic)(null)]));
    const subject = fact && (fact.kind === 'fact' ? this.fact(fact, constants) : this.bucket(fact, constants));
    return { [operator]: operands.map((operand) => (operand === fact ? subject : operand.logic)) };
  }

  private fact(fact: Fact, constants: readonly unknown[]): unknown {
    return this.mention(fact.path.replaceAll('.', '/'), constants, (seen) => factValues(fact.path, fact.spec, seen));
  }

  /** A bucket that is compared with constants: a whole number below the number of buckets, or null for an unset fact. */
  private bucket({ logic, operands }: Call, constants: readonly unknown[]): unknown {
    const [of] = operands;
    const count = operands[2]!.logic as number;
    const isThere = (value: number) => value >= 0 && value < count;
    const unset = of!.kind === 'fact' && initial_facts.has(of!.path) ? [] : [null];
    return this.mention(JSON.stringify(logic).replaceAll('.', '/'), constants, (seen) => [
      ...[...new Set(numbersAround(new Set([...seen, count])).map(Math.floor))].filter(isThere),
      ...unset,
    ]);
  }

  private mention(key: string, constants: readonly unknown[], valuesFor: (seen: Set<unknown>) => readonly unknown[]) {
    const mentioned = this.unknowns.get(key)?.mentioned ?? new Set();
    for (const value of constants) if (typeof value === 'string' || typeof value === 'number') mentioned.add(value);
    this.unknowns.set(key, { mentioned, values: () => valuesFor(mentioned) });
    return { var: key };
  }

  private opaque(expression: Expression): unknown {
    const key = JSON.stringify(expression.logic).replaceAll('.', '/');
    this.unknowns.set(key, { mentioned: new Set(), values: () => [true, false] });
    return { var: key };
  }
}

/** A `bucket` with a literal number of buckets; the type check reports others. */
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

/** Whether a condition always holds (true) or never does (false); `undefined` when it depends on the facts, or on too many. */
function constancy(expression: Expression): boolean | undefined {
  const { logic, unknowns: abstract } = new Abstraction(expression);
  const holds = compileExpression(logic);
  const unknowns = [...abstract].map(([key, { values }]) => [key, values()] as const);
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

/** Warns about a condition that always or never holds, at its innermost such part. @returns whether it warned */
export function lintCondition(expression: Expression, findings: Findings): boolean {
  if (expression.kind === 'call') {
    const { operator } = expression;
    if (operator === 'and' || operator === 'or') return lintConnection(expression, findings);
    if (lintAll(conditionsIn(expression), findings)) return true;
  }
  return lintWhole(expression, findings);
}

function lintAll(parts: readonly Expression[], findings: Findings): boolean {
  return parts.map((part) => lintCondition(part, findings)).includes(true);
}

function lintWhole(expression: Expression, findings: Findings): boolean {
  if (expression.kind === 'item' || expression.kind === 'rule' || expression.kind === 'broken') return false;
  const always = constancy(expression);
  if (always === undefined) return false;
  const message = always ? 'this condition always holds' : 'this condition never holds';
  findings.report('W7020', expression.mark, message, { help: 'remove it, or the part that depends on it' });
  return true;
}

function lintConnection(call: Call, findings: Findings): boolean {
  const { operands } = call;
  if (lintAll(operands, findings)) return true;
  // Conditions without a common variable cannot contradict or imply each other.
  const needs = operands.map((operand) => new Abstraction(operand).unknowns);
  const isRelated = (a: number, b: number) => [...needs[a]!.keys()].some((name) => needs[b]!.has(name));
  if (!needs.some((_, at) => needs.some((_, other) => other < at && isRelated(other, at)))) return false;
  const is_odd = (at: number, before: number) =>
    isRelated(before, at) && lintPair(call, [operands[before]!, operands[at]!], findings);
  const found =
    operands.length <= MAX_PAIRED &&
    operands.some((_, at) => operands.slice(0, at).some((_, before) => is_odd(at, before)));
  return found || lintWhole(call, findings);
}

/** Warns about two operands of `and` that never hold together, and about two of `or` of which one always holds. */
function lintPair(call: Call, operands: readonly [Expression, Expression], findings: Findings): boolean {
  const { operator } = call;
  const [first, second] = operands;
  const is_or = operator === 'or';
  const both = { ...call, operands, logic: { [operator]: operands.map(({ logic }) => logic) } };
  if (constancy(both) !== is_or) return false;
  const what = is_or ? 'one of these two conditions always holds' : 'these two conditions never hold together';
  findings.report('W7020', second.mark, what, {
    found: `${shown(first)} ${operator} ${shown(second)}`,
    help: is_or ? 'if you mean both, write `and`' : 'if you mean either, write `or`',
  });
  return true;
}
