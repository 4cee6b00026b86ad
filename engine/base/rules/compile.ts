import { hash } from 'node:crypto';
import jsonLogic from 'json-logic-js';
import type { FactView } from '../contract/services.ts';
import { compileGlob } from '../kit/glob.ts';
import { usdToNano } from '../kit/money.ts';
import { compileRanges } from '../kit/net/address-range.ts';
import { isTimeZone } from '../kit/net/addresses.ts';
import { wallClock } from '../kit/zoned-time.ts';
import { expressionOf, truthy } from './logic.ts';
import { type Operator, operatorSpec, takesOperands } from './operators.ts';

/** Most buckets: up to here, all are equally likely to within a millionth of a percent. */
export const BUCKETS_MAX = 1_000_000;

/** Hex digits that a double represents exactly. */
const DIGITS = 13;

/** The bucket of a string: the first 52 bits of SHA-256 over salt, zero byte and string, modulo `count`. Stable across versions. */
export function bucketOf(text: string, salt: string, count: number): number {
  return Number.parseInt(hash('sha256', `${salt}\0${text}`, 'hex').slice(0, DIGITS), 16) % count;
}

const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
const MINUTES_PER_DAY = 24 * 60;
const MS_PER_MINUTE = 60_000;

interface TimeWindow {
  /** By day of the week, Monday first: whether the window begins on it. */
  readonly days: readonly boolean[];
  /** Minutes since midnight. `end` is exclusive, and on the next day unless it is after `start`. */
  readonly start: number;
  readonly end: number;
  readonly zone: string;
}

function parseDays(text: string): readonly boolean[] | string {
  const days = DAYS.map(() => false);
  for (const part of text.toLowerCase().split(',')) {
    const names = part.split('-');
    const odd = names.find((name) => !DAYS.includes(name));
    if (odd !== undefined || names.length > 2) {
      return `"${odd ?? part}" is not a day of the week: ${DAYS.join(', ')}`;
    }
    const [from = '', to = from] = names;
    // `fri-mon` wraps around the end of the week.
    for (let day = DAYS.indexOf(from); ; day = (day + 1) % DAYS.length) {
      days[day] = true;
      if (DAYS[day] === to) break;
    }
  }
  return days;
}

function parseTime(text: string): number | undefined {
  const match = /^(\d\d):(\d\d)$/.exec(text);
  if (match === null) return undefined;
  const [hours, minutes] = [Number(match[1]), Number(match[2])];
  const total = hours * 60 + minutes;
  return minutes < 60 && total <= MINUTES_PER_DAY ? total : undefined;
}

/** The window, or the problem of the text. */
function parseWindow(text: string): TimeWindow | string {
  const [, named, from, to, zone = 'UTC'] = /^(?:(\D\S*)\s+)?([\d:]+)-([\d:]+)(?:\s+(\S+))?$/.exec(text.trim()) ?? [];
  if (from === undefined || to === undefined) return 'it is not days, times and a time zone';
  const days = named === undefined ? DAYS.map(() => true) : parseDays(named);
  if (typeof days === 'string') return days;
  const [start, end] = [parseTime(from), parseTime(to)];
  if (start === undefined || start === MINUTES_PER_DAY) return `there is no time "${from}": write 00:00 to 23:59`;
  if (end === undefined) return `there is no time "${to}": write 00:00 to 24:00`;
  if (start === end) return 'it ends when it begins; the whole day is 00:00-24:00';
  return isTimeZone(zone) ? { days, start, end, zone } : `there is no time zone "${zone}"`;
}

/** The problem of a time window; `undefined` without one. */
export function windowProblem(text: string): string | undefined {
  const window = parseWindow(text);
  return typeof window === 'string' ? `cannot be used: ${window}` : undefined;
}

/** Local time in a zone: the day of the week, Monday being 0, and minutes since midnight. */
type LocalClock = (ms: number) => { readonly day: number; readonly minute: number };

function createLocalClock(zone: string): LocalClock {
  let minute_read = Number.NaN;
  let time = { day: 0, minute: 0 };
  return (ms) => {
    // Cached for the minute: asking Intl costs more than the rest of a rule, and all rules of a request ask for the same.
    const minute = Math.floor(ms / MS_PER_MINUTE);
    if (minute === minute_read) return time;
    const wall = new Date(wallClock(ms, zone));
    time = { day: (wall.getUTCDay() + 6) % 7, minute: wall.getUTCHours() * 60 + wall.getUTCMinutes() };
    minute_read = minute;
    return time;
  };
}

const clocks = new Map<string, LocalClock>();

/**
 * Compiles a window such as `mon-fri 09:00-17:00 Europe/Berlin` to a test of a time in milliseconds since the epoch. Days and
 * zone are optional (every day, UTC). A window over midnight belongs to the day it begins on. Throws for an invalid window
 * (`windowProblem`).
 */
export function compileWindow(text: string): (ms: number) => boolean {
  const window = parseWindow(text);
  if (typeof window === 'string') throw new Error(`the time window cannot be used: ${window}`);
  const { days, start, end, zone } = window;
  const clock = clocks.get(zone) ?? createLocalClock(zone);
  clocks.set(zone, clock);
  return (ms) => {
    const { day, minute } = clock(ms);
    if (start < end) return days[day]! && minute >= start && minute < end;
    const day_before = (day + DAYS.length - 1) % DAYS.length;
    return (days[day]! && minute >= start) || (days[day_before]! && minute < end);
  };
}

/** Computes the value of an expression from the facts, or from the item of a list inside `some`, `all` and `none`. */
type Evaluate = (data: unknown) => unknown;

/** Compiles an operator from its compiled operands. @param written the operands as JSON-Logic */
type Operation = (operands: readonly Evaluate[], written: readonly unknown[]) => Evaluate;

/** Lists at least this long are searched by hash. */
const LONG_LIST = 8;

const isNumber = (value: unknown): value is number => typeof value === 'number';
const isText = (value: unknown): value is string => typeof value === 'string';
const isPlain = (logic: unknown): boolean => typeof logic !== 'object' || logic === null;

function readPath(path: unknown): Evaluate {
  if (!isText(path)) throw new Error('the path of a fact must be a string');
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

/** Comparison of numbers. Unlike JavaScript, where null counts as 0, it is false for anything but numbers. */
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

/** The library's arithmetic, on numbers only. Any other operand, and a result that is not finite, gives null. */
function compute(operator: Operator): Operation {
  return (operands) => (data) => {
    const values = operands.map((operand) => operand(data));
    if (!values.every(isNumber)) return null;
    const result: unknown = jsonLogic.apply({ [operator]: values } as never);
    return Number.isFinite(result) ? result : null;
  };
}

/** The first operand whose truth is `until`, otherwise the last. */
function connect(until: boolean): Operation {
  return (operands) => (data) => {
    let value: unknown;
    for (const operand of operands) {
      value = operand(data);
      if (truthy(value) === until) break;
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

/** The operands after the first. They must be literal strings, because they are parsed once per load. */
function literalTexts([, ...written]: readonly unknown[]): readonly string[] {
  if (!written.every(isText)) throw new Error('patterns, ranges and time windows must be literal strings');
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

/** Compiles a checked expression. A fact that is not set reads as null. Throws for unknown operators and operand counts. */
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
