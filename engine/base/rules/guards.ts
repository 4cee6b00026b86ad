/** Conditions that are always or never true, and conditions that imply or exclude each other. @module */
import { isDeepStrictEqual } from 'node:util';
import { INITIAL_FACTS } from '../contract/facts.ts';
import { factSpec } from '../contract/own-facts.ts';
import type { StageEntry } from '../source/spec.ts';
import { compileExpression } from './compile.ts';
import { expressionOf, truthy } from './logic.ts';

/** Most combinations of values to evaluate. With more, a condition counts as depending on the facts. */
const MAX_COMBINATIONS = 2048;

const OTHER_TEXT = '\u0000other';

const CONNECTIVES: ReadonlySet<string> = new Set(['and', 'or', '!', '!!', 'if']);
const COMPARISONS: ReadonlySet<string> = new Set(['===', '!==', 'in', '<', '<=', '>', '>=']);
const initial_facts: ReadonlySet<string> = new Set(INITIAL_FACTS);

/** A variable of a condition, with representatives of all values that the condition can distinguish. */
interface Unknown {
  readonly mentioned: Set<unknown>;
  readonly values: () => readonly unknown[];
  /** Whether it is the bucket of a fact that may be unset. */
  readonly is_maybe_unset: boolean;
}

/** Numbers at, between and around the constants: the condition cannot distinguish others from them. */
function numbersAround(mentioned: ReadonlySet<unknown>): readonly number[] {
  const sorted = [0, ...mentioned].filter((value) => typeof value === 'number').toSorted((a, b) => a - b);
  const between = sorted.slice(1).map((value, at) => (value + sorted[at]!) / 2);
  return [sorted[0]! - 1, ...sorted, ...between, sorted.at(-1)! + 1];
}

function factValues(path: string, mentioned: ReadonlySet<unknown>): readonly unknown[] {
  const unset = initial_facts.has(path) ? [] : [null];
  const spec = factSpec(path);
  const texts = [...[...mentioned].filter((value) => typeof value === 'string'), OTHER_TEXT, ''];
  // A fact of an operator's stage.
  if (spec === undefined) return [...texts, ...numbersAround(mentioned), true, false, null];
  if (spec.values !== undefined) return [...spec.values, ...unset];
  if (spec.kind === 'boolean') return [true, false, ...unset];
  if (spec.kind === 'number') return [...numbersAround(mentioned), ...unset];
  return [...(spec.kind === 'strings' ? [[], [OTHER_TEXT]] : texts), ...unset];
}

const operandsOf = (logic: unknown, operator: string): readonly unknown[] => {
  const [found, operands] = expressionOf(logic) ?? [];
  return found === operator ? operands! : [];
};

const isVariable = (logic: unknown): boolean => operandsOf(logic, 'var').length > 0;

/** A `bucket` with a literal number of buckets; the type check reports others. */
const isBucket = (logic: unknown): boolean => typeof operandsOf(logic, 'bucket')[2] === 'number';

function isConstant(logic: unknown): boolean {
  if (Array.isArray(logic)) return logic.every(isConstant);
  return expressionOf(logic) === undefined || operandsOf(logic, 'usd').length > 0;
}

/** A condition over variables: facts compared with constants; other parts (patterns, members, arithmetic) are booleans. */
class Abstraction {
  /** By names that are comparable between conditions. */
  readonly unknowns = new Map<string, Unknown>();
  readonly logic: unknown;

  constructor(logic: unknown) {
    this.logic = this.of(logic);
  }

  private of(logic: unknown): unknown {
    const [operator, operands] = expressionOf(logic) ?? [];
    if (operator === undefined) return logic;
    if (CONNECTIVES.has(operator)) return { [operator]: operands!.map((operand) => this.of(operand)) };
    if (isVariable(logic) || isBucket(logic)) return this.subject(logic, []);
    const isSubject = (operand: unknown) => isVariable(operand) || (operator !== 'in' && isBucket(operand));
    const [subject, ...more] = operands!.filter(isSubject);
    const others = operands!.filter((operand) => !isSubject(operand));
    // Membership in a list fact is a separate variable for each item.
    const in_fact = operator === 'in' && isVariable(operands![1]);
    if (!COMPARISONS.has(operator) || in_fact || more.length > 0 || !others.every(isConstant)) {
      return this.mention(JSON.stringify(logic), [], () => [true, false]);
    }
    const constants = others.flatMap((other) => compileExpression(other)(null));
    const abstract = subject === undefined ? undefined : this.subject(subject, constants);
    return { [operator]: operands!.map((operand) => (operand === subject ? abstract : operand)) };
  }

