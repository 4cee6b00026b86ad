import { basename } from 'node:path';
import type { FactPath } from '../contract/facts.ts';
import { heldBy, NO_STAGE_FACTS } from '../contract/own-facts.ts';
import { oneOf } from '../kit/text/suggest.ts';
import type { DiagnosticCode } from '../source/diagnostics/codes.ts';
import type { Findings } from '../source/findings.ts';
import { describe, entriesOf, keyName, type Mark, type Node } from '../source/node.ts';
import { TypeChecker } from './check-types.ts';
import { type Call, type Expression, ExpressionReader, type OwnFacts } from './expression.ts';
import { isFact } from './fact-paths.ts';
import { lintCondition } from './lint.ts';

// Comparisons with names that do not exist: of groups, models, upstreams and whatever else a configuration lists.

/** Why a name is none. */
export interface NameProblem {
  readonly code: DiagnosticCode;
  readonly message: string;
  readonly help?: string | undefined;
}

/** The names that something can have. */
export interface NameSet {
  /** What is wrong with a name; `undefined` where it exists, or may exist unknown to the configuration. */
  problemOf(name: string): NameProblem | undefined;
  problemOfGlob(glob: string): NameProblem | undefined;
}

/** The names that facts can have, or the items of those that are lists, by the path of the fact. */
export type FactNames = ReadonlyMap<string, NameSet>;

/** Reports names in conditions that no request can have. */
class NameChecker {
  private readonly findings: Findings;
  private readonly names: FactNames;

  constructor(findings: Findings, names: FactNames) {
    this.findings = findings;
    this.names = names;
  }

  /**
   * @param item names of the item that `{ var: "" }` stands for.
   * @returns whether anything was reported.
   */
  check(expression: Expression, item?: NameSet): boolean {
    if (this.names.size === 0) return false;
    if (expression.kind === 'list') return this.all(expression.items, item);
    if (expression.kind !== 'call') return false;
    const { operator, operands } = expression;
    const [first, second] = operands as readonly [Expression, Expression];
    if (operator === 'some' || operator === 'all' || operator === 'none') {
      return this.check(second, this.namesOf(first, item));
    }
    return this.compared(expression, item) || this.all(operands, item);
  }

  private all(parts: readonly Expression[], item: NameSet | undefined): boolean {
    return parts.map((part) => this.check(part, item)).includes(true);
  }

  private namesOf(expression: Expression, item: NameSet | undefined): NameSet | undefined {
    if (expression.kind === 'item') return item;
    return expression.kind === 'fact' ? this.names.get(expression.path) : undefined;
  }

  private compared({ operator, operands }: Call, item: NameSet | undefined): boolean {
    const [first, second] = operands as readonly [Expression, Expression];
    if (operator === 'glob') {
      const set = this.namesOf(first, item);
      return this.report(operands.slice(1), (text) => set?.problemOfGlob(text));
    }
    if (operator !== '===' && operator !== '!==' && operator !== 'in') return false;
    const set = this.namesOf(first, item) ?? this.namesOf(second, item);
    const values = operands.flatMap((operand) => (operand.kind === 'list' ? operand.items : [operand]));
    return this.report(values, (text) => set?.problemOf(text));
  }

  private report(values: readonly Expression[], problemOf: (text: string) => NameProblem | undefined): boolean {
    let found = false;
    for (const value of values) {
      const text = value.kind === 'literal' && typeof value.value === 'string' ? value.value : '';
      // What stands for a value of a fragment was reported, or is not known here.
      const problem = text === '' || text.includes('${{') ? undefined : problemOf(text);
      if (problem === undefined) continue;
      const { code, message, help } = problem;
      this.findings.report(code, value.mark, message, { help });
      found = true;
    }
    return found;
  }
}

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
  /** Whether a warning says of it that it always holds, or never does. */
  readonly linted: boolean;
}

