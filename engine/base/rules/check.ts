import type { FactPath } from '../contract/facts.ts';
import { containingFact, NO_STAGE_FACTS } from '../contract/own-facts.ts';
import { oneOf } from '../kit/text/suggest.ts';
import type { DiagnosticCode } from '../source/diagnostics/codes.ts';
import type { Findings } from '../source/findings.ts';
import { describe, entriesOf, keyName, type Mark, type Node } from '../source/node.ts';
import { createTypeChecker } from './check-types.ts';
import { type Call, createExpressionReader, type Expression, type OwnFacts } from './expression.ts';
import { isFact } from './fact-paths.ts';
import { lintCondition } from './lint.ts';

/** A finding about an unknown name. */
export interface NameProblem {
  readonly code: DiagnosticCode;
  readonly message: string;
  readonly help?: string | undefined;
}

/** The known names of one kind. */
export interface NameSet {
  /** The problem with a name; `undefined` when it exists, or may exist outside of the configuration. */
  problemOf(name: string): NameProblem | undefined;
  problemOfGlob(glob: string): NameProblem | undefined;
}

/** The possible values of facts, or of their items, by the path of the fact. */
export type FactNames = ReadonlyMap<string, NameSet>;

/** Reports unknown names in conditions. The function returns whether it reported any. */
function createNameChecker(findings: Findings, names: FactNames): (condition: Expression) => boolean {
  const namesOf = (expression: Expression, item: NameSet | undefined): NameSet | undefined => {
    if (expression.kind === 'item') return item;
    return expression.kind === 'fact' ? names.get(expression.path) : undefined;
  };

  function report(values: readonly Expression[], problemOf: (text: string) => NameProblem | undefined): boolean {
    const wrong = values.flatMap((value) => {
      const text = value.kind === 'literal' && typeof value.value === 'string' ? value.value : '';
      // Placeholders of fragments are reported elsewhere.
      const problem = text === '' || text.includes('${{') ? undefined : problemOf(text);
      return problem === undefined ? [] : [{ ...problem, mark: value.mark }];
    });
    for (const { code, mark, message, help } of wrong) findings.report(code, mark, message, { help });
    return wrong.length > 0;
  }

  function compared({ operator, operands }: Call, item: NameSet | undefined): boolean {
    const [first, second] = operands as readonly [Expression, Expression];
    const set = namesOf(first, item);
    if (operator === 'glob') return report(operands.slice(1), (text) => set?.problemOfGlob(text));
    if (operator !== '===' && operator !== '!==' && operator !== 'in') return false;
    const either = set ?? namesOf(second, item);
    const values = operands.flatMap((operand) => (operand.kind === 'list' ? operand.items : [operand]));
    return report(values, (text) => either?.problemOf(text));
  }

  /** @param item the names of `{ var: "" }` */
  function check(expression: Expression, item?: NameSet): boolean {
    const all = (parts: readonly Expression[]) => parts.map((part) => check(part, item)).includes(true);
    if (expression.kind === 'list') return all(expression.items);
    if (expression.kind !== 'call') return false;
    const { operator, operands } = expression;
    if (operator === 'some' || operator === 'all' || operator === 'none') {
      return check(operands[1]!, namesOf(operands[0]!, item));
    }
    return compared(expression, item) || all(operands);
  }

  return (condition) => names.size > 0 && check(condition);
}

/** A fact that a condition reads, and where. */
export interface FactRead {
  readonly path: FactPath;
  readonly mark: Mark;
}

/** A condition that passed the load checks. */
export interface Condition {
  readonly logic: unknown;
  readonly reads: readonly FactRead[];
  /** Whether a warning was reported that it is always or never true. */
  readonly linted: boolean;
}

/** Checks the conditions of one file against the operators, the facts and the named rules of that file. */
export interface ConditionChecker {
  readonly known: KnownToConditions;
  readonly rules: ReadonlyMap<string, NamedRule>;
  /** The condition with named rules expanded; `undefined` after an error. */
  check(node: Node): CheckedCondition | undefined;
  reference(name: string, node: Node): CheckedCondition | undefined;
  named(): readonly { readonly name: string; readonly logic: unknown; readonly mark: Mark }[];
  reportUnused(): void;
}

/** Names and facts that gateway.yaml defines for conditions. */
export interface KnownToConditions extends OwnFacts {
  readonly names: FactNames;
}

const NOTHING_KNOWN = { headers: [], of_stages: NO_STAGE_FACTS, knows_stages: true, names: new Map() };

interface CheckedCondition extends Condition, Pick<Expression, 'size' | 'depth'> {}

interface NamedRule {
  readonly node: Node;
  readonly mark: Mark;
  state: 'new' | 'open' | 'done';
  used: boolean;
  condition: CheckedCondition | undefined;
}

