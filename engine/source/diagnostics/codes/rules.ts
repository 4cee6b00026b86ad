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
  C5013: {
    title: 'Values of different types are compared',
    explanation:
      'A text is never the same as a number, so the condition would be the same for every request. Often a number is in quotes, or a text is not.',
    example: 'when: { "===": [{ var: request.max_tokens }, "1000"] }',
  },
  C5014: {
    title: 'The value cannot occur',
    explanation:
      'The fact has a closed set of values, and this is not one of them: the condition would be the same for every request.',
    example: 'when: { "===": [{ var: request.protocol }, mesages] }',
  },
  C5015: {
    title: 'The operand is of the wrong type',
    explanation:
      'Every operator takes operands of certain types: `<` and arithmetic take numbers, `glob` and `cidr` look at a text, `time_window` at a moment, `in`, `some`, `all` and `none` at a list.',
    example: 'when: { "<": [{ var: request.model }, 5] }',
  },
  C5016: {
    title: 'The condition is not true or false',
    explanation:
      'A guard, and what `and`, `or`, `if`, `some`, `all` and `none` test, is true or false. Compare a value with something, or test with `!!` whether it is set.',
    example: 'when: { var: request.model }',
  },
  C5017: {
    title: 'A literal is expected',
    explanation:
      'Patterns, address ranges, time windows and amounts are written out, one after the other: they are parsed once, when the file loads.',
    example: 'when: { glob: [{ var: request.model }, ["coder-*", "chat-*"]] }',
  },
  C5018: {
    title: 'The address range is not one',
    explanation:
      '`cidr` takes IPv4 and IPv6 addresses, and ranges of them with a number of leading bits. An IPv6 range is quoted where YAML needs it.',
    example: 'when: { cidr: [{ var: request.client.address }, 10.0.0.0/33] }',
  },
  C5019: {
    title: 'The time window is not one',
    explanation:
      'A time window is a text of days (`mon-fri`, `sat,sun`; every day when left out), two times (`09:00-17:00`; one over midnight belongs to the day it begins on) and a time zone of the IANA database (UTC when left out). The end is left out of the window.',
    example: 'when: { time_window: [{ var: request.received_at }, "mon-fri 9-17"] }',
  },
  C5020: {
    title: 'The amount of money is not one',
    explanation: '`usd` takes a number that is not negative and has at most 9 decimals.',
    example: 'when: { ">": [{ var: route.estimate_nano_usd }, { usd: "0.5" }] }',
  },
  C5021: {
    title: 'A whole list is compared',
    explanation:
      'A list is never the same as anything else. Look for an item with `in`, or test the items with `some`.',
    example: 'when: { "===": [{ var: principal.groups }, [interns]] }',
  },
  C5022: {
    title: 'The values of `if` are of different types',
    explanation: 'What an `if` gives is compared with one thing, so all its values are of one type.',
    example: 'when: { "<": [{ var: request.max_tokens }, { if: [{ var: request.stream }, 64000, many] }] }',
  },
  C5023: {
    title: 'The fact is a group of values',
    explanation:
      'Some facts are mappings, for the audit log. No operator can compare them. Uses of tools are read one by one: `request.server_tool_uses.web_search`.',
    example: 'when: { "!!": { var: usage.provenance } }',
  },
  C5024: {
    title: 'Money is compared with something else',
    explanation:
      'Facts that end in `_nano_usd` are amounts of money in billionths of a US dollar. Compare them with `{ usd: 0.5 }`, with each other, with 0, or with a whole number of nano-USD from 1000 on; a smaller number is surely meant in USD.',
    example: 'when: { ">": [{ var: route.estimate_nano_usd }, 0.5] }',
  },
  C5025: {
    title: 'The condition is too large',
    explanation:
      'A condition has at most 10,000 operators, nested at most 100 deep. A named rule counts each time it is used, so a few lines of rules that use each other twice can grow beyond any size.',
    example: 'rules: { a: { or: [{ rule: b }, { rule: b }] }, b: { or: [{ rule: c }, { rule: c }] }, ... }',
  },
  C5026: {
    title: 'A fact is not read',
    explanation:
      'The path of a fact by itself is only a text, the same for every request. `{ var: path }` reads the fact.',
    example: 'when: { "===": [request.model, coder-1] }',
  },
  C5030: {
    title: 'The header is no fact here',
    explanation:
      "A condition can look at a header of requests once gateway.yaml names it under `facts.headers`; other headers are nobody's business.",
    example:
      'routing:\n  default_upstream: main\n  rules: [{ name: a, when: { "===": [{ var: request.headers.x-project }, search] }, upstream: main }]',
  },
  C5031: {
    title: 'A header with a credential would become a fact',
    explanation: 'Facts are written to the audit log and shown to administrators. A credential must never be.',
    example: 'facts: { headers: [authorization] }',
  },
} as const;
