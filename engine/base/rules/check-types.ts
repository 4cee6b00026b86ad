import type { FactPath } from '../contract/facts.ts';
import { type FactSpec, factSpec } from '../contract/own-facts.ts';
import { usdToNano } from '../kit/money.ts';
import { rangeProblem } from '../kit/net/address-range.ts';
import { didYouMean, listed } from '../kit/text/suggest.ts';
import type { DiagnosticCode } from '../source/diagnostics/codes.ts';
import type { Details, Findings } from '../source/findings.ts';
import { describe, keyName, quote } from '../source/node.ts';
import { BUCKETS_MAX, windowProblem } from './compile.ts';
import type { Call, Expression } from './expression.ts';
import { isFact } from './fact-paths.ts';
import { type Operator, operatorSpec } from './operators.ts';

/** The types of values. `nothing` is the constant null; `any` is the type after an error, and matches every type. */
export type Kind = 'text' | 'number' | 'boolean' | 'list' | 'nothing' | 'any';

/** The type of an expression. */
export interface Type {
  readonly kind: Kind;
  readonly item?: Kind;
  readonly unit?: 'money' | 'moment';
  /** The closed set of strings, if there is one. */
  readonly values?: readonly string[];
}

const ANY: Type = { kind: 'any' };
const BOOLEAN: Type = { kind: 'boolean' };
const NUMBER: Type = { kind: 'number' };

const KIND_NAMES: Readonly<Record<Kind, string>> = {
  text: 'a string',
  number: 'a number',
  boolean: 'a boolean',
  list: 'a list',
  nothing: 'nothing',
  any: 'a value',
};

const isMoney = (path: FactPath): boolean => path.endsWith('_usd');

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
  // Placeholders are reported elsewhere; their values are unknown.
  if (typeof value === 'string') return value.includes('${{') ? { kind: 'any' } : { kind: 'text' };
  return typeof value === 'number' ? NUMBER : BOOLEAN;
}

function commonKind(types: readonly Type[]): Kind {
  const kinds = new Set(types.map(({ kind }) => kind).filter((kind) => kind !== 'nothing'));
  const [only = 'any'] = kinds;
  return kinds.size === 1 ? only : 'any';
}

/** The branches of an `if`: every second operand, and the last. */
function branchesOf<Operand>(operands: readonly Operand[]): readonly Operand[] {
  return operands.filter((_, at) => at % 2 === 1 || at === operands.length - 1);
}

/** The type of an expression with operands of the right types. @param item the type of `{ var: "" }` */
function typeOf(expression: Expression, item: Type): Type {
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
      if (operator === 'bucket' || operatorSpec(operator)?.arithmetic === true) return NUMBER;
      if (operator !== 'if') return BOOLEAN;
      const branches = branchesOf(operands).map((branch) => typeOf(branch, item));
      const first = branches.find(({ kind }) => kind !== 'nothing') ?? { kind: 'nothing' };
      return { kind: commonKind(branches), ...(first.unit === undefined ? {} : { unit: first.unit }) };
    }
  }
}

interface Typed {
  readonly expression: Expression;
  readonly type: Type;
}

function formatTyped({ expression, type }: Typed): string {
  if (expression.kind === 'literal') return describe(expression.node);
  if (expression.kind === 'fact') return `the fact ${expression.path}, ${KIND_NAMES[type.kind]}`;
  if (expression.kind === 'item') return `the item, ${KIND_NAMES[type.kind]}`;
  if (expression.kind === 'call') return `the result of \`${expression.operator}\`, ${KIND_NAMES[type.kind]}`;
  return KIND_NAMES[type.kind];
}

/** Help for a value of the wrong kind: quotes too many or too few, or a comparison that is missing. */
function correction({ expression, type }: Typed, expected: Kind): string | undefined {
  if (expression.kind === 'literal') {
    const { value } = expression;
    if (expected === 'text' && value !== null) return `write "${String(value)}" in quotes`;
    const form = expected === 'number' ? /^-?\d+(?:\.\d+)?$/ : /^(?:true|false)$/i;
    return form.test(String(value)) ? `write ${String(value).toLowerCase()} without quotes` : undefined;
  }
  if (expected === 'boolean' && expression.kind === 'fact')
    return `compare it, or test whether it is set and not empty: { "!!": { var: ${expression.path} } }`;
  if (expected === 'boolean') return 'compare it with a value';
  if (type.kind !== 'list' || expression.kind !== 'fact') return undefined;
  return `for any item of it: { some: [{ var: ${expression.path} }, ...] }, with { var: "" } as the item`;
}

