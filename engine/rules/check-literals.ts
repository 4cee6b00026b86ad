import { usdToNano } from '../kit/money.ts';
import { rangeProblem } from '../kit/net/address-range.ts';
import { describe, quote } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import { BUCKETS_MAX } from './bucket.ts';
import type { Expression } from './expression.ts';
import { windowProblem } from './time-window.ts';
import { withHelp } from './type-help.ts';

/** An operator whose operands, all but the value it looks at, are written out in the file. */
export type LiteralOperator = 'glob' | 'cidr' | 'time_window' | 'usd';

const EXPECTED = {
  glob: 'a pattern in quotes, such as "coder-*"',
  cidr: 'an address or a range, such as 10.0.0.0/8 or "2001:db8::/32"',
  time_window: 'days (optional), times and time zone (optional), such as "mon-fri 09:00-17:00 Europe/Berlin"',
  usd: 'an amount in USD, such as { usd: 0.5 }',
} as const;

const NAMES = { glob: 'pattern', cidr: 'address range', time_window: 'time window', usd: 'amount' } as const;

const SEVERAL = 'write several of them one after the other, not as a list';

/** Checks a pattern, address range, time window or amount; it must be a literal, so that it is parsed once. */
export function checkLiteral(operator: LiteralOperator, operand: Expression, findings: Findings): void {
  if (operand.kind === 'broken') return;
  const expected = EXPECTED[operator];
  const { mark } = operand;
  if (operand.kind !== 'literal') {
    const found = operand.kind === 'list' ? 'a list' : 'an expression';
    const help = withHelp(operand.kind === 'list' && operator !== 'usd' ? SEVERAL : undefined);
    const message = `the ${NAMES[operator]} of \`${operator}\` is not written out`;
    findings.report('C5017', mark, message, { found, expected, ...help });
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
    findings.report('C5018', mark, `${quote(text)} ${problem}`, { expected });
  } else if (operator === 'time_window') {
    const found = windowProblem(text);
    if (found === undefined) return;
    const message = `${quote(text)} is no time window: ${found.problem}`;
    findings.report('C5019', mark, message, { expected, ...withHelp(found.help) });
  }
}

function checkAmount(value: unknown, mark: Expression['mark'], findings: Findings): void {
  if (typeof value !== 'number') {
    const help =
      typeof value === 'string' && /^\d+(?:\.\d+)?$/.test(value) ? `write ${value} without quotes` : undefined;
    findings.report('C5020', mark, 'the amount is not a number', { expected: EXPECTED.usd, ...withHelp(help) });
    return;
  }
  try {
    usdToNano(value);
  } catch (error) {
    const expected = 'a number that is not negative, with at most 9 decimals';
    findings.report('C5020', mark, `the amount cannot be used: ${(error as Error).message}`, { expected });
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
