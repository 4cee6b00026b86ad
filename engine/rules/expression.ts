import type { FactPath } from '../contract/facts.ts';
import { type FactSpec, factSpec, HEADER_FACTS, mayBeStageFact, type StageFacts } from '../contract/own-facts.ts';
import { didYouMean, listed } from '../kit/text/suggest.ts';
import { looksSecret } from '../source/diagnostics/secrets.ts';
import type { Findings } from '../source/findings.ts';
import { describe, keyName, type MapNode, type Mark, type Node, type ScalarNode } from '../source/node.ts';
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

/** A part of a condition whose form is right: what it is, and where it stands. */
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
    /** Something about it was reported; nothing more should be. */
    | { readonly kind: 'broken' }
  );

/** An expression that is a fact. */
export type Fact = Extract<Expression, { kind: 'fact' }>;

/** An expression of one operator. */
export type Call = Extract<Expression, { kind: 'call' }>;

/** Looks a named rule up and reports when it cannot be used. */
export type FindRule = (name: string, node: Node) => Pick<Common, 'logic' | 'size' | 'depth'> | undefined;

const MAX_DEPTH = 100;
const MAX_SIZE = 10_000;

const PROTOTYPE_KEYS = new Set(['__proto__', 'constructor', 'prototype']);

const operandsOf = (value: Node): readonly Node[] => (value.kind === 'list' ? value.items : [value]);

function plural([min, max]: readonly [number, number]): string {
  if (max === Number.POSITIVE_INFINITY) return `${min} or more`;
  return min === max ? String(min) : `${min} or ${max}`;
}

/** `var` of other dialects takes what a fact is where it is not there. */
function defaultMeant([path]: readonly Node[]): string | undefined {
  if (path?.kind !== 'scalar' || typeof path.value !== 'string' || !isFact(path.value)) return undefined;
  return `write { var: ${path.value} }: facts have no defaults, and { "!!": { var: ${path.value} } } tests whether one is set`;
}

/** What was probably meant by an operator that does not exist. */
function unknownOperatorHelp(key: string): string | undefined {
  const [, word = '', rest = ''] = /^(\w+)(?:\s+|:)(.+)$/.exec(key) ?? [];
  if (operatorSpec(word) !== undefined || word === 'rule')
    return `put a colon and a space after it: { ${word}: ${rest} }`;
  const other_name = OTHER_NAMES.get(key.toLowerCase());
  if (other_name !== undefined) return other_name;
  return didYouMean(key, Object.keys(OPERATORS), isFact(key) ? `to read a fact write { var: ${key} }` : undefined);
}

/** The facts that only this configuration knows. */
export interface OwnFacts {
  readonly headers: readonly string[];
  readonly of_stages: StageFacts;
  /** Whether these are all: a stage that could not be loaded may have others. */
  readonly knows_stages: boolean;
}

/** Reads the nodes of conditions as expressions and reports what has not the form of one. */
export class ExpressionReader {
  private readonly findings: Findings;
  private readonly findRule: FindRule;
  private readonly own: OwnFacts;
  /** Errors there were before the condition that is read now. */
  private before = 0;

  constructor(findings: Findings, findRule: FindRule, own: OwnFacts) {
    this.findings = findings;
    this.findRule = findRule;
    this.own = own;
  }

  read(node: Node): Expression {
    const outer = this.before;
    this.before = this.findings.errors();
    const expression = this.part(node, false, 0);
    this.before = outer;
    return expression;
  }

  /** @param in_item whether `node` is evaluated once per item of a list, where only `{ var: "" }` can be seen. */
  private part(node: Node, in_item: boolean, level: number): Expression {
    const { mark } = node;
    if (level > MAX_DEPTH) return this.tooLarge(mark);
    if (node.kind === 'scalar')
      return { kind: 'literal', mark, logic: node.value, size: 0, depth: 0, value: node.value, node };
    if (node.kind === 'list') {
      const items = node.items.map((item) => this.part(item, in_item, level + 1));
      const logic = items.map((item) => item.logic);
      return this.measured({ kind: 'list', mark, logic, items }, items, 0);
    }
    const [entry, second] = node.entries;
    if (entry === undefined || second !== undefined) return this.severalKeys(node);
    const { key, value, key_mark } = entry;
    if (key === 'rule') return this.rule(value, mark, in_item);
    if (key === 'var') return this.variable(value, mark, in_item);
    const spec = operatorSpec(key);
    if (spec === undefined) return this.unknownOperator(key, key_mark);
    return this.call(key as Operator, spec, value, { mark, key: key_mark }, in_item, level);
  }

  private call(
    operator: Operator,
    spec: OperatorSpec,
    value: Node,
    { mark, key }: { mark: Mark; key: Mark },
    in_item: boolean,
    level: number,
  ): Expression {
    const operands = operandsOf(value).map((operand, at) =>
      this.part(operand, in_item || (spec.iterates === true && at > 0), level + 1),
    );
    if (!takesOperands(spec, operands.length)) {
      const empty = value.kind === 'scalar' && value.value === null;
      return this.wrongCount(operator, spec, empty ? 0 : operands.length, key);
    }
    const logic = { [operator]: operands.map((operand) => operand.logic) };
    return this.measured({ kind: 'call', mark, key, logic, operator, operands }, operands, 1);
  }

  private measured<E>(expression: E & { mark: Mark }, parts: readonly Expression[], own: 0 | 1): Expression {
    let [size, depth] = [own as number, 0];
    for (const part of parts) {
      size += part.size;
      depth = Math.max(depth, part.depth);
    }
    if (size > MAX_SIZE || depth >= MAX_DEPTH) return this.tooLarge(expression.mark);
    return { ...expression, size, depth: depth + 1 } as Expression & E;
  }