/** An operand that must be a literal, because it is parsed once per load. */
interface Literal {
  readonly name: string;
  readonly expected: string;
  /** Completes a sentence about the operand; `undefined` without a problem. */
  problemOf(value: unknown): string | undefined;
}

const mustBeText = (value: unknown) => (typeof value === 'string' ? undefined : 'must be a string');

function problemOfAmount(value: unknown): string | undefined {
  if (typeof value !== 'number') return 'must be a number';
  try {
    usdToNano(value);
    return undefined;
  } catch (error) {
    return `cannot be used: ${(error as Error).message}`;
  }
}

const LITERALS = {
  glob: { name: 'pattern', expected: 'a pattern in quotes, such as "coder-*"', problemOf: mustBeText },
  cidr: {
    name: 'address range',
    expected: 'an address or a range, such as 10.0.0.0/8 or "2001:db8::/32"',
    problemOf: (value) => mustBeText(value) ?? rangeProblem(String(value)),
  },
  time_window: {
    name: 'time window',
    expected: 'days (optional), times and time zone (optional), such as "mon-fri 09:00-17:00 Europe/Berlin"',
    problemOf: (value) => mustBeText(value) ?? windowProblem(String(value)),
  },
  usd: { name: 'amount', expected: 'a non-negative number with at most 9 decimals', problemOf: problemOfAmount },
  salt: {
    name: 'salt',
    expected: 'a different string for each split: { bucket: [{ var: principal.id }, "new-model", 100] }',
    problemOf: (value) => (value === '' ? 'is empty' : mustBeText(value)),
  },
  buckets: {
    name: 'number of buckets',
    expected: `a whole number from 2 to ${BUCKETS_MAX}, such as 100`,
    problemOf: (value) =>
      Number.isInteger(value) && Number(value) >= 2 && Number(value) <= BUCKETS_MAX ? undefined : 'is out of range',
  },
} satisfies Record<string, Literal>;

/** First operands: what they are, and the fact that usually is. */
const SUBJECTS: Readonly<Partial<Record<Operator, readonly [what: string, fact: string]>>> = {
  glob: ['a string', 'request.model'],
  bucket: ['a string', 'principal.id'],
  cidr: ['a string', 'request.client.address'],
  time_window: ['a time', 'request.received_at'],
};

/** A smaller number compared with money is probably in USD: in nano-USD it would be below a millionth of a USD. */
const MIN_NANO_USD = 1000;

