import { didYouMean, listed } from '../diagnostics/suggest.ts';
import { FACTS, type FactPath } from '../facts.ts';
import { describe, keyName } from '../load/describe.ts';
import type { Findings } from '../load/findings.ts';
import { entriesOf, type MapNode, type Mark, type Node, toValue } from '../load/node.ts';
import { OPERATORS, operatorSpec, REFUSED_OPERATORS } from './operators.ts';

/** A fact that a condition reads, and where. */
export interface FactRead {
  readonly path: FactPath;
  readonly mark: Mark;
}

/** A condition that passed the load checks. */
export interface Condition {
  /** JSON-Logic with named rules expanded. */
  readonly logic: unknown;
  readonly reads: readonly FactRead[];
}

/** Checks the conditions of one file against the operators, the facts and the named rules of that file. */
export interface ConditionChecker {
  /** The condition with named rules expanded; `undefined` after reporting why it cannot be used. */
  check(node: Node): Condition | undefined;
  /** The named rules that passed. */
  named(): readonly { readonly name: string; readonly logic: unknown; readonly mark: Mark }[];
  /** Reports named rules that nothing refers to. */
  reportUnused(): void;
}

interface NamedRule {
  readonly node: Node;
  readonly mark: Mark;
  state: 'new' | 'open' | 'done';
  used: boolean;
  condition: Condition | undefined;
}

const PROTOTYPE_KEYS = new Set(['__proto__', 'constructor', 'prototype']);
const FACT_PATHS = Object.keys(FACTS);

const isFact = (path: string): path is FactPath => Object.hasOwn(FACTS, path);
const isMoney = (path: string): boolean => path.endsWith('_usd');

function operandsOf(value: Node): readonly Node[] {
  return value.kind === 'list' ? value.items : [value];
}

/** The operator of an expression node, with what it is applied to. */
function onlyEntry(node: MapNode): { key: string; value: Node; key_mark: Mark } | undefined {
  return node.entries.length === 1 ? node.entries[0] : undefined;
}

function plural([min, max]: readonly [number, number]): string {
  if (max === Number.POSITIVE_INFINITY) return `${min} or more`;
  return min === max ? String(min) : `${min} or ${max}`;
}

class Checker implements ConditionChecker {
  private readonly rules: Map<string, NamedRule>;
  private readonly findings: Findings;
  /** Reads of the condition being checked. */
  private reads: FactRead[] = [];

  constructor(rules: Node | undefined, findings: Findings) {
    this.findings = findings;
    this.rules = new Map(
      entriesOf(rules).map(({ key, key_mark, value }) => [
        key,
        { node: value, mark: key_mark, state: 'new', used: false, condition: undefined },
      ]),
    );
  }

  check(node: Node): Condition | undefined {
    const outer = this.reads;
    this.reads = [];
    const before = this.findings.errors();
    this.isCondition(node);
    const logic = this.expand(node, false);
    const condition = { logic, reads: this.reads };
    this.reads = outer;
    return this.findings.errors() === before ? condition : undefined;
  }

  named(): readonly { readonly name: string; readonly logic: unknown; readonly mark: Mark }[] {
    return [...this.rules].flatMap(([name, rule]) => {
      this.resolve(rule);
      return rule.condition === undefined ? [] : [{ name, logic: rule.condition.logic, mark: rule.mark }];
    });
  }

  reportUnused(): void {
    for (const [name, rule] of this.rules) {
      if (rule.state === 'new') this.resolve(rule);
      if (rule.used) continue;
      this.findings.report('W7008', rule.mark, `nothing refers to the rule ${keyName(name)}`, {
        help: `remove it, or refer to it: when: { rule: ${name} }`,
      });
    }
  }

  private isCondition(node: Node): void {
    if (node.kind === 'map') return;
    if (node.kind === 'scalar' && typeof node.value === 'boolean') return;
    const fact = node.kind === 'scalar' && isFact(String(node.value));
    this.findings.report('C5012', node.mark, 'a constant is not a condition', {
      found: describe(node),
      expected: 'an expression, such as { var: request.stream }',
      ...(fact ? { help: `write { var: ${String((node as { value: unknown }).value)} }` } : {}),
    });
  }

  /** @param in_item whether `node` is evaluated once per item of a list, where only `{ var: "" }` can be seen. */
  private expand(node: Node, in_item: boolean): unknown {
    if (node.kind === 'scalar') return node.value;
    if (node.kind === 'list') return node.items.map((item) => this.expand(item, in_item));
    const entry = onlyEntry(node);
    if (entry === undefined) return this.severalKeys(node);
    const { key, value, key_mark } = entry;
    if (key === 'rule') return this.reference(value);
    if (key === 'var') return { var: this.path(value, in_item) };
    const spec = operatorSpec(key);
    if (spec === undefined) return this.unknownOperator(key, key_mark);
    const operands = operandsOf(value);
    const [min, max] = spec.operands;
    if (operands.length < min || operands.length > max) {
      this.findings.report('C5011', key_mark, `${keyName(key)} takes ${plural(spec.operands)} operands`, {
        found: String(operands.length),
      });
    }
    if (spec.arithmetic === true) this.refuseMoney(value);
    if (key === 'in') this.refuseSubstring(operands[1]);
    if (key === 'if' && operands.length % 2 === 0) {
      this.findings.report('C5011', key_mark, '`if` needs a last value for when no condition holds', {
        found: `${operands.length} operands`,
        expected: 'an odd number of them',
      });
    }
    return {
      [key]: operands.map((operand, at) => this.expand(operand, in_item || (spec.iterates === true && at > 0))),
    };
  }

