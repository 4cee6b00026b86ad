import { FACTS } from '../contract/facts.ts';
import { quote } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import { constancy, dependencies } from './constancy.ts';
import type { Call, Expression } from './expression.ts';
import { formatCondition } from './format-condition.ts';

/** With more operands, pairs of them are not compared. */
const MAX_PAIRED = 12;

const MAX_CHARS = 120;

/** The one fact that is an address wherever it is there. */
const ADDRESS = 'request.client.address';

/** A condition in a message; left out when it is long. */
function shown(expression: Expression): string {
  const text = formatCondition(expression.logic);
  return text.length > MAX_CHARS ? 'this' : `\`${text}\``;
}

/** A condition made of two of the operands of another. */
function pair(call: Call, operands: readonly Expression[], operator = call.operator): Call {
  return { ...call, operator, operands, logic: { [operator]: operands.map(({ logic }) => logic) } };
}

const negated = (operand: Expression): Call => ({
  ...operand,
  kind: 'call',
  operator: '!',
  operands: [operand],
  key: operand.mark,
  logic: { '!': [operand.logic] },
});

/** Reports the innermost parts of a condition that decide nothing. */
class Linter {
  private readonly findings: Findings;

  constructor(findings: Findings) {
    this.findings = findings;
  }

  /** Whether anything about the condition was reported. */
  lint(expression: Expression): boolean {
    if (expression.kind === 'call') {
      const { operator } = expression;
      if (operator === 'and' || operator === 'or') return this.connection(expression);
      if (operator === 'cidr' && this.noAddress(expression)) return true;
      if (
        this.parts(expression)
          .map((part) => this.lint(part))
          .some(Boolean)
      )
        return true;
    }
    return this.constant(expression);
  }

  /** The operands of an expression that are conditions of their own. */
  private parts({ operator, operands }: Call): readonly Expression[] {
    const nested = ({ kind }: Expression) => kind === 'call';
    if (operator === '!' || operator === '!!') return operands.filter(nested);
    if (operator === 'if')
      return operands.filter((operand, at) => nested(operand) || (at % 2 === 0 && at + 1 < operands.length));
    if (operator === 'some' || operator === 'all' || operator === 'none') return operands.slice(1);
    return [];
  }

  private noAddress({ operands: [subject] }: Call): boolean {
    if (subject?.kind !== 'fact' || !(subject.path in FACTS) || subject.path === ADDRESS) return false;
    this.findings.report('W7182', subject.path_mark, `${quote(subject.path)} is never an address`, {
      help: `\`cidr\` looks at addresses: write { var: ${ADDRESS} }`,
    });
    return true;
  }

  private constant(expression: Expression): boolean {
    if (expression.kind === 'item' || expression.kind === 'rule' || expression.kind === 'broken') return false;
    const always = constancy(expression);
    if (always !== undefined) this.report(expression, always);
    return always !== undefined;
  }

  private report(expression: Expression, always: boolean): void {
    const message = always ? 'this condition always holds' : 'this condition never holds';
    this.findings.report(always ? 'W7020' : 'W7021', expression.mark, message, {
      help: 'remove it, or what depends on it',
    });
  }

  private connection(call: Call): boolean {
    const found = call.operands.map((operand) => this.lint(operand));
    if (found.some(Boolean) || this.duplicates(call)) return true;
    // Conditions that depend on different things cannot contradict or imply each other.
    const needs = call.operands.map(dependencies);
    const related = (a: number, b: number) => [...needs[a]!].some((name) => needs[b]!.has(name));
    const any_related = needs.some((_, at) => needs.some((_, other) => other < at && related(other, at)));
    return any_related && (this.pairs(call, related) || this.constant(call));
  }

  private duplicates({ operator, operands }: Call): boolean {
    const seen = new Set<string>();
    let found = false;
    for (const operand of operands) {
      const text = JSON.stringify(operand.logic);
      if (seen.has(text)) {
        found = true;
        this.findings.report('W7022', operand.mark, `\`${operator}\` has the same condition twice`, {
          help: 'remove one, or correct it',
        });
      }
      seen.add(text);
    }
    return found;
  }

  private pairs(call: Call, related: (a: number, b: number) => boolean): boolean {
    const { operator, operands } = call;
    if (operands.length > MAX_PAIRED) return false;
    return operands.some((second, at) =>
      operands.slice(0, at).some((first, before) => related(before, at) && this.pair(call, operator, first, second)),
    );
  }

  private pair(call: Call, operator: string, first: Expression, second: Expression): boolean {
    const both = pair(call, [first, second]);
    if (operator === 'and') {
      if (constancy(both) !== false) return false;
      this.findings.report('W7021', second.mark, 'these two conditions never hold together', {
        found: `${shown(first)} and ${shown(second)}`,
        help: 'if either is meant, write `or`',
      });
      return true;
    }
    if (constancy(both) === true) {
      this.findings.report('W7020', second.mark, 'one of these two conditions always holds', {
        found: `${shown(first)} or ${shown(second)}`,
        help: 'if both are meant, write `and`',
      });
      return true;
    }
    return this.covered(call, first, second) || this.covered(call, second, first);
  }

  /** In `or`: a condition that holds only where another one does, too. */
  private covered(call: Call, wide: Expression, narrow: Expression): boolean {
    if (constancy(pair(call, [narrow, negated(wide)], 'and')) !== false) return false;
    this.findings.report('W7023', narrow.mark, 'this condition adds nothing to `or`', {
      found: `where ${shown(narrow)}, also ${shown(wide)}`,
      help: 'remove it',
    });
    return true;
  }
}

/**
 * Warns about a condition that type-checks, but always holds, never does, or has parts that decide nothing.
 * @returns whether there was something to warn about.
 */
export function lintCondition(expression: Expression, findings: Findings): boolean {
  return new Linter(findings).lint(expression);
}
