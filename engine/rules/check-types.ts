import { keyName } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import { checkEquality, checkMembership, checkNumber, checkOrdering, reportWrongOperand } from './check-comparisons.ts';
import { checkBuckets, checkLiteral } from './check-literals.ts';
import type { Call, Expression } from './expression.ts';
import { isFact } from './fact-paths.ts';
import { conditionHelp, eachItemHelp, literalHelp, withHelp } from './type-help.ts';
import { ANY, branchesOf, formatKind, formatTyped, type Type, type Typed, typeOf } from './types.ts';

/** Checks the types of one condition after another; reports each mistake once, at the operand that has it. */
export class TypeChecker {
  private readonly findings: Findings;
  /** Type of `{ var: "" }` where the check is now. */
  private item: Type = ANY;

  constructor(findings: Findings) {
    this.findings = findings;
  }

  /** Checks a whole condition: it must be true or false. */
  condition(expression: Expression): void {
    this.isBoolean(this.check(expression), 'the condition');
  }

  /** Checks an expression from the inside out; its type is `any` after a mistake in it. */
  private check(expression: Expression): Typed {
    const before = this.findings.errors();
    if (expression.kind === 'list') for (const part of expression.items) this.check(part);
    if (expression.kind === 'call') this.call(expression);
    return { expression, type: this.findings.errors() > before ? ANY : typeOf(expression, this.item) };
  }

  private call(call: Call): void {
    const [first, ...more] = call.operands;
    switch (call.operator) {
      case 'some':
      case 'all':
      case 'none':
        this.quantifier(call, first!, more[0]!);
        break;
      case 'glob':
      case 'cidr':
      case 'time_window':
        // Literals in the place of the value were taken for it: they are no second mistake.
        if (!this.subject(call.operator, this.check(first!)) && first!.kind === 'literal') break;
        for (const literal of more) checkLiteral(call.operator, literal, this.findings);
        break;
      case 'bucket':
        this.subject('glob', this.check(first!), 'principal.id', '`bucket` takes a text first');
        checkBuckets(more[0]!, more[1]!, this.findings);
        break;
      case 'usd':
        checkLiteral('usd', first!, this.findings);
        break;
      default:
        this.values(
          call,
          call.operands.map((operand) => this.check(operand)),
        );
    }
  }

  /** Checks an operator that takes the values of all its operands. */
  private values({ operator }: Call, operands: readonly Typed[]): void {
    const { findings } = this;
    const [first, second] = operands as readonly [Typed, Typed];
    switch (operator) {
      case '===':
      case '!==':
        checkEquality(findings, operator, [first, second]);
        break;
      case 'in': {
        const { expression } = second;
        const parts = expression.kind === 'list' ? expression.items : undefined;
        checkMembership(
          findings,
          first,
          second,
          parts?.map((part) => ({ expression: part, type: typeOf(part, this.item) })),
        );
        break;
      }
      case 'and':
      case 'or':
        for (const operand of operands) this.isBoolean(operand, `what ${keyName(operator)} combines`);
        break;
      case 'if':
        this.choice(operands);
        break;
      case '<':
      case '<=':
      case '>':
      case '>=':
        checkOrdering(findings, operator, operands);
        break;
      case '!':
      case '!!':
        break;
      default:
        for (const operand of operands) this.computed(operator, operand);
    }
  }

  private isBoolean(operand: Typed, what: string): void {
    const { kind } = operand.type;
    if (kind === 'boolean' || kind === 'any') return;
    this.findings.report('C5016', operand.expression.mark, `${what} is not true or false`, {
      found: formatTyped(operand),
      ...withHelp(conditionHelp(operand)),
    });
  }

  private computed(operator: string, operand: Typed): void {
    const { expression, type } = operand;
    if (type.unit !== 'money') {
      checkNumber(this.findings, operator, 'computes with', operand);
      return;
    }
    const is_fact = expression.kind === 'fact';
    const message = `${is_fact ? keyName(expression.path) : 'this'} is money: rules compare it only`;
    const help = 'limits on money belong into spend_limits';
    this.findings.report('C5008', is_fact ? expression.path_mark : expression.mark, message, { help });
  }

  private choice(operands: readonly Typed[]): void {
    for (let at = 0; at + 1 < operands.length; at += 2) this.isBoolean(operands[at]!, 'what `if` tests');
    const [first, ...more] = branchesOf(operands).filter(({ type }) => type.kind !== 'any' && type.kind !== 'nothing');
    const odd = more.find(({ type }) => type.kind !== first?.type.kind);
    if (first === undefined || odd === undefined) return;
    this.findings.report('C5022', odd.expression.mark, 'the values of `if` are of different types', {
      found: formatTyped(odd),
      expected: `${formatKind(first.type.kind)}, as the first value is`,
    });
  }

  private quantifier({ operator }: Call, list: Expression, condition: Expression): void {
    const { expression, type } = this.check(list);
    this.subject(operator, { expression, type });
    const outer = this.item;
    this.item = type.kind === 'list' && type.item !== undefined ? { kind: type.item } : ANY;
    this.isBoolean(this.check(condition), `what ${keyName(operator)} tests`);
    this.item = outer;
  }

  /** Whether the first operand fits an operator that looks at one value, or at the items of one. */
  private subject(
    operator: Call['operator'],
    subject: Typed,
    fact = operator === 'cidr' ? 'request.client.address' : 'request.model',
    message = `${keyName(operator)} looks at a text first`,
  ): boolean {
    const { findings } = this;
    const { expression, type } = subject;
    if (type.kind === 'any') return true;
    if (operator === 'time_window') {
      if (type.unit === 'moment') return true;
      reportWrongOperand(findings, subject, '`time_window` looks at a moment', '{ var: request.received_at }');
    } else if (operator === 'glob' || operator === 'cidr') {
      const expected = `a text that differs from request to request, such as { var: ${fact} }`;
      if (type.kind === 'text' && expression.kind !== 'literal') return true;
      const swapped = expression.kind === 'literal' && type.kind === 'text' && !isFact(String(expression.value));
      const order = swapped ? `what is looked at comes first: { ${operator}: [{ var: ${fact} }, ...] }` : undefined;
      const help =
        order ?? literalHelp(subject, 'any') ?? eachItemHelp(subject, `{ ${operator}: [{ var: "" }, "..."] }`);
      reportWrongOperand(findings, subject, message, expected, help);
    } else {
      if (type.kind === 'list') return true;
      const help = literalHelp(subject, 'list');
      reportWrongOperand(findings, subject, `${keyName(operator)} looks at the items of a list`, 'a list', help);
    }
    return false;
  }
}