  private severalKeys(node: MapNode): undefined {
    const second = node.entries[1];
    if (second === undefined) {
      this.findings.report('C5003', node.mark, 'an empty mapping is not an expression', {
        expected: 'a mapping with one key, the operator',
      });
      return;
    }
    const keys = node.entries.map((entry) => keyName(entry.key)).join(' and ');
    this.findings.report('C5003', second.key_mark, `an expression has one operator, this one has ${keys}`, {
      help: 'combine conditions: { and: [ {...}, {...} ] }',
    });
  }

  private unknownOperator(key: string, mark: Mark): undefined {
    const instead = REFUSED_OPERATORS.get(key);
    if (instead !== undefined) {
      this.findings.report('C5005', mark, `the operator ${keyName(key)} is not allowed`, { help: instead });
      return;
    }
    const known = Object.keys(OPERATORS);
    const help = didYouMean(key, known, isFact(key) ? `to read a fact write { var: ${key} }` : undefined);
    this.findings.report('C5001', mark, `unknown operator ${keyName(key)}`, {
      expected: listed(known, 30),
      ...(help === undefined ? {} : { help }),
    });
  }

  private path(value: Node, in_item: boolean): unknown {
    const operands = operandsOf(value);
    const [operand] = operands;
    if (
      operand === undefined ||
      operands.length > 1 ||
      operand.kind !== 'scalar' ||
      typeof operand.value !== 'string'
    ) {
      const computed = operand?.kind === 'map' || operand?.kind === 'list';
      this.findings.report('C5004', value.mark, computed ? 'the path of a fact is computed' : '`var` takes one path', {
        found: operands.length > 1 ? `${operands.length} operands` : describe(value),
        expected: 'one literal path, such as { var: request.model }',
      });
      return toValue(value);
    }
    const path = operand.value;
    if (path.split('.').some((key) => PROTOTYPE_KEYS.has(key))) {
      this.findings.report('C5007', operand.mark, `${keyName(path)} leads into the prototype of an object`);
    } else if (in_item) {
      this.itemPath(path, operand.mark);
    } else if (isFact(path)) {
      this.reads.push({ path, mark: operand.mark });
    } else {
      const help = factsUnder(path) ?? didYouMean(path, FACT_PATHS);
      this.findings.report('C5002', operand.mark, `unknown fact ${keyName(path)}`, help === undefined ? {} : { help });
    }
    return path;
  }

  private itemPath(path: string, mark: Mark): void {
    if (path === '') return;
    this.findings.report('C5002', mark, `${keyName(path)} cannot be seen from here`, {
      expected: '{ var: "" }, the item',
      help: 'compare with facts outside of some, all and none',
    });
  }

  private reference(value: Node): unknown {
    const name = value.kind === 'scalar' ? String(value.value) : '';
    const rule = this.rules.get(name);
    if (rule === undefined) {
      const known = [...this.rules.keys()];
      const none = known.length === 0 ? 'this file has no named rules' : `named rules: ${listed(known)}`;
      this.findings.report('C5009', value.mark, `there is no rule ${keyName(name)}`, {
        help: didYouMean(name, known, none) ?? none,
      });
      return undefined;
    }
    rule.used = true;
    if (rule.state === 'open') {
      this.findings.report('C5010', value.mark, `the rule ${keyName(name)} refers to itself`);
      return undefined;
    }
    this.resolve(rule);
    this.reads.push(...(rule.condition?.reads ?? []));
    return rule.condition?.logic;
  }

  private resolve(rule: NamedRule): void {
    if (rule.state !== 'new') return;
    rule.state = 'open';
    rule.condition = this.check(rule.node);
    rule.state = 'done';
  }

  private refuseMoney(node: Node): void {
    if (node.kind === 'list') for (const item of node.items) this.refuseMoney(item);
    if (node.kind !== 'map') return;
    for (const { key, value } of node.entries) {
      const [operand] = operandsOf(value);
      if (key === 'var' && operand?.kind === 'scalar' && isMoney(String(operand.value))) {
        this.findings.report(
          'C5008',
          operand.mark,
          `${keyName(String(operand.value))} is money: rules compare it only`,
          {
            help: 'limits on money belong into spend_limits',
          },
        );
      } else {
        this.refuseMoney(value);
      }
    }
  }

  private refuseSubstring(list: Node | undefined): void {
    if (list === undefined || list.kind === 'list') return;
    const entry = list.kind === 'map' ? onlyEntry(list) : undefined;
    const fact = entry?.key === 'var' ? String(toValue(operandsOf(entry.value)[0] ?? entry.value)) : '';
    const is_text = list.kind === 'scalar' || (isFact(fact) && FACTS[fact].kind === 'string');
    if (!is_text) return;
    this.findings.report('C5006', list.mark, '`in` would look inside a text', {
      found: fact === '' ? describe(list) : `the fact ${fact}, a text`,
      expected: 'a list',
      help: 'to compare texts use `===`, to match a pattern `glob`: { glob: [{ var: request.model }, "coder-*"] }',
    });
  }
}

/** Names the facts below a path that was taken for a fact itself: `principal.token`. */
function factsUnder(path: string): string | undefined {
  const below = FACT_PATHS.filter((known) => known.startsWith(`${path}.`));
  return below.length === 0 ? undefined : `there is ${listed(below)}`;
}

/** @param rules the `rules:` mapping of the file, where there is one. */
export function createConditionChecker(rules: Node | undefined, findings: Findings): ConditionChecker {
  return new Checker(rules, findings);
}
