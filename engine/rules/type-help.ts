import type { FactPath } from '../contract/facts.ts';
import { isFact } from './fact-paths.ts';
import { isMoney, type Kind, type Typed } from './types.ts';

/** The `help` of a diagnostic, where there is one. */
export function withHelp(help: string | undefined): { readonly help?: string } {
  return help === undefined ? {} : { help };
}

/** What to write instead of the path of a fact alone, which is only a text. */
export function readFactHelp(path: FactPath): string {
  return `to read the fact write { var: ${path} }`;
}

/** How to make a condition of a value that is none. */
export function conditionHelp({ expression, type }: Typed): string | undefined {
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

/** How to write a literal so that it is of the kind that is expected. */
export function literalHelp({ expression }: Typed, expected: Kind): string | undefined {
  if (expression.kind !== 'literal') return undefined;
  const { value } = expression;
  if (expected === 'text' && value !== null) return `write "${String(value)}" in quotes`;
  if (typeof value !== 'string') return undefined;
  if (isFact(value)) return readFactHelp(value);
  const [, thousands] = /^(\d+)k$/i.exec(value) ?? [];
  if (expected === 'number' && thousands !== undefined) return `write ${thousands}000`;
  const fits =
    expected === 'number' ? /^-?\d+(?:\.\d+)?$/.test(value) : expected === 'boolean' && /^(?:true|false)$/.test(value);
  return fits ? `write ${value} without quotes` : undefined;
}

/** What to do about an operand of a comparison that should be a number. */
export function numberHelp(operand: Typed): string | undefined {
  if (operand.expression.kind === 'literal') return literalHelp(operand, 'number');
  if (operand.type.kind === 'text') return 'texts have no order: compare them with `===`, `in` or `glob`';
  return undefined;
}

/** How to apply an operator that takes one value to the items of a list. */
export function eachItemHelp({ expression, type }: Typed, use: string): string | undefined {
  if (type.kind !== 'list' || expression.kind !== 'fact') return undefined;
  return `for any item of it: { some: [{ var: ${expression.path} }, ${use}] }`;
}
