import type { FactPath } from '../contract/facts.ts';
import { type FactSpec, factSpec } from '../contract/own-facts.ts';
import { usdToNano } from '../kit/money.ts';
import { rangeProblem } from '../kit/net/address-range.ts';
import { didYouMean, listed } from '../kit/text/suggest.ts';
import type { Findings } from '../source/findings.ts';
import { describe, keyName, quote } from '../source/node.ts';
import { BUCKETS_MAX, windowProblem } from './compile.ts';
import type { Call, Expression } from './expression.ts';
import { isFact } from './fact-paths.ts';
import type { Operator } from './operators.ts';

/** What an expression can give; `nothing` is the constant null, `any` comes after a mistake and fits everywhere. */
export type Kind = 'text' | 'number' | 'boolean' | 'list' | 'nothing' | 'any';

/** The type of an expression. */
export interface Type {
  readonly kind: Kind;
  readonly item?: Kind;
  /** What a number counts, where it is not a plain one. */
  readonly unit?: 'money' | 'moment';
  /** The only texts it can be. */
  readonly values?: readonly string[];
}

const ANY: Type = { kind: 'any' };
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
function formatTyped({ expression, type }: Typed): string {
  if (expression.kind === 'literal') return describe(expression.node);
  if (expression.kind === 'fact') return `the fact ${expression.path}, ${KIND_NAMES[type.kind]}`;
  if (expression.kind === 'item') return `the item, ${KIND_NAMES[type.kind]}`;
  if (expression.kind === 'call') return `what \`${expression.operator}\` gives, ${KIND_NAMES[type.kind]}`;
  return KIND_NAMES[type.kind];
}

/** What to write instead of the path of a fact alone, which is only a text. */
function readFactHelp(path: FactPath): string {
  return `to read the fact write { var: ${path} }`;
}

/** How to make a condition of a value that is none. */
function conditionHelp({ expression, type }: Typed): string | undefined {
  if (expression.kind === 'literal' && typeof expression.value === 'string') {
    const { value } = expression;
    if (isFact(value)) return readFactHelp(value);
    return /^(?:true|false)$/i.test(value) ? `write ${value.toLowerCase()} without quotes` : undefined;
  }
  if (expression.kind === 'item') return 'compare the item: { glob: [{ var: "" }, "eng-*"] }';
  if (expression.kind === 'call') return `compare it: { ">": [{ "${expression.operator}": [...] }, 0] }`;
  if (expression.kind !== 'fact') return undefined;
  const { path } = expression;
  if (type.kind === 'list') return `to test whether it has items write { "!!": { var: ${path} } }`;
  if (type.kind === 'text') return `to test whether it is set write { "!!": { var: ${path} } }`;
  return `compare it: { ">": [{ var: ${path} }, ${isMoney(path) ? '{ usd: 0.5 }' : '0'}] }`;
}

function literalHelp({ expression }: Typed, expected: Kind): string | undefined {
  if (expression.kind !== 'literal') return undefined;
  const { value } = expression;
  if (expected === 'text' && value !== null) return `write "${String(value)}" in quotes`;
  if (typeof value !== 'string') return undefined;
  if (isFact(value)) return readFactHelp(value);
  const fits =
    expected === 'number' ? /^-?\d+(?:\.\d+)?$/.test(value) : expected === 'boolean' && /^(?:true|false)$/.test(value);
  return fits ? `write ${value} without quotes` : undefined;
}

/** What to do about an operand of a comparison that should be a number. */
function numberHelp(operand: Typed): string | undefined {
  if (operand.expression.kind === 'literal') return literalHelp(operand, 'number');
  if (operand.type.kind === 'text') return 'texts have no order: compare them with `===`, `in` or `glob`';
  return undefined;
}

/** How to apply an operator that takes one value to the items of a list. */
function eachItemHelp({ expression, type }: Typed, use: string): string | undefined {
  if (type.kind !== 'list' || expression.kind !== 'fact') return undefined;
  return `for any item of it: { some: [{ var: ${expression.path} }, ${use}] }`;
}

/** An operator whose operands, all but the value it looks at, are written out in the file. */
type LiteralOperator = 'glob' | 'cidr' | 'time_window' | 'usd';

