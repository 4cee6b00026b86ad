export interface OperatorSpec {
  readonly operands: readonly [min: number, max: number];
  /** Whether the number of operands must be odd. */
  readonly odd?: boolean;
  /** Whether it computes with numbers, which excludes money. */
  readonly arithmetic?: boolean;
  /** Whether its second operand is evaluated once per item of the first, with `{ var: "" }` as the item. */
  readonly iterates?: boolean;
  readonly meaning: string;
  /** A valid condition in YAML, for the reference. */
  readonly example: string;
}

const MANY = Number.POSITIVE_INFINITY;

const takes =
  (min: number, max: number, more?: Pick<OperatorSpec, 'odd' | 'arithmetic' | 'iterates'>) =>
  (meaning: string, example: string): OperatorSpec => ({ operands: [min, max], meaning, example, ...more });
const arithmetic = (min: number, max: number) => takes(min, max, { arithmetic: true });
const one = takes(1, 1);
const two = takes(2, 2);
const ordered = takes(2, 3);
const several = takes(2, MANY);
const connective = takes(1, MANY);
const quantifier = takes(2, 2, { iterates: true });

/** The operators of conditions. */
export const OPERATORS = {
  var: one('The value of a fact; null when it is not set', '{ var: request.stream }'),
  '===': two('Whether two values are the same', '{ "===": [{ var: request.model }, coder-1] }'),
  '!==': two('Whether two values differ', '{ "!==": [{ var: principal.team }, search] }'),
  '!': one('Whether a value is false, null, 0, "" or an empty list', '{ "!": { var: request.stream } }'),
  '!!': one('Whether a value is not false, null, 0, "" or an empty list', '{ "!!": { var: principal.project } }'),
  and: connective(
    'Whether all conditions are true',
    '{ and: [{ var: request.stream }, { ">": [{ var: request.tool_count }, 0] }] }',
  ),
  or: connective(
    'Whether any condition is true',
    '{ or: [{ in: [interns, { var: principal.groups }] }, { in: [guests, { var: principal.groups }] }] }',
  ),
  if: takes(3, MANY, { odd: true })(
    'The value after the first condition that is true, otherwise the last value',
    '{ "<": [{ var: request.max_tokens }, { if: [{ var: request.stream }, 64000, 8000] }] }',
  ),
  '<': ordered(
    'Whether the numbers increase; false when one of them is not set',
    '{ "<": [{ var: request.message_count }, 100] }',
  ),
  '<=': ordered(
    'Whether the numbers never decrease; false when one of them is not set',
    '{ "<=": [1, { var: request.tool_count }, 128] }',
  ),
  '>': two(
    'Whether the first number is greater; false when one of them is not set',
    '{ ">": [{ var: request.input_tokens_estimate }, 100000] }',
  ),
  '>=': two(
    'Whether the first number is not less; false when one of them is not set',
    '{ ">=": [{ var: request.body_bytes }, 1000000] }',
  ),
  in: two('Whether a list contains an item', '{ in: [contractors, { var: principal.groups }] }'),
  glob: several(
    'Whether a string matches one of the patterns, in which * matches any characters',
    '{ glob: [{ var: request.model }, "coder-*", "*-latest"] }',
  ),
  bucket: takes(3, 3)(
    'The bucket of a string, from 0, out of a number of equally likely ones: the same for the same string and salt; null when the string is not set',
    '{ "<": [{ bucket: [{ var: principal.id }, "new-model", 100] }, 10] }',
  ),
  cidr: several(
    'Whether an IPv4 or IPv6 address is in one of the ranges',
    '{ cidr: [{ var: request.client.address }, 10.0.0.0/8, "fd00::/8"] }',
  ),
  time_window: several(
    'Whether a time is in one of the weekly windows: days (default: every day), times, time zone (default: UTC)',
    '{ time_window: [{ var: request.received_at }, "mon-fri 09:00-17:00 Europe/Berlin"] }',
  ),
  usd: one(
    'An amount in USD, for comparison with a fact in nano-USD',
    '{ ">": [{ var: route.estimate_nano_usd }, { usd: 0.5 }] }',
  ),
  some: quantifier(
    'Whether the condition is true for an item of a list',
    '{ some: [{ var: principal.groups }, { glob: [{ var: "" }, "eng-*"] }] }',
  ),
  all: quantifier(
    'Whether a list has items and the condition is true for each',
    '{ all: [{ var: principal.groups }, { glob: [{ var: "" }, "ext-*"] }] }',
  ),
  none: quantifier(
    'Whether the condition is true for no item of a list',
    '{ none: [{ var: principal.groups }, { glob: [{ var: "" }, "ext-*"] }] }',
  ),
  '+': arithmetic(2, MANY)(
    'The sum of numbers; null when one of them is not set',
    '{ ">": [{ "+": [{ var: request.input_tokens_estimate }, { var: request.max_tokens }] }, 200000] }',
  ),
  '-': arithmetic(1, 2)(
    'The difference of two numbers',
    '{ ">": [{ "-": [{ var: request.input_tokens_max }, { var: request.input_tokens_estimate }] }, 50000] }',
  ),
  '*': arithmetic(2, MANY)('The product of numbers', '{ ">": [{ "*": [{ var: request.message_count }, 10] }, 500] }'),
  '/': arithmetic(2, 2)(
    'The quotient of two numbers',
    '{ ">": [{ "/": [{ var: request.body_bytes }, { var: request.message_count }] }, 100000] }',
  ),
  '%': arithmetic(2, 2)('The remainder of a division', '{ "===": [{ "%": [{ var: request.message_count }, 2] }, 0] }'),
  min: arithmetic(1, MANY)('The smallest number', '{ "<": [{ min: [{ var: request.max_tokens }, 64000] }, 1000] }'),
  max: arithmetic(1, MANY)(
    'The greatest number',
    '{ ">": [{ max: [{ var: request.message_count }, { var: request.tool_count }] }, 200] }',
  ),
} as const satisfies Record<string, OperatorSpec>;