  /** A fact or a bucket that is compared with constants. */
  private subject(logic: unknown, constants: readonly unknown[]): unknown {
    const [of, , count] = operandsOf(logic, 'bucket');
    const path = String(operandsOf(of ?? logic, 'var')[0]);
    if (of === undefined) return this.mention(path, constants, (seen) => factValues(path, seen));
    const isThere = (value: number) => value >= 0 && value < Number(count);
    const bucketsAround = (seen: ReadonlySet<unknown>) =>
      [...new Set(numbersAround(new Set([...seen, Number(count)])).map(Math.floor))].filter(isThere);
    return this.mention(JSON.stringify(logic), constants, bucketsAround, !initial_facts.has(path));
  }

  private mention(
    name: string,
    constants: readonly unknown[],
    valuesFor: (seen: Set<unknown>) => readonly unknown[],
    is_maybe_unset = false,
  ) {
    // A dot would read a nested value, and the name of an item of a list is empty, which would read all values.
    const key = name.replaceAll('.', '\0') || 'item';
    const mentioned = this.unknowns.get(key)?.mentioned ?? new Set();
    for (const value of constants) mentioned.add(value);
    this.unknowns.set(key, { mentioned, values: () => valuesFor(mentioned), is_maybe_unset });
    return { var: key };
  }
}

/** Names of what a condition depends on. */
export function variablesOf(logic: unknown): ReadonlySet<string> {
  return new Set(new Abstraction(logic).unknowns.keys());
}

/** Whether a condition is always or never true; `undefined` when it depends on the facts, or on too many. */
export function constancy(condition: unknown): { readonly always: boolean; readonly if_set: string } | undefined {
  const { logic, unknowns: abstract } = new Abstraction(condition);
  const holds = compileExpression(logic);
  const unknowns = [...abstract.values()];
  const ofValues = (valuesOf: (unknown: Unknown) => readonly unknown[]) =>
    constantOver(new Map([...abstract].map(([key, unknown]) => [key, valuesOf(unknown)])), holds);
  const always = ofValues(({ values, is_maybe_unset }) => (is_maybe_unset ? [...values(), null] : values()));
  if (always !== undefined) return { always, if_set: '' };
  // A comparison of the bucket with null tests whether the fact is set.
  const is_meant = unknowns.some((one) => one.is_maybe_unset) && !unknowns.some((one) => one.mentioned.has(null));
  const always_if_set = is_meant ? ofValues(({ values }) => values()) : undefined;
  return always_if_set === undefined ? undefined : { always: always_if_set, if_set: ' when its fact is set' };
}

function constantOver(
  values_of: ReadonlyMap<string, readonly unknown[]>,
  holds: (data: unknown) => unknown,
): boolean | undefined {
  const combinations = [...values_of.values()].reduce((product, values) => product * values.length, 1);
  if (combinations > MAX_COMBINATIONS) return undefined;
  const seen = new Set<boolean>();
  const data: Record<string, unknown> = Object.create(null);
  for (let combination = 0; combination < combinations; combination += 1) {
    let rest = combination;
    for (const [key, values] of values_of) {
      data[key] = values[rest % values.length];
      rest = Math.floor(rest / values.length);
    }
    seen.add(truthy(holds(data)));
    if (seen.size > 1) return undefined;
  }
  return seen.has(true);
}

function is(always: boolean, condition: unknown): boolean {
  const found = constancy(condition);
  return found?.always === always && found.if_set === '';
}

/** Whether `premise` consists of the parts that imply `wanted`: cheap, and for conditions of any number of facts. */
export function contains(premise: unknown, wanted: unknown): boolean {
  if (wanted === undefined || wanted === true || isDeepStrictEqual(premise, wanted)) return true;
  if (operandsOf(premise, 'and').some((operand) => contains(operand, wanted))) return true;
  if (operandsOf(wanted, 'or').some((operand) => contains(premise, operand))) return true;
  const each = operandsOf(wanted, 'and');
  return each.length > 0 && each.every((operand) => contains(premise, operand));
}

const negation = (logic: unknown): unknown => operandsOf(logic, '!')[0] ?? { '!': [logic] };

/** Whether `premise` provably implies `wanted`; `undefined` stands for always. */
export function implies(premise: unknown, wanted: unknown): boolean {
  if (contains(premise, wanted)) return true;
  // Without a common variable, it would only be implied because one of the two is constant.
  const known = variablesOf(premise ?? true);
  return [...variablesOf(wanted)].some((name) => known.has(name)) && is(true, { or: [{ '!': [premise] }, wanted] });
}

/** Whether two conditions provably exclude each other; `undefined` stands for always. */
export function excludes(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) return is(false, a ?? b ?? true);
  return contains(a, negation(b)) || contains(b, negation(a)) || is(false, { and: [a, b] });
}

/** Whether one of two guards is provably true for every request. */
export function coverAll(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) return true;
  return contains(negation(a), b) || is(true, { or: [a, b] });
}

/** Whether an entry runs for every request that reaches it. */
export function isCertain({ mode, when, fail_closed }: StageEntry): boolean {
  return mode === 'enforce' && when === undefined && fail_closed;
}
