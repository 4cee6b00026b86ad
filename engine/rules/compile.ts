import jsonLogic from 'json-logic-js';
import type { FactView } from '../contract/services.ts';
import { compileGlob } from '../kit/glob.ts';
import { usdToNano } from '../kit/money.ts';
import { compileRanges } from '../kit/net/address-range.ts';
import { bucketOf } from './bucket.ts';
import { expressionOf, truthy } from './logic.ts';
import { type Operator, operatorSpec, takesOperands } from './operators.ts';
import { compileWindow } from './time-window.ts';

/** Computes the value of an expression from the facts, or from the item of a list inside `some`, `all` and `none`. */
export type Evaluate = (data: unknown) => unknown;

/** Makes the function of an expression from those of its operands; `written` are the operands as JSON-Logic. */
type Operation = (operands: readonly Evaluate[], written: readonly unknown[]) => Evaluate;

/** Lists at least this long are searched by hash. */
const LONG_LIST = 8;

const isNumber = (value: unknown): value is number => typeof value === 'number';
const isText = (value: unknown): value is string => typeof value === 'string';
const isPlain = (logic: unknown): boolean => typeof logic !== 'object' || logic === null;

function readPath(path: unknown): Evaluate {
  if (!isText(path)) throw new Error('the path of a fact is not a text');
  if (path === '') return (item) => item;
  const keys = path.split('.');
  const [first = '', second] = keys;
  if (keys.length === 2 && second !== undefined) {
    return (facts) => {
      const section = (facts as FactView | null)?.[first] as FactView | undefined | null;
      return section?.[second] ?? null;
    };
  }
  return (facts) => {
    let value = facts;
    for (const key of keys) {
      if (value === null || value === undefined) return null;
      value = (value as FactView)[key];
    }
    return value ?? null;
  };
}

/** Comparison of numbers. JavaScript takes null for 0; here what is not a number is neither less nor greater. */
function compare(holds: (a: number, b: number) => boolean): Operation {
  return ([a, b, c]) => {
    if (c === undefined) {
      return (data) => {
        const [left, right] = [a!(data), b!(data)];
        return isNumber(left) && isNumber(right) && holds(left, right);
      };
    }
    return (data) => {
      const [left, middle, right] = [a!(data), b!(data), c(data)];
      return isNumber(left) && isNumber(middle) && isNumber(right) && holds(left, middle) && holds(middle, right);
    };
  };
}

/** Arithmetic of the library, on numbers only: anything else, and a result that is no finite number, gives null. */
function compute(operator: Operator): Operation {
  return (operands) => (data) => {
    const values = operands.map((operand) => operand(data));
    if (!values.every(isNumber)) return null;
    const result: unknown = jsonLogic.apply({ [operator]: values } as never);
    return Number.isFinite(result) ? result : null;
  };
}

/** The first operand whose truth is `decisive`, otherwise the last. */
function connect(decisive: boolean): Operation {
  return (operands) => (data) => {
    let value: unknown;
    for (const operand of operands) {
      value = operand(data);
      if (truthy(value) === decisive) break;
    }
    return value;
  };
}

function quantify(decide: (items: readonly unknown[], holds: (item: unknown) => boolean) => boolean): Operation {
  return ([list, condition]) => {
    const holds = (item: unknown) => truthy(condition!(item));
    return (data) => {
      const items = list!(data);
      return decide(Array.isArray(items) ? items : [], holds);
    };
  };
}

/** The operands after the first, which must be literal texts: they are parsed once, not for every request. */
function literalTexts([, ...written]: readonly unknown[]): readonly string[] {
  if (!written.every(isText)) throw new Error('patterns, ranges and time windows are literal texts');
  return written;
}

const OPERATIONS: Readonly<Record<Operator, Operation>> = {
  var: (_, [path]) => readPath(path),
  '===': ([a, b], [, literal]) => (isPlain(literal) ? (data) => a!(data) === literal : (data) => a!(data) === b!(data)),
  '!==':
    ([a, b]) =>
    (data) =>
      a!(data) !== b!(data),
  '<': compare((a, b) => a < b),
  '<=': compare((a, b) => a <= b),
  '>': compare((a, b) => a > b),
  '>=': compare((a, b) => a >= b),
  '!':
    ([a]) =>
    (data) =>
      !truthy(a!(data)),
  '!!':
    ([a]) =>
    (data) =>
      truthy(a!(data)),
  and: connect(false),
  or: connect(true),
  if: (operands) => (data) => {
    for (let i = 0; i + 1 < operands.length; i += 2) {
      if (truthy(operands[i]!(data))) return operands[i + 1]!(data);
    }
    return operands.at(-1)!(data);
  },
  in: ([item, list], [, literal]) => {
    if (Array.isArray(literal) && literal.length >= LONG_LIST && literal.every(isPlain)) {
      const items = new Set<unknown>(literal);
      return (data) => items.has(item!(data));
    }
    return (data) => {
      const items = list!(data);
      return Array.isArray(items) && items.includes(item!(data));
    };
  },
  glob: ([text], written) => {
    const [first, ...more] = literalTexts(written).map(compileGlob);
    return (data) => {
      const value = text!(data);
      return isText(value) && (first!(value) || more.some((matches) => matches(value)));
    };
  },
  bucket:
    ([text], [, salt, count]) =>
    (data) => {
      const value = text!(data);
      return isText(value) ? bucketOf(value, String(salt), Number(count)) : null;
    },
  cidr: ([address], written) => {
    const contains = compileRanges(literalTexts(written));
    return (data) => {
      const value = address!(data);
      return isText(value) && contains(value);
    };
  },
  time_window: ([moment], written) => {
    const windows = literalTexts(written).map(compileWindow);
    return (data) => {
      const value = moment!(data);
      return isNumber(value) && windows.some((contains) => contains(value));
    };
  },
  usd: (_, [amount]) => {
    const nano_usd = usdToNano(amount as number);
    return () => nano_usd;
  },
  some: quantify((items, holds) => items.some(holds)),
  all: quantify((items, holds) => items.length > 0 && items.every(holds)),
  none: quantify((items, holds) => !items.some(holds)),
  '+': compute('+'),
  '-': compute('-'),
  '*': compute('*'),
  '/': compute('/'),
  '%': compute('%'),
  min: compute('min'),
  max: compute('max'),
};

/**
 * Compiles an expression that passed the load checks to a function of the facts. A fact that is not set reads as null.
 * Throws when it uses an operator that is not on the list, or one with a wrong number of operands.
 */
export function compileExpression(logic: unknown): Evaluate {
  const found = expressionOf(logic);
  if (found !== undefined) {
    const [operator, operands] = found;
    const spec = operatorSpec(operator);
    if (spec === undefined) throw new Error(`the operator "${operator}" does not exist`);
    if (!takesOperands(spec, operands.length)) {
      throw new Error(`the operator "${operator}" does not take ${operands.length} operands`);
    }
    return OPERATIONS[operator as Operator](operands.map(compileExpression), operands);
  }
  if (Array.isArray(logic) && !logic.every(isPlain)) {
    const items = logic.map(compileExpression);
    return (data) => items.map((item) => item(data));
  }
  return () => logic;
}

/** Compiles a condition; see `compileExpression`. */
export function compileCondition(logic: unknown): (facts: FactView) => boolean {
  const value = compileExpression(logic);
  return (facts) => truthy(value(facts));
}
