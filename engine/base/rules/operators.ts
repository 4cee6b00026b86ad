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

/** The operators of conditions. */
export const OPERATORS = {
  var: {
    operands: [1, 1],
    meaning: 'The value of a fact; null when it is not set',
    example: '{ var: request.stream }',
  },
  '===': {
    operands: [2, 2],
    meaning: 'Whether two values are the same',
    example: '{ "===": [{ var: request.model }, coder-1] }',
  },
  '!==': {
    operands: [2, 2],
    meaning: 'Whether two values differ',
    example: '{ "!==": [{ var: principal.team }, search] }',
  },
  '!': {
    operands: [1, 1],
    meaning: 'Whether a value is false, null, 0, "" or an empty list',
    example: '{ "!": { var: request.stream } }',
  },
  '!!': {
    operands: [1, 1],
    meaning: 'Whether a value is not false, null, 0, "" or an empty list',
    example: '{ "!!": { var: principal.project } }',
  },
  and: {
    operands: [1, MANY],
    meaning: 'Whether all conditions hold',
    example: '{ and: [{ var: request.stream }, { ">": [{ var: request.tool_count }, 0] }] }',
  },
  or: {
    operands: [1, MANY],
    meaning: 'Whether any condition holds',
    example: '{ or: [{ in: [interns, { var: principal.groups }] }, { in: [guests, { var: principal.groups }] }] }',
  },
  if: {
    operands: [3, MANY],
    odd: true,
    meaning: 'The value after the first condition that holds, otherwise the last value',
    example: '{ "<": [{ var: request.max_tokens }, { if: [{ var: request.stream }, 64000, 8000] }] }',
  },
  '<': {
    operands: [2, 3],
    meaning: 'Whether the numbers increase; false when one of them is not set',
    example: '{ "<": [{ var: request.message_count }, 100] }',
  },
  '<=': {
    operands: [2, 3],
    meaning: 'Whether the numbers never decrease; false when one of them is not set',
    example: '{ "<=": [1, { var: request.tool_count }, 128] }',
  },
  '>': {
    operands: [2, 2],
    meaning: 'Whether the first number is greater; false when one of them is not set',
    example: '{ ">": [{ var: request.input_tokens_estimate }, 100000] }',
  },
  '>=': {
    operands: [2, 2],
    meaning: 'Whether the first number is not less; false when one of them is not set',
    example: '{ ">=": [{ var: request.body_bytes }, 1000000] }',
  },
  in: {
    operands: [2, 2],
    meaning: 'Whether a list contains an item',
    example: '{ in: [contractors, { var: principal.groups }] }',
  },
  glob: {
    operands: [2, MANY],
    meaning: 'Whether a string matches one of the patterns, in which * matches any characters',
    example: '{ glob: [{ var: request.model }, "coder-*", "*-latest"] }',
  },
  bucket: {
    operands: [3, 3],
    meaning:
      'The bucket of a string, from 0, out of a number of equally likely ones: the same for the same string and salt; null when the string is not set',
    example: '{ "<": [{ bucket: [{ var: principal.id }, "new-model", 100] }, 10] }',
  },
  cidr: {
    operands: [2, MANY],
    meaning: 'Whether an IPv4 or IPv6 address is in one of the ranges',
    example: '{ cidr: [{ var: request.client.address }, 10.0.0.0/8, "fd00::/8"] }',
  },
  time_window: {
    operands: [2, MANY],
    meaning:
      'Whether a time is in one of the weekly windows: days (default: every day), times, time zone (default: UTC)',
    example: '{ time_window: [{ var: request.received_at }, "mon-fri 09:00-17:00 Europe/Berlin"] }',
  },
  usd: {
    operands: [1, 1],
    meaning: 'An amount in USD, for comparison with a fact in nano-USD',
    example: '{ ">": [{ var: route.estimate_nano_usd }, { usd: 0.5 }] }',
  },
  some: {
    operands: [2, 2],
    iterates: true,
    meaning: 'Whether the condition holds for an item of a list',
    example: '{ some: [{ var: principal.groups }, { glob: [{ var: "" }, "eng-*"] }] }',
  },
  all: {
    operands: [2, 2],
    iterates: true,
    meaning: 'Whether a list has items and the condition holds for each',
    example: '{ all: [{ var: principal.groups }, { glob: [{ var: "" }, "ext-*"] }] }',
  },
  none: {
    operands: [2, 2],
    iterates: true,
    meaning: 'Whether the condition holds for no item of a list',
    example: '{ none: [{ var: principal.groups }, { glob: [{ var: "" }, "ext-*"] }] }',
  },
  '+': {
    operands: [2, MANY],
    arithmetic: true,
    meaning: 'The sum of numbers; null when one of them is not set',
    example: '{ ">": [{ "+": [{ var: request.input_tokens_estimate }, { var: request.max_tokens }] }, 200000] }',
  },
  '-': {
    operands: [1, 2],
    arithmetic: true,
    meaning: 'The difference of two numbers',
    example: '{ ">": [{ "-": [{ var: request.input_tokens_max }, { var: request.input_tokens_estimate }] }, 50000] }',
  },
  '*': {
    operands: [2, MANY],
    arithmetic: true,
    meaning: 'The product of numbers',
    example: '{ ">": [{ "*": [{ var: request.message_count }, 10] }, 500] }',
  },
  '/': {
    operands: [2, 2],
    arithmetic: true,
    meaning: 'The quotient of two numbers',
    example: '{ ">": [{ "/": [{ var: request.body_bytes }, { var: request.message_count }] }, 100000] }',
  },
  '%': {
    operands: [2, 2],
    arithmetic: true,
    meaning: 'The remainder of a division',
    example: '{ "===": [{ "%": [{ var: request.message_count }, 2] }, 0] }',
  },
  min: {
    operands: [1, MANY],
    arithmetic: true,
    meaning: 'The smallest number',
    example: '{ "<": [{ min: [{ var: request.max_tokens }, 64000] }, 1000] }',
  },
  max: {
    operands: [1, MANY],
    arithmetic: true,
    meaning: 'The greatest number',
    example: '{ ">": [{ max: [{ var: request.message_count }, { var: request.tool_count }] }, 200] }',
  },
} as const satisfies Record<string, OperatorSpec>;

