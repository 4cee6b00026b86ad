import type { FactPath } from '../contract/facts.ts';
import { type FactSpec, factSpec, HEADER_FACTS, mayBeStageFact, type StageFacts } from '../contract/own-facts.ts';
import { didYouMean, listed } from '../kit/text/suggest.ts';
import type { DiagnosticCode } from '../source/diagnostics/codes.ts';
import type { Details, Findings } from '../source/findings.ts';
import { describe, keyName, type Mark, type Node, type ScalarNode } from '../source/node.ts';
import { isFact, unknownFactHelp } from './fact-paths.ts';
import {
  OPERATORS,
  type Operator,
  type OperatorSpec,
  OTHER_NAMES,
  operatorSpec,
  REFUSED_OPERATORS,
  takesOperands,
} from './operators.ts';

interface Common {
  readonly mark: Mark;
  /** The expression as JSON-Logic, named rules expanded. */
  readonly logic: unknown;
  /** Operators in it, and how deep they are nested, named rules expanded. */
  readonly size: number;
  readonly depth: number;
}

/** A node of a parsed condition, with its position. */
export type Expression = Common &
  (
    | { readonly kind: 'literal'; readonly value: ScalarNode['value']; readonly node: ScalarNode }
    | { readonly kind: 'list'; readonly items: readonly Expression[] }
    | { readonly kind: 'fact'; readonly path: FactPath; readonly spec: FactSpec; readonly path_mark: Mark }
    /** `{ var: "" }` inside some, all and none. */
    | { readonly kind: 'item' }
    | { readonly kind: 'rule'; readonly name: string }
    | {
        readonly kind: 'call';
        readonly operator: Operator;
        readonly operands: readonly Expression[];
        readonly key: Mark;
      }
    /** Has an error already; report nothing more about it. */
    | { readonly kind: 'broken' }
  );

export type Fact = Extract<Expression, { kind: 'fact' }>;

/** An operator with its operands. */
export type Call = Extract<Expression, { kind: 'call' }>;

/** Looks up a named rule; reports when it cannot be used. */
export type FindRule = (name: string, node: Node) => Pick<Common, 'logic' | 'size' | 'depth'> | undefined;

const MAX_DEPTH = 100;
const MAX_SIZE = 10_000;

const PROTOTYPE_KEYS = new Set(['__proto__', 'constructor', 'prototype']);

const operandsOf = (value: Node): readonly Node[] => (value.kind === 'list' ? value.items : [value]);

function plural([min, max]: readonly [number, number]): string {
  if (max === Number.POSITIVE_INFINITY) return `${min} or more`;
  return min === max ? String(min) : `${min} or ${max}`;
}

function otherOperator(key: string): string | undefined {
  const [, path = key] = /^var[: ] *(\S+)$/.exec(key) ?? [];
  if (isFact(path)) return `to read a fact write { var: ${path} }`;
  // Any two signs are similar.
  return OTHER_NAMES.get(key) ?? (/^\w/.test(key) ? didYouMean(key, Object.keys(OPERATORS)) : undefined);
}

/** The facts that only this configuration knows. */
export interface OwnFacts {
  readonly headers: readonly string[];
  readonly of_stages: StageFacts;
  /** Whether these are all: a stage that failed to load may define more. */
  readonly knows_stages: boolean;
}