/** Checks the types of conditions; reports each error once, at the wrong operand. */
export function createTypeChecker(findings: Findings): (condition: Expression) => void {
  /** The current type of `{ var: "" }`. */
  let item: Type = ANY;

  function report(code: DiagnosticCode, operand: Typed, message: string, more: Details = {}): void {
    findings.report(code, operand.expression.mark, message, { found: formatTyped(operand), ...more });
  }

  function reportMismatch(operand: Typed, kind: Kind, message: string, because?: string): void {
    const expected = because === undefined ? KIND_NAMES[kind] : `${KIND_NAMES[kind]}, as ${because}`;
    report('C5013', operand, message, { expected, help: correction(operand, kind) });
  }

  function checkLiteral(kind: keyof typeof LITERALS, operand: Expression): void {
    if (operand.kind === 'broken') return;
    const { name, expected, problemOf }: Literal = LITERALS[kind];
    const problem = operand.kind === 'literal' ? problemOf(operand.value) : 'must be a literal';
    if (problem === undefined) return;
    const found = formatTyped({ expression: operand, type: typeOf(operand, item) });
    findings.report('C5017', operand.mark, `the ${name} ${problem}`, { found, expected });
  }

  function checkNumber(operator: string, verb: 'compares' | 'computes with', operand: Typed): void {
    const { expression, type } = operand;
    const infinite =
      expression.kind === 'literal' && typeof expression.value === 'number' && !Number.isFinite(expression.value);
    if (type.kind === 'any' || (type.kind === 'number' && !infinite)) return;
    const is_unordered = verb === 'compares' && expression.kind !== 'literal' && type.kind === 'text';
    const help = is_unordered
      ? 'strings have no order: compare them with `===`, `in` or `glob`'
      : correction(operand, 'number');
    report('C5015', operand, `${keyName(operator)} ${verb} numbers`, { expected: 'a finite number', help });
  }

  function checkOrdering(operator: string, operands: readonly Typed[]): void {
    const before = findings.errors();
    for (const operand of operands) {
      // For two strings, one finding is enough.
      if (findings.errors() === before) checkNumber(operator, 'compares', operand);
    }
    if (findings.errors() === before) checkAmounts(operands);
  }

  function checkEquality(operator: string, [a, b]: readonly [Typed, Typed]): void {
    const list = [a, b].find(({ type }) => type.kind === 'list');
    if (list === undefined) return void checkSame(a, b);
    if (a.type.kind === 'any' || b.type.kind === 'any') return;
    const { expression } = list;
    const items = expression.kind === 'fact' ? `{ var: ${expression.path} }` : '[...]';
    const help = `to look for an item, write { in: [item, ${items}] }`;
    report('C5015', list, `${keyName(operator)} cannot compare a whole list`, { help });
  }

  /** Reports values of different types, at the literal if there is one, else at the second. */
  function checkSame(a: Typed, b: Typed): void {
    if (b.expression.kind !== 'literal' && a.expression.kind === 'literal') return void checkSame(b, a);
    const kinds = [a.type.kind, b.type.kind];
    if (kinds.includes('any') || kinds.includes('nothing')) return;
    if (a.type.kind === b.type.kind) {
      checkOccurs(a, b);
      return void checkAmounts([a, b]);
    }
    const message = `${KIND_NAMES[a.type.kind]} never equals ${KIND_NAMES[b.type.kind]}`;
    const because = a.expression.kind === 'fact' ? `the fact ${a.expression.path} is` : undefined;
    reportMismatch(b, a.type.kind, message, because);
  }

  function checkOccurs({ expression: fact, type: { values } }: Typed, { expression: literal }: Typed): void {
    if (values === undefined || literal.kind !== 'literal' || values.includes(String(literal.value))) return;
    const name = fact.kind === 'fact' ? `the fact ${fact.path}` : 'the value';
    findings.report('C5014', literal.mark, `${name} is never ${quote(String(literal.value))}`, {
      expected: listed(values, 12),
      help: didYouMean(String(literal.value), values),
    });
  }

  /** Money may be compared with money, 0 and plausible amounts in nano-USD. */
  function checkAmounts(operands: readonly Typed[]): void {
    const money = operands.find(({ type }) => type.unit === 'money')?.expression;
    if (money === undefined) return;
    for (const operand of operands) {
      const { expression, type } = operand;
      if (type.kind !== 'number' || type.unit === 'money') continue;
      const amount = expression.kind === 'literal' ? Number(expression.value) : Number.NaN;
      if (amount === 0 || (Number.isInteger(amount) && Math.abs(amount) >= MIN_NANO_USD)) continue;
      const name = money.kind === 'fact' ? keyName(money.path) : 'the other operand';
      const help = amount > 0 ? `write an amount in USD as { usd: ${amount} }` : undefined;
      report('C5024', operand, `${name} is money, and this is not`, { expected: 'an amount of money', help });
    }
  }

  /** Checks the operands of `in`. @param parts the items of a literal list */
  function checkMembership(one: Typed, list: Typed, parts: readonly Typed[] | undefined): void {
    const { kind, item: kind_of_items } = list.type;
    const { expression } = list;
    if (kind === 'text') {
      report('C5006', list, '`in` does not search inside a string', {
        expected: 'a list',
        help: 'the item comes first; to compare strings, use `===`; to match a pattern, use `glob`: { glob: [{ var: request.model }, "coder-*"] }',
      });
    } else if (kind !== 'list') {
      if (kind !== 'any') report('C5015', list, '`in` looks for an item in a list', { expected: 'a list' });
    } else if (one.type.kind === 'list') {
      const help = correction(expression.kind === 'fact' ? list : one, 'list');
      report('C5015', one, '`in` looks for a single item, not a list', { expected: 'a single value', help });
    } else if (parts !== undefined) {
      for (const part of parts) checkSame(one, part);
    } else if (
      kind_of_items !== undefined &&
      ![kind_of_items, 'any'].includes(one.type.kind) &&
      kind_of_items !== 'any'
    ) {
      const because = expression.kind === 'fact' ? `the items of ${expression.path} are` : undefined;
      reportMismatch(one, kind_of_items, `no item of the list is ${KIND_NAMES[one.type.kind]}`, because);
    }
  }

  /** Checks an expression bottom-up; after an error in it, its type is `any`. */
  function check(expression: Expression): Typed {
    const before = findings.errors();
    if (expression.kind === 'list') for (const part of expression.items) check(part);
    if (expression.kind === 'call') checkCall(expression);
    if (expression.kind === 'literal' && isFact(String(expression.value))) {
      const expected = `{ var: ${expression.value} }, which reads the fact`;
      findings.report('C5013', expression.mark, `${keyName(String(expression.value))} is only a string here`, {
        expected,
      });
    }
    return { expression, type: findings.errors() > before ? ANY : typeOf(expression, item) };
  }

  function checkCall(call: Call): void {
    const { operator, operands } = call;
    const [first, ...more] = operands as readonly [Expression, ...Expression[]];
    switch (operator) {
      case 'some':
      case 'all':
      case 'none':
        return void checkQuantifier(operator, first, more[0]!);
      case 'glob':
      case 'cidr':
      case 'time_window':
        // With a literal first, the operands are probably swapped: that is one error.
        if (!isSubject(operator, check(first)) && first.kind === 'literal') return;
        for (const literal of more) checkLiteral(operator, literal);
        return;
      case 'bucket':
        isSubject(operator, check(first));
        checkLiteral('salt', more[0]!);
        return void checkLiteral('buckets', more[1]!);
      case 'usd':
        return void checkLiteral('usd', first);
      default:
        checkValues(operator, operands.map(check) as [Typed, Typed]);
    }
  }

  function checkValues(operator: Operator, operands: readonly [Typed, Typed, ...Typed[]]): void {
    const [first, second] = operands;
    switch (operator) {
      case '===':
      case '!==':
        return void checkEquality(operator, [first, second]);
      case 'in': {
        const { expression } = second;
        const parts = expression.kind === 'list' ? expression.items : undefined;
        return void checkMembership(
          first,
          second,
          parts?.map((part) => ({ expression: part, type: typeOf(part, item) })),
        );
      }
      case 'and':
      case 'or':
        for (const operand of operands) checkBoolean(operand, `an operand of ${keyName(operator)}`);
        return;
      case 'if':
        return void checkChoice(operands);
      case '<':
      case '<=':
      case '>':
      case '>=':
        return void checkOrdering(operator, operands);
      case '!':
      case '!!':
        return;
      default:
        for (const operand of operands) checkComputed(operator, operand);
    }
  }

  function checkBoolean(operand: Typed, what: string): void {
    const { kind } = operand.type;
    if (kind === 'boolean' || kind === 'any') return;
    report('C5016', operand, `${what} must be true or false`, { help: correction(operand, 'boolean') });
  }

  function checkComputed(operator: string, operand: Typed): void {
    const { expression, type } = operand;
    if (type.unit !== 'money') return void checkNumber(operator, 'computes with', operand);
    const is_fact = expression.kind === 'fact';
    const message = `${is_fact ? keyName(expression.path) : 'this'} is money, which rules can only compare`;
    const help = 'set limits on money under spend_limits';
    findings.report('C5024', is_fact ? expression.path_mark : expression.mark, message, { help });
  }

  function checkChoice(operands: readonly Typed[]): void {
    for (let at = 0; at + 1 < operands.length; at += 2) checkBoolean(operands[at]!, 'a condition of `if`');
    const [first, ...more] = branchesOf(operands).filter(({ type }) => type.kind !== 'any' && type.kind !== 'nothing');
    const odd = more.find(({ type }) => type.kind !== first?.type.kind);
    if (first === undefined || odd === undefined) return;
    const expected = `${KIND_NAMES[first.type.kind]}, as the first value is`;
    report('C5013', odd, 'the values of `if` have different types', { expected });
  }

  function checkQuantifier(operator: Operator, list: Expression, condition: Expression): void {
    const subject = check(list);
    isSubject(operator, subject);
    const outer = item;
    item = subject.type.kind === 'list' && subject.type.item !== undefined ? { kind: subject.type.item } : ANY;
    checkBoolean(check(condition), `the condition of ${keyName(operator)}`);
    item = outer;
  }

  /** Whether the first operand has the right type; reports otherwise. */
  function isSubject(operator: Operator, subject: Typed): boolean {
    const { expression, type } = subject;
    const is_literal = expression.kind === 'literal';
    const [what, fact] = SUBJECTS[operator] ?? ['a list', 'principal.groups'];
    const fits =
      what === 'a time' ? type.unit === 'moment' : type.kind === (what === 'a list' ? 'list' : 'text') && !is_literal;
    if (fits || type.kind === 'any') return true;
    const swapped = is_literal && type.kind === 'text';
    const order = swapped ? `the fact comes first: { ${operator}: [{ var: ${fact} }, ...] }` : undefined;
    report('C5015', subject, `the first operand of ${keyName(operator)} must be ${what}`, {
      expected: `a fact of the request, such as { var: ${fact} }`,
      help: order ?? correction(subject, 'any'),
    });
    return false;
  }

  return (condition) => checkBoolean(check(condition), 'the condition');
}
