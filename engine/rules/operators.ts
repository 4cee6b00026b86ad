/** How an operator is used. */
export interface OperatorSpec {
  /** Fewest and most operands. */
  readonly operands: readonly [min: number, max: number];
  /** Whether it computes with numbers; amounts of money are then refused. */
  readonly arithmetic?: boolean;
  /** Whether its second operand is evaluated once per item of the first, with `{ var: "" }` as the item. */
  readonly iterates?: boolean;
  /** One sentence for reference pages. */
  readonly meaning: string;
}

const MANY = Number.POSITIVE_INFINITY;

/** The closed list of operators a condition may use. */
export const OPERATORS = {
  var: { operands: [1, 1], meaning: 'The value of a fact; null when it is not set' },
  '===': { operands: [2, 2], meaning: 'Whether two values are the same' },
  '!==': { operands: [2, 2], meaning: 'Whether two values differ' },
  '!': { operands: [1, 1], meaning: 'Whether a value is false, null, 0, "" or an empty list' },
  '!!': { operands: [1, 1], meaning: 'Whether a value is none of false, null, 0, "" and an empty list' },
  and: { operands: [1, MANY], meaning: 'Whether all conditions hold' },
  or: { operands: [1, MANY], meaning: 'Whether any condition holds' },
  if: { operands: [3, MANY], meaning: 'The value after the first condition that holds, otherwise the last value' },
  '<': { operands: [2, 3], meaning: 'Whether the numbers increase' },
  '<=': { operands: [2, 3], meaning: 'Whether the numbers never decrease' },
  '>': { operands: [2, 2], meaning: 'Whether the first number is greater' },
  '>=': { operands: [2, 2], meaning: 'Whether the first number is not less' },
  in: { operands: [2, 2], meaning: 'Whether a list has an item' },
  glob: { operands: [2, 2], meaning: 'Whether a text matches a pattern in which * stands for any characters' },
  some: { operands: [2, 2], iterates: true, meaning: 'Whether the condition holds for an item of a list' },
  all: { operands: [2, 2], iterates: true, meaning: 'Whether a list has items and the condition holds for each' },
  none: { operands: [2, 2], iterates: true, meaning: 'Whether the condition holds for no item of a list' },
  '+': { operands: [2, MANY], arithmetic: true, meaning: 'The sum of numbers' },
  '-': { operands: [1, 2], arithmetic: true, meaning: 'The difference of two numbers' },
  '*': { operands: [2, MANY], arithmetic: true, meaning: 'The product of numbers' },
  '/': { operands: [2, 2], arithmetic: true, meaning: 'The quotient of two numbers' },
  '%': { operands: [2, 2], arithmetic: true, meaning: 'The remainder of a division' },
  min: { operands: [1, MANY], arithmetic: true, meaning: 'The smallest number' },
  max: { operands: [1, MANY], arithmetic: true, meaning: 'The greatest number' },
} as const satisfies Record<string, OperatorSpec>;

/** An operator of the closed list. */
export type Operator = keyof typeof OPERATORS;

/** Operators of JSON-Logic, and well-known relatives, that are refused on purpose, with what to use instead. */
export const REFUSED_OPERATORS: ReadonlyMap<string, string> = new Map([
  ['==', 'use `===`: `==` converts its operands, so that 0 equals "" and [] equals false'],
  ['!=', 'use `!==`: `!=` converts its operands'],
  ['missing', 'use { "!": { var: path } }'],
  ['missing_some', 'use { "!": { var: path } }'],
  ['log', 'use appscli explain to see the values a rule saw'],
  ['method', 'conditions cannot call methods'],
  ['map', 'use `some`, `all` or `none`'],
  ['filter', 'use `some`, `all` or `none`'],
  ['reduce', 'use `some`, `all` or `none`'],
  ['merge', 'write one list'],
  ['cat', 'compare the parts one by one'],
  ['substr', 'use `glob`'],
  ['?:', 'use `if`'],
]);

/** The specification of an operator; `undefined` when it is not on the list. */
export function operatorSpec(name: string): OperatorSpec | undefined {
  return Object.hasOwn(OPERATORS, name) ? OPERATORS[name as Operator] : undefined;
}