/** Creates the parser of conditions, which reports syntax errors. */
export function createExpressionReader(
  findings: Findings,
  findRule: FindRule,
  own: OwnFacts,
): (node: Node) => Expression {
  let before = 0;

  const broken = (mark: Mark): Expression => ({ kind: 'broken', mark, logic: null, size: 0, depth: 0 });

  /** Reports an error. @param mark the position of the expression */
  function reject(code: DiagnosticCode, at: Mark, message: string, more: Details = {}, mark = at): Expression {
    findings.report(code, at, message, more);
    return broken(mark);
  }

  /** @param in_item whether `node` is evaluated once per item of a list, where only `{ var: "" }` is available */
  function readPart(node: Node, in_item: boolean, level: number): Expression {
    const { mark } = node;
    if (level > MAX_DEPTH) return tooLarge(mark);
    if (node.kind === 'scalar')
      return { kind: 'literal', mark, logic: node.value, size: 0, depth: 0, value: node.value, node };
    if (node.kind === 'list') {
      const items = node.items.map((item) => readPart(item, in_item, level + 1));
      const logic = items.map((item) => item.logic);
      return measured({ kind: 'list', mark, logic, items }, items, 0);
    }
    const [entry, second] = node.entries;
    if (entry === undefined) {
      return reject('C5003', mark, 'an empty mapping is not an expression', {
        expected: 'a mapping with one key, the operator',
      });
    }
    if (second !== undefined) {
      const keys = node.entries.map(({ key }) => keyName(key)).join(' and ');
      const help = 'combine conditions: { and: [ {...}, {...} ] }';
      return reject('C5003', second.key_mark, `an expression has one operator; this one has ${keys}`, { help }, mark);
    }
    const { key, value, key_mark } = entry;
    if (key === 'rule') return readRule(value, mark, in_item);
    if (key === 'var') return readVariable(value, mark, in_item);
    const spec = operatorSpec(key);
    if (spec === undefined) return rejectOperator(key, key_mark);
    const operator = key as Operator;
    const operands = operandsOf(value).map((operand, at) =>
      readPart(operand, in_item || (spec.iterates === true && at > 0), level + 1),
    );
    if (!takesOperands(spec, operands.length)) {
      const is_empty = value.kind === 'scalar' && value.value === null;
      return rejectCount(operator, spec, is_empty ? 0 : operands.length, key_mark);
    }
    const logic = { [operator]: operands.map((operand) => operand.logic) };
    return measured({ kind: 'call', mark, key: key_mark, logic, operator, operands }, operands, 1);
  }

  function measured<E>(expression: E & { mark: Mark }, parts: readonly Expression[], own_size: 0 | 1): Expression {
    const size = parts.reduce<number>((sum, part) => sum + part.size, own_size);
    const depth = parts.reduce((most, part) => Math.max(most, part.depth), 0);
    if (size > MAX_SIZE || depth >= MAX_DEPTH) return tooLarge(expression.mark);
    return { ...expression, size, depth: depth + 1 } as Expression & E;
  }

  function tooLarge(mark: Mark): Expression {
    // Report only the innermost level: all levels above are too large as well.
    if (findings.errors() !== before) return broken(mark);
    return reject('C5025', mark, 'the condition is too large', {
      expected: `at most ${MAX_SIZE} operators, nested ${MAX_DEPTH} deep, counting named rules at each use`,
    });
  }

  function rejectCount(operator: Operator, spec: OperatorSpec, count: number, key: Mark): Expression {
    const [min, max] = spec.operands;
    if (spec.odd === true && count >= min) {
      const more = { found: `${count} operands`, expected: 'an odd number of operands' };
      return reject('C5011', key, '`if` needs a last value, for when no condition is true', more);
    }
    const as_list = `write them as a list: { "${operator}": [..., ...] }`;
    const help = count === 1 && min > 1 ? as_list : `for example ${spec.example}`;
    const message = `${keyName(operator)} takes ${plural(spec.operands)} ${max === 1 ? 'operand' : 'operands'}`;
    return reject('C5011', key, message, { found: String(count), help });
  }

  function rejectOperator(key: string, mark: Mark): Expression {
    const help = REFUSED_OPERATORS.get(key);
    if (help !== undefined) return reject('C5005', mark, `the operator ${keyName(key)} is not allowed`, { help });
    return reject('C5001', mark, `unknown operator ${keyName(key)}`, {
      expected: listed(Object.keys(OPERATORS), 30),
      help: otherOperator(key),
    });
  }

  function readVariable(value: Node, mark: Mark, in_item: boolean): Expression {
    const operands = operandsOf(value);
    const [operand] = operands;
    if (operands.length !== 1 || operand?.kind !== 'scalar' || typeof operand.value !== 'string') {
      const computed = operand?.kind === 'map' || operand?.kind === 'list';
      const more = {
        found: operands.length > 1 ? `${operands.length} operands` : describe(value),
        expected: 'one literal path, such as { var: request.model }',
        help:
          operands.length > 1
            ? '`var` supports no default; to test whether a fact is set, write { "!==": [{ var: path }, null] }'
            : undefined,
      };
      const message = computed ? 'the path of a fact must be a literal' : '`var` takes one path';
      return reject('C5004', value.mark, message, more, mark);
    }
    const path = operand.value;
    const common = { mark, logic: { var: path }, size: 0, depth: 0 };
    const spec = factSpec(path, own.of_stages);
    const wrong = (message: string, more: Details = {}) => reject('C5002', operand.mark, message, more, mark);
    if (path.split('.').some((key) => PROTOTYPE_KEYS.has(key)))
      return wrong(`${keyName(path)} is not a path of a fact`, { help: 'appscli explain fact lists all facts' });
    if (in_item) {
      if (path === '') return { ...common, kind: 'item' };
      return wrong(`${keyName(path)} is not available inside some, all and none`, {
        expected: '{ var: "" }, the item',
        help: 'compare facts outside of some, all and none',
      });
    }
    const header = path.startsWith(HEADER_FACTS) ? path.slice(HEADER_FACTS.length) : undefined;
    if (header !== undefined && !own.headers.includes(header)) {
      const help = didYouMean(header, own.headers, `name it in gateway.yaml: facts: { headers: [${header}] }`);
      return wrong(`the header ${keyName(header)} is not a fact`, { help });
    }
    if (spec === undefined) {
      if (mayBeStageFact(path) && !own.knows_stages) return broken(mark);
      const message = path === '' ? 'the path of the fact is empty' : `unknown fact ${keyName(path)}`;
      return wrong(message, { help: unknownFactHelp(path, own.of_stages) });
    }
    if (spec.kind === 'object') {
      const help = `read one of its values by name, such as { var: ${path}.NAME }`;
      return wrong(
        `${keyName(path)} is a mapping, which no operator can compare`,
        isFact(`${path}.name`) ? { help } : {},
      );
    }
    return { ...common, kind: 'fact', path: path as FactPath, spec, path_mark: operand.mark };
  }

  function readRule(value: Node, mark: Mark, in_item: boolean): Expression {
    if (in_item) {
      const more = { expected: '{ var: "" }, the item', help: 'use the rule outside of some, all and none' };
      return reject('C5002', value.mark, 'named rules are not available inside some, all and none', more, mark);
    }
    const name = value.kind === 'scalar' ? String(value.value) : '';
    const found = findRule(name, value);
    return found === undefined ? broken(mark) : { kind: 'rule', mark, name, ...found };
  }

  return (node) => {
    const outer = before;
    before = findings.errors();
    const expression = readPart(node, false, 0);
    before = outer;
    return expression;
  };
}