const EXPECTED = {
  glob: 'a pattern in quotes, such as "coder-*"',
  cidr: 'an address or a range, such as 10.0.0.0/8 or "2001:db8::/32"',
  time_window: 'days (optional), times and time zone (optional), such as "mon-fri 09:00-17:00 Europe/Berlin"',
  usd: 'an amount in USD, such as { usd: 0.5 }',
} as const;

const NAMES = { glob: 'pattern', cidr: 'address range', time_window: 'time window', usd: 'amount' } as const;

const SEVERAL = 'write several of them one after the other, not as a list';

/** Checks a pattern, address range, time window or amount; it must be a literal, so that it is parsed once. */
function checkLiteral(operator: LiteralOperator, operand: Expression, findings: Findings): void {
  if (operand.kind === 'broken') return;
  const expected = EXPECTED[operator];
  const { mark } = operand;
  if (operand.kind !== 'literal') {
    const found = operand.kind === 'list' ? 'a list' : 'an expression';
    const help = operand.kind === 'list' && operator !== 'usd' ? SEVERAL : undefined;
    const message = `the ${NAMES[operator]} of \`${operator}\` is not written out`;
    findings.report('C5017', mark, message, { found, expected, help });
    return;
  }
  const text = operand.value;
  if (operator === 'usd') {
    checkAmount(text, mark, findings);
  } else if (typeof text !== 'string') {
    findings.report('C5017', mark, `the ${NAMES[operator]} of \`${operator}\` is not a text`, {
      found: describe(operand.node),
      expected,
    });
  } else if (operator === 'cidr') {
    const problem = rangeProblem(text);
    if (problem === undefined) return;
    findings.report('C5017', mark, `${quote(text)} ${problem}`, { expected });
  } else if (operator === 'time_window') {
    const found = windowProblem(text);
    if (found === undefined) return;
    const message = `${quote(text)} is no time window: ${found.problem}`;
    findings.report('C5017', mark, message, { expected, help: found.help });
  }
}

function checkAmount(value: unknown, mark: Expression['mark'], findings: Findings): void {
  if (typeof value !== 'number') {
    const help =
      typeof value === 'string' && /^\d+(?:\.\d+)?$/.test(value) ? `write ${value} without quotes` : undefined;
    findings.report('C5017', mark, 'the amount is not a number', { expected: EXPECTED.usd, help });
    return;
  }
  try {
    usdToNano(value);
  } catch (error) {
    const expected = 'a number that is not negative, with at most 9 decimals';
    findings.report('C5017', mark, `the amount cannot be used: ${(error as Error).message}`, { expected });
  }
}

/** Checks the salt and the number of buckets, which are written out. */
export function checkBuckets(salt: Expression, count: Expression, findings: Findings): void {
  if (salt.kind !== 'broken' && (salt.kind !== 'literal' || typeof salt.value !== 'string' || salt.value === '')) {
    findings.report('C5017', salt.mark, 'the salt of `bucket` is not a text', {
      expected:
        'a text that is written out, another one for each split: { bucket: [{ var: principal.id }, "new-model", 100] }',
    });
  }
  const value = count.kind === 'literal' ? count.value : undefined;
  const fits = typeof value === 'number' && Number.isInteger(value) && value >= 2 && value <= BUCKETS_MAX;
  if (count.kind === 'broken' || fits) return;
  findings.report('C5017', count.mark, 'the number of buckets is not a whole number', {
    expected: `a number from 2 to ${BUCKETS_MAX}, such as 100`,
  });
}

/** A smaller plain number compared with money must be meant in USD: it is less than a millionth of one. */
const LEAST_NANO_USD = 1000;

/** Reports C5015: an operand that is not what its operator takes. */
function reportWrongOperand(
  findings: Findings,
  operand: Typed,
  message: string,
  expected: string,
  help?: string,
): void {
  findings.report('C5015', operand.expression.mark, message, {
    found: formatTyped(operand),
    expected,
    help,
  });
}

/** Reports an operand that is no finite number; `verb` says what the operator does with numbers. */
function checkNumber(findings: Findings, operator: string, verb: 'compares' | 'computes with', operand: Typed): void {
  const { expression, type } = operand;
  const infinite =
    expression.kind === 'literal' && [Infinity, -Infinity, Number.NaN].includes(expression.value as number);
  if (type.kind === 'any' || (type.kind === 'number' && !infinite)) return;
  const help = verb === 'compares' ? numberHelp(operand) : literalHelp(operand, 'number');
  reportWrongOperand(findings, operand, `${keyName(operator)} ${verb} numbers`, 'a finite number', help);
}

