/** Comparisons with names that do not exist: of groups, models, upstreams and whatever else a configuration lists. */
import type { DiagnosticCode } from '../source/diagnostics/codes.ts';
import type { Findings } from '../source/findings.ts';
import type { Call, Expression } from './expression.ts';

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
  /** What is wrong with a pattern. */
  problemOfGlob(glob: string): NameProblem | undefined;
}

/** The names that facts can have, or the items of those that are lists, by the path of the fact. */
export type FactNames = ReadonlyMap<string, NameSet>;

/** Reports names in conditions that no request can have. */
export class NameChecker {
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