export type Operator = keyof typeof OPERATORS;

/** Operators of JSON-Logic and its relatives that are rejected on purpose, with the alternatives. */
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

/** Names of operators in other languages, with the equivalents. */
export const OTHER_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    any: 'use `or` for conditions, `some` for the items of a list',
    any_of: 'use `or`',
    all_of: 'use `and`',
    none_of: 'use { "!": { or: [...] } }',
    not: 'use "!", in quotes',
    group:
      'for the group of an access token write { "===": [{ var: principal.token.group }, interns] }, for one of the identity provider { in: [interns, { var: principal.groups }] }',
    model: 'write { "===": [{ var: request.model }, coder-1] }',
    team: 'write { "===": [{ var: principal.team }, search] }',
    project: 'write { "===": [{ var: principal.project }, website] }',
    user: 'write { "===": [{ var: principal.email }, alice@example.com] }',
    'eq equal equals is =': 'use "===", in quotes',
    'ne neq not_equals': 'use "!==", in quotes',
    gt: 'use ">", in quotes',
    'gte =>': 'use ">=", in quotes',
    lt: 'use "<", in quotes',
    'lte =<': 'use "<=", in quotes',
    between: 'use "<=" with three operands: { "<=": [1, { var: request.tool_count }, 9] }',
    'contains has includes': 'use `in`, the item first: { in: [interns, { var: principal.groups }] }',
    not_in: 'use { "!": { in: [...] } }',
    'match matches like': 'use `glob`',
    regex: 'use `glob`: `*` matches any characters',
    starts_with: 'use `glob`: { glob: [{ var: request.model }, "coder-*"] }',
    ends_with: 'use `glob`: { glob: [{ var: request.model }, "*-latest"] }',
    ip: 'use `cidr`',
    time: 'use `time_window`',
  }).flatMap(([names, what]) => names.split(' ').map((name) => [name, what] as const)),
);

/** The specification of an operator; `undefined` when it is not on the list. */
export function operatorSpec(name: string): OperatorSpec | undefined {
  return Object.hasOwn(OPERATORS, name) ? OPERATORS[name as Operator] : undefined;
}

/** Whether an operator takes this number of operands. */
export function takesOperands({ operands: [min, max], odd }: OperatorSpec, count: number): boolean {
  return count >= min && count <= max && (odd !== true || count % 2 === 1);
}