function checkOrdering(findings: Findings, operator: string, operands: readonly Typed[]): void {
  const before = findings.errors();
  for (const operand of operands) {
    // Of two texts, the first says that texts have no order.
    if (findings.errors() === before) checkNumber(findings, operator, 'compares', operand);
  }
  if (findings.errors() === before) checkAmounts(findings, operands);
}

/** Whether a text is the path of a fact, and so was meant to read it; reports it. */
function isUnreadFact(findings: Findings, { expression }: Typed): boolean {
  if (expression.kind !== 'literal' || !isFact(String(expression.value))) return false;
  findings.report('C5013', expression.mark, `${keyName(String(expression.value))} is only a text here`, {
    expected: `{ var: ${String(expression.value)} }, which reads the fact`,
  });
  return true;
}

function checkEquality(findings: Findings, operator: string, [a, b]: readonly [Typed, Typed]): void {
  if (isUnreadFact(findings, a) || isUnreadFact(findings, b)) return;
  const list = [a, b].find(({ type }) => type.kind === 'list');
  if (list === undefined) {
    checkSame(findings, a, b);
  } else if (a.type.kind !== 'any' && b.type.kind !== 'any') {
    const { expression } = list;
    const other = (list === a ? b : a).expression;
    const text = other.kind === 'literal' ? String(other.value) : '';
    const item = other.kind === 'fact' ? `{ var: ${other.path} }` : /^[a-z][\w-]*$/i.test(text) ? text : 'item';
    const items = expression.kind === 'fact' ? `{ var: ${expression.path} }` : '[...]';
    findings.report('C5015', expression.mark, `${keyName(operator)} cannot compare a whole list`, {
      found: formatTyped(list),
      help: `to look for an item write { in: [${item}, ${items}] }`,
    });
  }
}

/** Whether two values can be the same; a literal is blamed, otherwise the second. */
function checkSame(findings: Findings, a: Typed, b: Typed): void {
  if (b.expression.kind !== 'literal' && a.expression.kind === 'literal') {
    checkSame(findings, b, a);
    return;
  }
  const kinds = [a.type.kind, b.type.kind];
  if (kinds.includes('any') || kinds.includes('nothing')) return;
  if (a.type.kind === b.type.kind) {
    checkOccurs(findings, a, b);
    checkAmounts(findings, [a, b]);
    return;
  }
  const message = `${KIND_NAMES[a.type.kind]} is never the same as ${KIND_NAMES[b.type.kind]}`;
  reportMismatch(
    findings,
    b,
    a.type.kind,
    message,
    a.expression.kind === 'fact' ? `the fact ${a.expression.path} is` : undefined,
  );
}

function reportMismatch(findings: Findings, operand: Typed, expected: Kind, message: string, because?: string): void {
  findings.report('C5013', operand.expression.mark, message, {
    found: formatTyped(operand),
    expected: because === undefined ? KIND_NAMES[expected] : `${KIND_NAMES[expected]}, as ${because}`,
    help: literalHelp(operand, expected),
  });
}

/** Whether a fact with a closed set of values can be what it is compared with. */
function checkOccurs(findings: Findings, { expression: fact, type }: Typed, { expression: literal }: Typed): void {
  const { values } = type;
  if (values === undefined || literal.kind !== 'literal' || values.includes(String(literal.value))) return;
  const name = fact.kind === 'fact' ? `the fact ${fact.path}` : 'the value';
  findings.report('C5014', literal.mark, `${name} is never ${quote(String(literal.value))}`, {
    expected: listed(values, 12),
    help: didYouMean(String(literal.value), values),
  });
}

/** Money is compared with money; of plain numbers only with 0 and those that can be nano-USD. */
function checkAmounts(findings: Findings, operands: readonly Typed[]): void {
  const money = operands.find(({ type }) => type.unit === 'money');
  if (money === undefined) return;
  for (const operand of operands) {
    const { expression, type } = operand;
    if (type.kind !== 'number' || type.unit === 'money') continue;
    const amount = expression.kind === 'literal' ? Number(expression.value) : Number.NaN;
    if (amount === 0 || (Number.isInteger(amount) && Math.abs(amount) >= LEAST_NANO_USD)) continue;
    const name = money.expression.kind === 'fact' ? keyName(money.expression.path) : 'the other operand';
    findings.report('C5024', expression.mark, `${name} is money, and this is not`, {
      found: formatTyped(operand),
      expected: 'an amount of money',
      help: amount > 0 ? `an amount in USD is written { usd: ${amount} }` : undefined,
    });
  }
}

