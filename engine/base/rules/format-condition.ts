import type { FactKind } from '../contract/facts.ts';
import { factSpec, mayBeStageFact } from '../contract/own-facts.ts';
import { listed } from '../kit/text/suggest.ts';
import { expressionOf } from './logic.ts';

interface Phrase {
  readonly text: string;
  /** A loose part of a larger phrase gets parentheses. */
  readonly bond: 'loose' | 'tight';
}

const tight = (text: string): Phrase => ({ text, bond: 'tight' });
const loose = (text: string): Phrase => ({ text, bond: 'loose' });

const ITEM = 'it';

const SIGNS: Readonly<Record<string, string>> = { '*': 'x', '/': '/', '%': 'modulo', '+': '+', '-': '-' };

const EACH: Readonly<Record<string, string>> = { some: 'some item', all: 'every item', none: 'no item' };

function pathOf(logic: unknown): string | undefined {
  const [operator, operands] = expressionOf(logic) ?? [];
  return operator === 'var' ? String(operands![0]) : undefined;
}

function kindOf(logic: unknown): FactKind | undefined {
  const path = pathOf(logic);
  if (path === undefined) return expressionOf(logic) === undefined ? undefined : 'boolean';
  // A stage's fact without a comparison can only be a boolean.
  return factSpec(path)?.kind ?? (mayBeStageFact(path) ? 'boolean' : 'string');
}

const grouped = ({ text, bond }: Phrase): string => (bond === 'loose' ? `(${text})` : text);

function value(logic: unknown): string {
  const path = pathOf(logic);
  if (path !== undefined) return path === '' ? ITEM : path;
  if (expressionOf(logic) !== undefined) return grouped(describe(logic));
  if (Array.isArray(logic)) return `[${logic.map(value).join(', ')}]`;
  return logic === null ? 'nothing' : JSON.stringify(logic);
}

function sameness(not: boolean, [a, b]: readonly unknown[]): Phrase {
  // The constant comes second, whichever way round it was written.
  const [left, right] = expressionOf(a) === undefined ? [b, a] : [a, b];
  if (right === null) return tight(`${value(left)} ${not ? 'is set' : 'is not set'}`);
  return tight(`${value(left)} ${not ? 'is not' : 'is'} ${value(right)}`);
}

/** `!` (`not`) and `!!` of a value, by its type. */
function emptiness(not: boolean, operand: unknown): Phrase {
  const kind = kindOf(operand);
  const shown = value(operand);
  if (kind === 'boolean') {
    if (!not) return describe(operand);
    return tight(pathOf(operand) === undefined ? `not (${describe(operand).text})` : `not ${shown}`);
  }
  if (kind === 'strings') return tight(`${shown} ${not ? 'is' : 'is not'} empty`);
  if (kind === 'number') return tight(`${shown} is ${not ? '0 or not set' : 'set and not 0'}`);
  return tight(`${shown} ${not ? 'is not set' : 'is set'}`);
}

function membership([item, list]: readonly unknown[]): Phrase {
  if (!Array.isArray(list)) return tight(`${value(list)} has ${value(item)}`);
  if (list.length === 1) return tight(`${value(item)} is ${value(list[0])}`);
  return tight(`${value(item)} is ${list.length === 0 ? 'in an empty list' : `one of ${list.map(value).join(', ')}`}`);
}

function choice(operands: readonly unknown[]): Phrase {
  const parts: string[] = [];
  for (let i = 0; i + 1 < operands.length; i += 2) {
    parts.push(`${value(operands[i + 1])} if ${grouped(describe(operands[i]))}`);
  }
  return loose(`${parts.join(', ')}, otherwise ${value(operands.at(-1))}`);
}

function quantified(operator: string, [list, condition]: readonly unknown[]): Phrase {
  const who = `${EACH[operator]} of ${value(list)}`;
  const { text, bond } = describe(condition);
  if (bond === 'tight' && text.startsWith(`${ITEM} `)) return tight(`${who}${text.slice(ITEM.length)}`);
  return loose(`for ${who}: ${text}`);
}

function describeOperation(operator: string, operands: readonly unknown[]): Phrase {
  const [first, ...more] = operands;
  switch (operator) {
    case '===':
    case '!==':
      return sameness(operator === '!==', operands);
    case '!':
    case '!!':
      return emptiness(operator === '!', first);
    case 'and':
    case 'or':
      if (operands.length === 1) return describe(first);
      return loose(operands.map((operand) => grouped(describe(operand))).join(` ${operator} `));
    case 'in':
      return membership(operands);
    case 'if':
      return choice(operands);
    case 'glob':
      return tight(`${value(first)} matches ${listed(more.map(value), Infinity)}`);
    case 'bucket':
      return tight(`the bucket of ${value(first)} of ${String(more[1])} (${String(more[0])})`);
    case 'cidr':
      return tight(`${value(first)} is in ${listed(more.map(String), Infinity)}`);
    case 'time_window':
      return tight(`the time is in ${listed(more.map(String), Infinity)}`);
    case 'usd':
      return tight(`${String(first)} USD`);
    case 'some':
    case 'all':
    case 'none':
      return quantified(operator, operands);
    case '<':
    case '<=':
    case '>':
    case '>=':
      return tight(operands.map(value).join(` ${operator} `));
    case 'min':
    case 'max':
      return tight(`the ${operator === 'min' ? 'smallest' : 'greatest'} of ${operands.map(value).join(', ')}`);
    default:
      return arithmetic(operator, operands);
  }
}

function arithmetic(operator: string, operands: readonly unknown[]): Phrase {
  const sign = SIGNS[operator] ?? operator;
  if (operands.length === 1) return tight(`${sign}${value(operands[0])}`);
  return loose(operands.map(value).join(` ${sign} `));
}

function describe(logic: unknown): Phrase {
  const found = expressionOf(logic);
  if (found === undefined) {
    if (typeof logic === 'boolean') return tight(logic ? 'always' : 'never');
    return tight(value(logic));
  }
  const [operator, operands] = found;
  return operator === 'var' ? tight(value(logic)) : describeOperation(operator, operands);
}

/** A condition in plain English: `request.model matches "coder-*" and principal.groups has "interns"`. */
export function formatCondition(logic: unknown): string {
  return describe(logic).text;
}