  private broken(mark: Mark): Expression {
    return { kind: 'broken', mark, logic: null, size: 0, depth: 0 };
  }

  private tooLarge(mark: Mark): Expression {
    // What is too large is so at every level above, too.
    if (this.findings.errors() === this.before)
      this.findings.report('C5025', mark, 'the condition is too large', {
        expected: `at most ${MAX_SIZE} operators, nested ${MAX_DEPTH} deep, named rules counted each time they are used`,
      });
    return this.broken(mark);
  }

  private wrongCount(operator: Operator, spec: OperatorSpec, count: number, key: Mark): Expression {
    const [min] = spec.operands;
    if (spec.odd === true && count >= min) {
      this.findings.report('C5011', key, '`if` needs a last value for when no condition holds', {
        found: `${count} operands`,
        expected: 'an odd number of them',
      });
    } else {
      const operands = spec.operands[1] === 1 ? 'operand' : 'operands';
      const message = `${keyName(operator)} takes ${plural(spec.operands)} ${operands}`;
      const of_one = count === 1 && spec.operands[0] > 1;
      this.findings.report('C5011', key, message, {
        found: String(count),
        help: of_one ? `write them as a list: { "${operator}": [..., ...] }` : `for example ${spec.example}`,
      });
    }
    return this.broken(key);
  }

  private severalKeys(node: MapNode): Expression {
    const second = node.entries[1];
    if (second === undefined) {
      this.findings.report('C5003', node.mark, 'an empty mapping is not an expression', {
        expected: 'a mapping with one key, the operator',
      });
    } else {
      const keys = node.entries.map((entry) => keyName(entry.key)).join(' and ');
      this.findings.report('C5003', second.key_mark, `an expression has one operator, this one has ${keys}`, {
        help: 'combine conditions: { and: [ {...}, {...} ] }',
      });
    }
    return this.broken(node.mark);
  }

  private unknownHeader(name: string, mark: Mark): void {
    const help = didYouMean(name, this.own.headers, `name it in gateway.yaml: facts: { headers: [${name}] }`);
    this.findings.report('C5002', mark, `the header ${keyName(name)} is no fact here`, { help });
  }

  private unknownOperator(key: string, mark: Mark): Expression {
    const instead = REFUSED_OPERATORS.get(key);
    if (instead !== undefined) {
      this.findings.report('C5005', mark, `the operator ${keyName(key)} is not allowed`, { help: instead });
    } else {
      const help = looksSecret(key) ? undefined : unknownOperatorHelp(key);
      this.findings.report('C5001', mark, `unknown operator ${keyName(key)}`, {
        expected: listed(Object.keys(OPERATORS), 30),
        ...(help === undefined ? {} : { help }),
      });
    }
    return this.broken(mark);
  }

  private variable(value: Node, mark: Mark, in_item: boolean): Expression {
    const operands = operandsOf(value);
    const [operand] = operands;
    if (operands.length !== 1 || operand?.kind !== 'scalar' || typeof operand.value !== 'string') {
      const computed = operand?.kind === 'map' || operand?.kind === 'list';
      this.findings.report('C5004', value.mark, computed ? 'the path of a fact is computed' : '`var` takes one path', {
        found: operands.length > 1 ? `${operands.length} operands` : describe(value),
        expected: 'one literal path, such as { var: request.model }',
        help: computed ? undefined : defaultMeant(operands),
      });
      return this.broken(mark);
    }
    const path = operand.value;
    const common = { mark, logic: { var: path }, size: 0, depth: 0 };
    const spec = factSpec(path, this.own.of_stages);
    if (path.split('.').some((key) => PROTOTYPE_KEYS.has(key))) {
      this.findings.report('C5002', operand.mark, `${keyName(path)} leads into the prototype of an object`);
    } else if (in_item) {
      if (path === '') return { ...common, kind: 'item' };
      this.findings.report('C5002', operand.mark, `${keyName(path)} cannot be seen from here`, {
        expected: '{ var: "" }, the item',
        help: 'compare with facts outside of some, all and none',
      });
    } else if (path.startsWith(HEADER_FACTS) && !this.own.headers.includes(path.slice(HEADER_FACTS.length))) {
      this.unknownHeader(path.slice(HEADER_FACTS.length), operand.mark);
    } else if (spec === undefined && mayBeStageFact(path) && !this.own.knows_stages) {
      return this.broken(mark);
    } else if (spec === undefined) {
      const help = unknownFactHelp(path, this.own.of_stages);
      const message = path === '' ? 'the path of the fact is empty' : `unknown fact ${keyName(path)}`;
      this.findings.report('C5002', operand.mark, message, help === undefined ? {} : { help });
    } else if (spec.kind === 'object') {
      const by_name = factSpec(`${path}.name`) !== undefined;
      this.findings.report(
        'C5002',
        operand.mark,
        `${keyName(path)} is a group of values that no operator can compare`,
        {
          ...(by_name && { help: `read one of them by its name: { var: ${path}.web_search }` }),
        },
      );
    } else {
      return { ...common, kind: 'fact', path: path as FactPath, spec, path_mark: operand.mark };
    }
    return this.broken(mark);
  }

  private rule(value: Node, mark: Mark, in_item: boolean): Expression {
    if (in_item) {
      this.findings.report('C5002', value.mark, 'the facts of a named rule cannot be seen from here', {
        expected: '{ var: "" }, the item',
        help: 'use the rule outside of some, all and none',
      });
      return this.broken(mark);
    }
    const name = value.kind === 'scalar' ? String(value.value) : '';
    const found = this.findRule(name, value);
    return found === undefined ? this.broken(mark) : { kind: 'rule', mark, name, ...found };
  }
}
