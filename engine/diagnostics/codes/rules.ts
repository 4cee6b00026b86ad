/** Diagnostics of the fifth pass: JSON-Logic conditions. */
export const RULE_CODES = {
  C5001: {
    title: 'The operator does not exist',
    explanation: 'Conditions are made of a closed list of operators.',
    example: 'when: { equals: [{ var: request.model }, coder-1] }',
  },
  C5002: {
    title: 'The fact does not exist',
    explanation:
      'A misspelt fact would read as null, and null compares as less than every number: a limit would never apply. So every path must be in the vocabulary of facts.',
    example: 'when: { "<": [{ var: request.max_token }, 1000] }',
  },
  C5003: {
    title: 'An expression has several operators',
    explanation:
      'An expression is a mapping with exactly one key, its operator. With two keys it would count as a plain value that is always true. Combine conditions with `and` or `or`.',
    example: 'when: { "===": [1, 1], in: [a, [a]] }',
  },
  C5004: {
    title: 'The path of a fact is computed',
    explanation: '`var` takes one literal path, so that what a rule reads is known when it loads.',
    example: 'when: { var: [{ var: request.model }] }',
  },
  C5005: {
    title: 'The operator is not allowed',
    explanation:
      'Loose comparison (`==`, `!=`) converts its operands, and `missing`, `log`, `method` and their like read or do things that cannot be checked at load.',
    example: 'when: { "==": [{ var: request.max_tokens }, "5"] }',
  },
  C5006: {
    title: '`in` looks inside a text',
    explanation:
      '`in` tests membership in a list. On a text it would match any part of it: `dev` is in `devious`. Use a list, `===` or `glob`.',
    example: 'when: { in: [coder, { var: request.model }] }',
  },
  C5007: {
    title: 'The path leads into the prototype of an object',
    explanation: '`__proto__`, `constructor` and `prototype` are never facts.',
    example: 'when: { var: request.constructor }',
  },
  C5008: {
    title: 'Arithmetic on money',
    explanation:
      'Money is compared, never computed with, in rules: amounts are exact integers and limits belong into spend_limits.',
    example: 'when: { ">": [{ "*": [{ var: spend.reserved_nano_usd }, 2] }, 100] }',
  },
  C5009: {
    title: 'The named rule does not exist',
    explanation: '`{ rule: name }` refers to an entry under `rules:` of the same pipeline.',
    example: 'when: { rule: is-intern }',
  },
  C5010: {
    title: 'Named rules refer to each other in a circle',
    explanation: 'A rule may use other rules, but never, directly or indirectly, itself.',
    example: 'rules: { a: { rule: b }, b: { rule: a } }',
  },
  C5011: {
    title: 'Wrong number of operands',
    explanation: 'Every operator takes a certain number of operands.',
    example: 'when: { "===": [{ var: request.model }] }',
  },
  C5012: {
    title: 'The condition is not a condition',
    explanation:
      'A constant is always true or always false. A condition is an expression such as { var: request.stream }.',
    example: 'when: request.stream',
  },
} as const;
