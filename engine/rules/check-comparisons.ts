import { didYouMean, listed } from '../kit/text/suggest.ts';
import { keyName, quote } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import { isFact } from './fact-paths.ts';
import { eachItemHelp, literalHelp, numberHelp, readFactHelp, withHelp } from './type-help.ts';
import { formatKind, formatTyped, type Kind, type Typed } from './types.ts';

/** A smaller plain number compared with money must be meant in USD: it is less than a millionth of one. */
const LEAST_NANO_USD = 1000;

/** Reports C5015: an operand that is not what its operator takes. */
export function reportWrongOperand(
  findings: Findings,
  operand: Typed,
  message: string,
  expected: string,
  help?: string,
): void {
  findings.report('C5015', operand.expression.mark, message, {
    found: formatTyped(operand),
    expected,
    ...withHelp(help),
  });
}

/** Reports an operand that is no finite number; `verb` says what the operator does with numbers. */
export function checkNumber(
  findings: Findings,
  operator: string,
  verb: 'compares' | 'computes with',
  operand: Typed,
): void {
  const { expression, type } = operand;
  const infinite =
    expression.kind === 'literal' && [Infinity, -Infinity, Number.NaN].includes(expression.value as number);
  if (type.kind === 'any' || (type.kind === 'number' && !infinite)) return;
  const help = verb === 'compares' ? numberHelp(operand) : literalHelp(operand, 'number');
  reportWrongOperand(findings, operand, `${keyName(operator)} ${verb} numbers`, 'a finite number', help);
}

/** Checks the operands of `<`, `<=`, `>` and `>=`. */
export function checkOrdering(findings: Findings, operator: string, operands: readonly Typed[]): void {
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
  findings.report('C5026', expression.mark, `${keyName(String(expression.value))} is only a text here`, {
    expected: `{ var: ${String(expression.value)} }, which reads the fact`,
  });
  return true;
}

/** Checks the operands of `===` and `!==`. */
export function checkEquality(findings: Findings, operator: string, [a, b]: readonly [Typed, Typed]): void {
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
    findings.report('C5021', expression.mark, `${keyName(operator)} cannot compare a whole list`, {
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
  const message = `${formatKind(a.type.kind)} is never the same as ${formatKind(b.type.kind)}`;
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
    expected: because === undefined ? formatKind(expected) : `${formatKind(expected)}, as ${because}`,
    ...withHelp(literalHelp(operand, expected)),
  });
}

/** Whether a fact with a closed set of values can be what it is compared with. */
function checkOccurs(findings: Findings, { expression: fact, type }: Typed, { expression: literal }: Typed): void {
  const { values } = type;
  if (values === undefined || literal.kind !== 'literal' || values.includes(String(literal.value))) return;
  const name = fact.kind === 'fact' ? `the fact ${fact.path}` : 'the value';
  findings.report('C5014', literal.mark, `${name} is never ${quote(String(literal.value))}`, {
    expected: listed(values, 12),
    ...withHelp(didYouMean(String(literal.value), values)),
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
      ...withHelp(amount > 0 ? `an amount in USD is written { usd: ${amount} }` : undefined),
    });
  }
}

/** What to write where the list stands before the item. */
function swapHelp({ expression: list }: Typed, { expression: item }: Typed): string {
  const path = list.kind === 'fact' ? `{ var: ${list.path} }` : '[...]';
  const text =
    item.kind === 'literal' ? quote(String(item.value)) : item.kind === 'fact' ? `{ var: ${item.path} }` : 'item';
  return `the item comes first: { in: [${text}, ${path}] }`;
}

/** Checks the operands of `in`; `parts` are the items of a list that is written out. */
export function checkMembership(
  findings: Findings,
  item: Typed,
  list: Typed,
  parts: readonly Typed[] | undefined,
): void {
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