export type Operator = keyof typeof OPERATORS;

/** Operators of JSON-Logic and its relatives that are rejected on purpose, with the alternatives. */
export const REFUSED_OPERATORS: ReadonlyMap<string, string> = new Map([
  ['==', 'use `===`: `==` converts its operands, so that 0 equals "" and [] equals false'],
  ['!=', 'use `!==`: `!=` converts its operands'],
  ['missing', 'use { "===": [{ var: path }, null] }'],
  ['missing_some', 'use { "===": [{ var: path }, null] } for each fact'],
  ['log', 'use appscli explain to see the values that a rule read'],
  ['method', 'conditions cannot call methods'],
  ['map', 'use `some`, `all` or `none`'],
  ['filter', 'use `some`, `all` or `none`'],
  ['reduce', 'use `some`, `all` or `none`'],
  ['merge', 'write one list'],
  ['cat', 'compare the parts one by one'],
  ['substr', 'use `glob`'],
  ['?:', 'use `if`'],
]);

/** Help for names that are similar to no operator or to a wrong one: operators of other languages, keys of routing rules. */
export const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ['any', 'use `some` for the items of a list, `or` for conditions'],
  ['is', 'use "===", in quotes'],
  ['=', 'use "===", in quotes'],
  ['=>', 'use ">=", in quotes'],
  ['=<', 'use "<=", in quotes'],
  ['group', 'write { in: [NAME, { var: principal.groups }] }'],
  ['user', 'write { "===": [{ var: principal.email }, ADDRESS] }'],
  ['team', 'write { "===": [{ var: principal.team }, NAME] }'],
  ['project', 'write { "===": [{ var: principal.project }, NAME] }'],
  ['models', 'write { glob: [{ var: request.model }, PATTERN] }'],
]);

/** The specification of an operator; `undefined` when it is not on the list. */
export function operatorSpec(name: string): OperatorSpec | undefined {
  return Object.hasOwn(OPERATORS, name) ? OPERATORS[name as Operator] : undefined;
}

export function takesOperands({ operands: [min, max], odd }: OperatorSpec, count: number): boolean {
  return count >= min && count <= max && (odd !== true || count % 2 === 1);
}