function swapHelp({ expression: list }: Typed, { expression: item }: Typed): string {
  const path = list.kind === 'fact' ? `{ var: ${list.path} }` : '[...]';
  const text =
    item.kind === 'literal' ? quote(String(item.value)) : item.kind === 'fact' ? `{ var: ${item.path} }` : 'item';
  return `the item comes first: { in: [${text}, ${path}] }`;
}

/** Checks the operands of `in`; `parts` are the items of a list that is written out. */
function checkMembership(findings: Findings, item: Typed, list: Typed, parts: readonly Typed[] | undefined): void {
  if ([item, ...(parts ?? [])].some((operand) => isUnreadFact(findings, operand))) return;
  const { kind, item: items } = list.type;
  if (kind === 'text') {
    const { expression } = list;
    const path = expression.kind === 'literal' ? String(expression.value) : '';
    findings.report('C5006', list.expression.mark, '`in` would look inside a text', {
      found: formatTyped(list),
      expected: 'a list',
      help: isFact(path)
        ? readFactHelp(path)
        : item.type.kind === 'list'
          ? swapHelp(item, list)
          : 'to compare texts use `===`, to match a pattern `glob`: { glob: [{ var: request.model }, "coder-*"] }',
    });
  } else if (kind !== 'list') {
    if (kind !== 'any') reportWrongOperand(findings, list, '`in` looks for an item in a list', 'a list');
  } else if (item.type.kind === 'list') {
    const help =
      list.expression.kind === 'fact' && item.expression.kind === 'list'
        ? `for any of them: { some: [{ var: ${list.expression.path} }, { in: [{ var: "" }, [...]] }] }`
        : eachItemHelp(item, '{ in: [{ var: "" }, [...]] }');
    reportWrongOperand(findings, item, '`in` looks for one item, not for a list', 'a single value', help);
  } else if (parts !== undefined) {
    for (const part of parts) checkSame(findings, item, part);
  } else if (items !== undefined && items !== 'any' && item.type.kind !== 'any' && item.type.kind !== items) {
    const because = list.expression.kind === 'fact' ? `the items of ${list.expression.path} are` : undefined;
    reportMismatch(findings, item, items, 'the list has no such item', because);
  }
}

/** Checks the types of one condition after another; reports each mistake once, at the operand that has it. */
export class TypeChecker {
  private readonly findings: Findings;
  /** Type of `{ var: "" }` where the check is now. */
  private item: Type = ANY;

  constructor(findings: Findings) {
    this.findings = findings;
  }

  condition(expression: Expression): void {
    this.isBoolean(this.check(expression), 'the condition');
  }

  /** Checks an expression from the inside out; its type is `any` after a mistake in it. */
  private check(expression: Expression): Typed {
    const before = this.findings.errors();
    if (expression.kind === 'list') for (const part of expression.items) this.check(part);
    if (expression.kind === 'call') this.call(expression);
    return { expression, type: this.findings.errors() > before ? ANY : typeOf(expression, this.item) };
  }

  private call(call: Call): void {
    const [first, ...more] = call.operands;
    switch (call.operator) {
      case 'some':
      case 'all':
      case 'none':
        this.quantifier(call, first!, more[0]!);
        break;
      case 'glob':
      case 'cidr':
      case 'time_window':
        // Literals in the place of the value were taken for it: they are no second mistake.
        if (!this.subject(call.operator, this.check(first!)) && first!.kind === 'literal') break;
        for (const literal of more) checkLiteral(call.operator, literal, this.findings);
        break;
      case 'bucket':
        this.subject('glob', this.check(first!), 'principal.id', '`bucket` takes a text first');
        checkBuckets(more[0]!, more[1]!, this.findings);
        break;
      case 'usd':
        checkLiteral('usd', first!, this.findings);
        break;
      default:
        this.values(
          call,
          call.operands.map((operand) => this.check(operand)),
        );
    }
  }