/** Checks the conditions of one file against the operators, the facts and the named rules of that file. */
export interface ConditionChecker {
  /** The condition with named rules expanded; `undefined` after reporting why it cannot be used. */
  check(node: Node): Condition | undefined;
  named(): readonly { readonly name: string; readonly logic: unknown; readonly mark: Mark }[];
  reportUnused(): void;
}

/** What conditions may speak of because gateway.yaml does. */
export interface KnownToConditions extends OwnFacts {
  readonly names: FactNames;
}

const NOTHING_KNOWN: KnownToConditions = {
  headers: [],
  of_stages: NO_STAGE_FACTS,
  knows_stages: true,
  names: new Map(),
};

interface CheckedCondition extends Condition, Pick<Expression, 'size' | 'depth'> {}

interface NamedRule {
  readonly node: Node;
  readonly mark: Mark;
  state: 'new' | 'open' | 'done';
  used: boolean;
  condition: CheckedCondition | undefined;
}

class Checker implements ConditionChecker {
  private readonly rules: Map<string, NamedRule>;
  private readonly findings: Findings;
  private readonly reader: ExpressionReader;
  private readonly types: TypeChecker;
  private readonly name_checker: NameChecker;
  private readonly shared: Checker | undefined;
  readonly known: KnownToConditions;
  /** Names of the rules that are being resolved, outermost first. */
  private readonly open: string[] = [];

  constructor(rules: Node | undefined, findings: Findings, shared: Checker | undefined, known: KnownToConditions) {
    this.findings = findings;
    this.shared = shared;
    this.known = known;
    this.reader = new ExpressionReader(findings, (name, node) => this.reference(name, node), known);
    this.types = new TypeChecker(findings);
    this.name_checker = new NameChecker(findings, known.names);
    this.rules = new Map(
      entriesOf(rules).map(({ key, key_mark, value }) => [
        key,
        { node: value, mark: key_mark, state: 'new', used: false, condition: undefined },
      ]),
    );
  }

  check(node: Node): CheckedCondition | undefined {
    const before = this.findings.errors();
    this.isCondition(node);
    const expression = this.reader.read(node);
    if (this.findings.errors() === before) this.types.condition(expression);
    if (this.findings.errors() > before) return undefined;
    // What a name that does not exist makes of a condition is no second mistake.
    const linted = this.name_checker.check(expression) || lintCondition(expression, this.findings);
    const reads = new Map<Mark, FactRead>();
    this.collectReads(expression, reads);
    const { logic, size, depth } = expression;
    return { logic, reads: [...reads.values()], linted, size, depth };
  }

  named(): readonly { readonly name: string; readonly logic: unknown; readonly mark: Mark }[] {
    return [...this.rules].flatMap(([name, rule]) => {
      this.resolve(name, rule);
      return rule.condition === undefined ? [] : [{ name, logic: rule.condition.logic, mark: rule.mark }];
    });
  }

  reportUnused(): void {
    for (const [name, rule] of this.rules) {
      if (rule.state === 'new') this.resolve(name, rule);
      if (rule.used) continue;
      this.findings.report('W7008', rule.mark, `nothing refers to the rule ${keyName(name)}`, {
        help: `remove it, or refer to it: when: { rule: ${name} }`,
      });
    }
  }

  private isCondition(node: Node): void {
    if (node.kind === 'map') return;
    if (node.kind === 'scalar' && typeof node.value === 'boolean') return;
    const help = this.constantHelp(node);
    this.findings.report('C5012', node.mark, 'a constant is not a condition', {
      found: describe(node),
      expected: 'an expression, such as { var: request.stream }',
      ...(help === undefined ? {} : { help }),
    });
  }

  private constantHelp(node: Node): string | undefined {
    if (node.kind === 'list') return 'say how the conditions combine: { and: [...] } or { or: [...] }';
    const text = node.kind === 'scalar' ? String(node.value) : '';
    if (isFact(text)) return `write { var: ${text} }`;
    if (this.find(text) !== undefined) return `write { rule: ${text} }`;
    return text.startsWith('{') ? 'remove the quotes: a condition is YAML, not text' : comparisonMeant(text);
  }

