/** How an operator is used. */
export interface OperatorSpec {
  readonly operands: readonly [min: number, max: number];
  /** Whether the number of operands must be odd. */
  readonly odd?: boolean;
  /** Whether it computes with numbers; amounts of money are then refused. */
  readonly arithmetic?: boolean;
  /** Whether its second operand is evaluated once per item of the first, with `{ var: "" }` as the item. */
  readonly iterates?: boolean;
  readonly meaning: string;
  /** A condition that uses it and passes the load checks, as YAML; for reference pages. */
  readonly example: string;
}

const MANY = Number.POSITIVE_INFINITY;

/** The closed list of operators a condition may use. */
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
    meaning: 'Whether a value is none of false, null, 0, "" and an empty list',
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
    meaning: 'Whether a list has an item',
    example: '{ in: [contractors, { var: principal.groups }] }',
  },
  glob: {
    operands: [2, MANY],
    meaning: 'Whether a text matches one of some patterns, in which * stands for any characters',
    example: '{ glob: [{ var: request.model }, "coder-*", "*-latest"] }',
  },
  bucket: {
    operands: [3, 3],
    meaning:
      'Which of so many equally likely buckets a text falls into, from 0: always the same one for the same text and salt; null when the text is not set',
    example: '{ "<": [{ bucket: [{ var: principal.id }, "new-model", 100] }, 10] }',
  },
  cidr: {
    operands: [2, MANY],
    meaning: 'Whether an IP address lies in one of some ranges, IPv4 or IPv6',
    example: '{ cidr: [{ var: request.client.address }, 10.0.0.0/8, "fd00::/8"] }',
  },
  time_window: {
    operands: [2, MANY],
    meaning:
      'Whether a moment lies in one of some spans of the week: days (every day when left out), times, time zone (UTC when left out)',
    example: '{ time_window: [{ var: request.received_at }, "mon-fri 09:00-17:00 Europe/Berlin"] }',
  },
  usd: {
    operands: [1, 1],
    meaning: 'An amount of money in USD, to compare a fact in nano-USD with',
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

/** Names that other languages have for operators of the list, with what to write here. */
export const OTHER_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    any: 'use `or` for conditions, `some` for the items of a list',
    any_of: 'use `or`',
    all_of: 'use `and`',
    none_of: 'use { "!": { or: [...] } }',
    not: 'use "!", in quotes',
    group:
      'of an access token { "===": [{ var: principal.token.group }, interns] }, of the identity provider { in: [interns, { var: principal.groups }] }',
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
    regex: 'use `glob`: `*` stands for any characters',
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

/** Whether an operator can be applied to so many operands. */
export function takesOperands({ operands: [min, max], odd }: OperatorSpec, count: number): boolean {
  return count >= min && count <= max && (odd !== true || count % 2 === 1);
}
