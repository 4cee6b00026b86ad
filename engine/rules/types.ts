import type { FactPath } from '../contract/facts.ts';
import { type FactSpec, factSpec } from '../contract/own-facts.ts';
import { describe } from '../source/describe.ts';
import type { Expression } from './expression.ts';
import type { Operator } from './operators.ts';

/** What an expression can give; `nothing` is the constant null, `any` comes after a mistake and fits everywhere. */
export type Kind = 'text' | 'number' | 'boolean' | 'list' | 'nothing' | 'any';

/** The type of an expression. */
export interface Type {
  readonly kind: Kind;
  /** Of the items of a list. */
  readonly item?: Kind;
  /** What a number counts, where it is not a plain one. */
  readonly unit?: 'money' | 'moment';
  /** The only texts it can be. */
  readonly values?: readonly string[];
}

export const ANY: Type = { kind: 'any' };
const BOOLEAN: Type = { kind: 'boolean' };
const NUMBER: Type = { kind: 'number' };

const KIND_NAMES: Readonly<Record<Kind, string>> = {
  text: 'a text',
  number: 'a number',
  boolean: 'true or false',
  list: 'a list',
  nothing: 'nothing',
  any: 'a value',
};

/** A kind in the words of a diagnostic. */
export function formatKind(kind: Kind): string {
  return KIND_NAMES[kind];
}

/** Whether a fact is an amount of money; its path says so. */
export function isMoney(path: FactPath): boolean {
  return path.endsWith('_usd');
}

/** The type of a fact. */
export function factType(path: FactPath, spec: FactSpec = factSpec(path)!): Type {
  if (spec.kind === 'number') {
    if (isMoney(path)) return { kind: 'number', unit: 'money' };
    return path.endsWith('_at') ? { kind: 'number', unit: 'moment' } : NUMBER;
  }
  if (spec.kind === 'boolean') return BOOLEAN;
  if (spec.kind === 'strings') return { kind: 'list', item: 'text' };
  return spec.values === undefined ? { kind: 'text' } : { kind: 'text', values: spec.values };
}

function literalType(value: string | number | boolean | null): Type {
  if (value === null) return { kind: 'nothing' };
  // A placeholder that stands here was reported; what it stands for is not known.
  if (typeof value === 'string') return value.includes('${{') ? { kind: 'any' } : { kind: 'text' };
  return typeof value === 'number' ? NUMBER : BOOLEAN;
}

const ARITHMETIC: ReadonlySet<Operator> = new Set(['+', '-', '*', '/', '%', 'min', 'max']);

/** The kind all types share; `any` when they differ. */
function commonKind(types: readonly Type[]): Kind {
  const kinds = new Set(types.map(({ kind }) => kind).filter((kind) => kind !== 'nothing'));
  const [only = 'any'] = kinds;
  return kinds.size === 1 ? only : 'any';
}

/** The branches of an `if`: every second operand, and the last. */
export function branchesOf<Operand>(operands: readonly Operand[]): readonly Operand[] {
  return operands.filter((_, at) => at % 2 === 1 || at === operands.length - 1);
}

/**
 * The type of an expression, provided that its operands have the right ones.
 * @param item type of `{ var: "" }`.
 */
export function typeOf(expression: Expression, item: Type = ANY): Type {
  switch (expression.kind) {
    case 'literal':
      return literalType(expression.value);
    case 'list':
      return { kind: 'list', item: commonKind(expression.items.map((part) => typeOf(part, item))) };
    case 'fact':
      return factType(expression.path, expression.spec);
    case 'item':
      return item;
    case 'rule':
      return BOOLEAN;
    case 'broken':
      return ANY;
    case 'call': {
      const { operator, operands } = expression;
      if (operator === 'usd') return { kind: 'number', unit: 'money' };
      if (operator === 'bucket' || ARITHMETIC.has(operator)) return NUMBER;
      if (operator !== 'if') return BOOLEAN;
      const branches = branchesOf(operands).map((branch) => typeOf(branch, item));
      const first = branches.find(({ kind }) => kind !== 'nothing') ?? { kind: 'nothing' };
      return { kind: commonKind(branches), ...(first.unit === undefined ? {} : { unit: first.unit }) };
    }
  }
}

/** An expression with its type. */
export interface Typed {
  readonly expression: Expression;
  readonly type: Type;
}

/** An expression in the words of a diagnostic: what it is and what it gives. */
export function formatTyped({ expression, type }: Typed): string {
  if (expression.kind === 'literal') return describe(expression.node);
  if (expression.kind === 'fact') return `the fact ${expression.path}, ${KIND_NAMES[type.kind]}`;
  if (expression.kind === 'item') return `the item, ${KIND_NAMES[type.kind]}`;
  if (expression.kind === 'call') return `what \`${expression.operator}\` gives, ${KIND_NAMES[type.kind]}`;
  return KIND_NAMES[type.kind];
}