  /** Every fact an expression reads, once per place: a rule used twice reads its facts where it stands. */
  private collectReads(expression: Expression, reads: Map<Mark, FactRead>): void {
    if (expression.kind === 'fact')
      reads.set(expression.path_mark, { path: heldBy(expression.path), mark: expression.path_mark });
    if (expression.kind === 'list') for (const part of expression.items) this.collectReads(part, reads);
    if (expression.kind === 'call') for (const part of expression.operands) this.collectReads(part, reads);
    if (expression.kind !== 'rule') return;
    for (const read of this.find(expression.name)?.condition?.reads ?? []) reads.set(read.mark, read);
  }

  private find(name: string): NamedRule | undefined {
    return this.rules.get(name) ?? this.shared?.find(name);
  }

  private reference(name: string, node: Node): CheckedCondition | undefined {
    const rule = this.rules.get(name);
    if (rule === undefined && this.shared?.rules.has(name)) return this.shared.reference(name, node);
    if (rule === undefined) {
      const known = [...this.rules.keys(), ...(this.shared?.rules.keys() ?? [])];
      const help = oneOf(name, known, 'named rules', noRules(node.mark, this.shared !== undefined));
      this.findings.report('C5009', node.mark, `there is no rule ${keyName(name)}`, { help });
      return undefined;
    }
    rule.used = true;
    if (rule.state === 'open') {
      const circle = [...this.open.slice(this.open.indexOf(name)), name].map(keyName);
      this.findings.report('C5010', node.mark, `the rule ${keyName(name)} refers to itself`, {
        found: circle.length > 2 ? circle.join(' -> ') : undefined,
        help: 'write the condition out at one of them',
      });
      return undefined;
    }
    this.resolve(name, rule);
    return rule.condition;
  }

  private resolve(name: string, rule: NamedRule): void {
    if (rule.state !== 'new') return;
    rule.state = 'open';
    this.open.push(name);
    rule.condition = this.check(rule.node);
    this.open.pop();
    rule.state = 'done';
  }
}

/** A comparison as most languages write it, as an expression. */
function comparisonMeant(text: string): string | undefined {
  const [, fact = '', operator = '', value = ''] = /^([\w.-]+)\s*([=!]==?|[<>]=?)\s*(\S+)$/.exec(text) ?? [];
  if (!isFact(fact)) return undefined;
  const strict = /^[=!]=$/.test(operator) ? `${operator}=` : operator;
  return `write { "${strict}": [{ var: ${fact} }, ${value}] }`;
}

/** Where rules could have been written, for a condition that finds none. */
function noRules({ file, chain }: Mark, in_pipeline: boolean): string {
  if (!in_pipeline) return 'this file has no named rules';
  const user = chain?.[0]?.file;
  if (user === undefined || user === file) return 'neither this file nor gateway.yaml has named rules';
  return `a fragment uses its own rules, those of its pipeline and of gateway.yaml; ${basename(user)} has none`;
}

/**
 * @param rules the `rules:` mapping of the file, where there is one.
 * @param shared that of gateway.yaml, whose rules, headers and names can be used, too.
 * @param knows_stages whether all stages are known, where there is no gateway.yaml.
 */
export function createConditionChecker(
  rules: Node | undefined,
  findings: Findings,
  shared?: ConditionChecker,
  knows_stages = true,
): ConditionChecker {
  const of_gateway = shared instanceof Checker ? shared : undefined;
  return new Checker(rules, findings, of_gateway, of_gateway?.known ?? { ...NOTHING_KNOWN, knows_stages });
}

/** The checker of gateway.yaml. */
export function createGatewayChecker(
  rules: Node | undefined,
  findings: Findings,
  known: KnownToConditions,
): ConditionChecker {
  return new Checker(rules, findings, undefined, known);
}