/** @param shared the checker of gateway.yaml, whose rules and names are also available @param own what only this file defines */
export function createConditionChecker(
  written: Node | undefined,
  findings: Findings,
  shared?: ConditionChecker,
  own: Partial<KnownToConditions> = {},
): ConditionChecker {
  const known = shared?.known ?? { ...NOTHING_KNOWN, ...own };
  const rules = new Map(
    entriesOf(written).map(({ key, key_mark, value }): [string, NamedRule] => [
      key,
      { node: value, mark: key_mark, state: 'new', used: false, condition: undefined },
    ]),
  );
  const read = createExpressionReader(findings, reference, known);
  const checkTypes = createTypeChecker(findings);
  const checkNames = createNameChecker(findings, known.names);
  const find = (name: string) => rules.get(name) ?? shared?.rules.get(name);
  /** Names of the rules that are being resolved, outermost first. */
  const open: string[] = [];

  function check(node: Node): CheckedCondition | undefined {
    const before = findings.errors();
    if (node.kind !== 'map' && !(node.kind === 'scalar' && typeof node.value === 'boolean')) {
      const more = { found: describe(node), expected: 'an expression, such as { var: request.stream }' };
      findings.report('C5012', node.mark, 'a constant is not a condition', { ...more, help: constantHelp(node) });
    }
    const expression = read(node);
    if (findings.errors() === before) checkTypes(expression);
    if (findings.errors() > before) return undefined;
    // An unknown name often makes a condition constant: report the name only.
    const linted = checkNames(expression) || lintCondition(expression, findings);
    const reads = new Map<Mark, FactRead>();
    collectReads(expression, reads);
    const { logic, size, depth } = expression;
    return { logic, reads: [...reads.values()], linted, size, depth };
  }

  function constantHelp(node: Node): string | undefined {
    if (node.kind === 'list') return 'combine the conditions: { and: [...] } or { or: [...] }';
    const text = node.kind === 'scalar' ? String(node.value) : '';
    if (isFact(text)) return `write { var: ${text} }`;
    if (find(text) !== undefined) return `write { rule: ${text} }`;
    return text.startsWith('{') ? 'remove the quotes: a condition is YAML, not a string' : undefined;
  }

  /** Collects the facts that an expression reads, once per position. Facts of a named rule count where the rule is written. */
  function collectReads(expression: Expression, reads: Map<Mark, FactRead>): void {
    if (expression.kind === 'fact')
      reads.set(expression.path_mark, { path: containingFact(expression.path), mark: expression.path_mark });
    if (expression.kind === 'list') for (const part of expression.items) collectReads(part, reads);
    if (expression.kind === 'call') for (const part of expression.operands) collectReads(part, reads);
    if (expression.kind !== 'rule') return;
    for (const fact of find(expression.name)?.condition?.reads ?? []) reads.set(fact.mark, fact);
  }

  function reference(name: string, node: Node): CheckedCondition | undefined {
    const rule = rules.get(name);
    if (rule === undefined && shared?.rules.has(name)) return shared.reference(name, node);
    if (rule === undefined) {
      const names = [...rules.keys(), ...(shared?.rules.keys() ?? [])];
      const help = oneOf(name, names, 'named rules', NO_RULES);
      findings.report('C5009', node.mark, `there is no rule ${keyName(name)}`, { help });
      return undefined;
    }
    rule.used = true;
    if (rule.state === 'open') {
      reportCircle(name, open, node.mark, findings);
      return undefined;
    }
    resolve(name, rule);
    return rule.condition;
  }

  function resolve(name: string, rule: NamedRule): void {
    if (rule.state !== 'new') return;
    rule.state = 'open';
    open.push(name);
    rule.condition = check(rule.node);
    open.pop();
    rule.state = 'done';
  }

  return {
    ...{ known, rules, check, reference },
    named: () =>
      [...rules].flatMap(([name, rule]) => {
        resolve(name, rule);
        return rule.condition === undefined ? [] : [{ name, logic: rule.condition.logic, mark: rule.mark }];
      }),
    reportUnused() {
      for (const [name, rule] of rules) {
        resolve(name, rule);
        if (!rule.used) reportUnusedRule(name, rule.mark, findings);
      }
    },
  };
}

/** Reports a rule that refers to itself. @param open names of the rules that led there, outermost first */
export function reportCircle(name: string, open: readonly string[], mark: Mark, findings: Findings): void {
  const circle = [...open.slice(open.indexOf(name)), name].map(keyName);
  findings.report('C5010', mark, `the rule ${keyName(name)} refers to itself`, {
    found: circle.length > 2 ? circle.join(' -> ') : undefined,
    help: 'write out the condition in one of them',
  });
}

/** Reports a named rule that no condition refers to. */
export function reportUnusedRule(name: string, mark: Mark, findings: Findings): void {
  findings.report('W7008', mark, `nothing refers to the rule ${keyName(name)}`, {
    help: `remove it, or refer to it: when: { rule: ${name} }`,
  });
}

const NO_RULES = 'there are no named rules here; a fragment uses its own, those of its pipeline and of gateway.yaml';