  private values({ operator }: Call, operands: readonly Typed[]): void {
    const { findings } = this;
    const [first, second] = operands as readonly [Typed, Typed];
    switch (operator) {
      case '===':
      case '!==':
        checkEquality(findings, operator, [first, second]);
        break;
      case 'in': {
        const { expression } = second;
        const parts = expression.kind === 'list' ? expression.items : undefined;
        checkMembership(
          findings,
          first,
          second,
          parts?.map((part) => ({ expression: part, type: typeOf(part, this.item) })),
        );
        break;
      }
      case 'and':
      case 'or':
        for (const operand of operands) this.isBoolean(operand, `what ${keyName(operator)} combines`);
        break;
      case 'if':
        this.choice(operands);
        break;
      case '<':
      case '<=':
      case '>':
      case '>=':
        checkOrdering(findings, operator, operands);
        break;
      case '!':
      case '!!':
        break;
      default:
        for (const operand of operands) this.computed(operator, operand);
    }
  }

  private isBoolean(operand: Typed, what: string): void {
    const { kind } = operand.type;
    if (kind === 'boolean' || kind === 'any') return;
    this.findings.report('C5016', operand.expression.mark, `${what} is not true or false`, {
      found: formatTyped(operand),
      help: conditionHelp(operand),
    });
  }

  private computed(operator: string, operand: Typed): void {
    const { expression, type } = operand;
    if (type.unit !== 'money') {
      checkNumber(this.findings, operator, 'computes with', operand);
      return;
    }
    const is_fact = expression.kind === 'fact';
    const message = `${is_fact ? keyName(expression.path) : 'this'} is money: rules compare it only`;
    const help = 'limits on money belong into spend_limits';
    this.findings.report('C5024', is_fact ? expression.path_mark : expression.mark, message, { help });
  }

  private choice(operands: readonly Typed[]): void {
    for (let at = 0; at + 1 < operands.length; at += 2) this.isBoolean(operands[at]!, 'what `if` tests');
    const [first, ...more] = branchesOf(operands).filter(({ type }) => type.kind !== 'any' && type.kind !== 'nothing');
    const odd = more.find(({ type }) => type.kind !== first?.type.kind);
    if (first === undefined || odd === undefined) return;
    this.findings.report('C5013', odd.expression.mark, 'the values of `if` are of different types', {
      found: formatTyped(odd),
      expected: `${KIND_NAMES[first.type.kind]}, as the first value is`,
    });
  }

  private quantifier({ operator }: Call, list: Expression, condition: Expression): void {
    const { expression, type } = this.check(list);
    this.subject(operator, { expression, type });
    const outer = this.item;
    this.item = type.kind === 'list' && type.item !== undefined ? { kind: type.item } : ANY;
    this.isBoolean(this.check(condition), `what ${keyName(operator)} tests`);
    this.item = outer;
  }

  /** Whether the first operand fits an operator that looks at one value, or at the items of one. */
  private subject(
    operator: Call['operator'],
    subject: Typed,
    fact = operator === 'cidr' ? 'request.client.address' : 'request.model',
    message = `${keyName(operator)} looks at a text first`,
  ): boolean {
    const { findings } = this;
    const { expression, type } = subject;
    if (type.kind === 'any') return true;
    if (operator === 'time_window') {
      if (type.unit === 'moment') return true;
      reportWrongOperand(findings, subject, '`time_window` looks at a moment', '{ var: request.received_at }');
    } else if (operator === 'glob' || operator === 'cidr') {
      const expected = `a text that differs from request to request, such as { var: ${fact} }`;
      if (type.kind === 'text' && expression.kind !== 'literal') return true;
      const swapped = expression.kind === 'literal' && type.kind === 'text' && !isFact(String(expression.value));
      const order = swapped ? `what is looked at comes first: { ${operator}: [{ var: ${fact} }, ...] }` : undefined;
      const help =
        order ?? literalHelp(subject, 'any') ?? eachItemHelp(subject, `{ ${operator}: [{ var: "" }, "..."] }`);
      reportWrongOperand(findings, subject, message, expected, help);
    } else {
      if (type.kind === 'list') return true;
      const help = literalHelp(subject, 'list');
      reportWrongOperand(findings, subject, `${keyName(operator)} looks at the items of a list`, 'a list', help);
    }
    return false;
  }
}
