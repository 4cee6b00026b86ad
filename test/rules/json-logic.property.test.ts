/**
 * Conditions are compiled, and json-logic-js says what they mean: both give the same for every condition that passes the load
 * checks and whatever facts there are. Where we differ on purpose is in `EXCEPTIONS`, and nowhere else.
 * @module
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type JsonLogic from 'json-logic-js';
import { FACTS, type FactPath } from '../../engine/base/contract/facts.ts';
import { factType, type Type } from '../../engine/base/rules/check-types.ts';
import { compileExpression } from '../../engine/base/rules/compile.ts';
import { factView } from '../../engine/base/rules/fact-view.ts';
import { expressionOf } from '../../engine/base/rules/logic.ts';
import { OPERATORS } from '../../engine/base/rules/operators.ts';
import { times } from '../support/times.ts';
import { checkCondition } from './support/check-condition.ts';

/** A separate instance of the library: changes here must not affect the engine. */
function openLibrary(): typeof JsonLogic {
  const require = createRequire(import.meta.url);
  delete require.cache[require.resolve('json-logic-js')];
  return require('json-logic-js');
}

type Operation = (...values: readonly unknown[]) => unknown;

const areNumbers = (values: readonly unknown[]) => values.every((value) => typeof value === 'number');

/** Intended differences from the library, each with an example. */
const EXCEPTIONS: readonly {
  readonly name: string;
  readonly operators: readonly string[];
  /** Adapts the library's operation to ours. */
  readonly instead: (own: Operation) => Operation;
  readonly example: unknown;
}[] = [
  {
    name: 'a number that is not set is neither less nor greater than another: JavaScript takes null for 0',
    operators: ['<', '<=', '>', '>='],
    instead:
      (own) =>
      (...values) =>
        areNumbers(values) && own(...values),
    example: { '<': [{ var: 'request.max_tokens' }, 5] },
  },
  {
    name: 'what is computed with a number that is not set is not set: JavaScript takes null for 0 or gives NaN',
    operators: ['+', '-', '*', '/', '%', 'min', 'max'],
    instead:
      (own) =>
      (...values) =>
        areNumbers(values) ? own(...values) : null,
    example: { '===': [{ min: [{ var: 'request.max_tokens' }, 5] }, 0] },
  },
  {
    name: 'a division by zero gives nothing: JavaScript gives an infinite number or NaN',
    operators: ['/', '%'],
    instead:
      (own) =>
      (...values) => {
        const result = own(...values);
        return Number.isFinite(result) ? result : null;
      },
    example: { '>': [{ '/': [5, 0] }, 1] },
  },
];

/** Operators that the library does not have, as functions of their values. */
const OURS = ['glob', 'cidr', 'time_window', 'bucket', 'usd'];

function addOurs(library: typeof JsonLogic): void {
  for (const operator of OURS) {
    const compiled = new Map<string, (data: unknown) => unknown>();
    library.add_operation(operator, (...values: unknown[]) => {
      const [value, ...written] = values;
      const operands = operator === 'usd' ? values : [{ var: '' }, ...written];
      const key = JSON.stringify(operands);
      if (!compiled.has(key)) compiled.set(key, compileExpression({ [operator]: operands }));
      return compiled.get(key)!(value);
    });
  }
}

const plain = openLibrary();
addOurs(plain);
const library = openLibrary();
addOurs(library);
for (const operator of new Set(EXCEPTIONS.flatMap(({ operators }) => operators))) {
  const own: Operation = (...values) => plain.apply({ [operator]: values } as never);
  const changes = EXCEPTIONS.filter(({ operators }) => operators.includes(operator));
  library.add_operation(
    operator,
    changes.reduceRight((inner, { instead }) => instead(inner), own),
  );
}

const PATHS = Object.keys(FACTS) as FactPath[];
const MONDAY = Date.UTC(2026, 5, 1, 10);
const TEXTS = ['coder-1', 'coder-2', '10.1.2.3', ''];

const ofType = (matches: (type: Type) => boolean) =>
  PATHS.filter((path) => FACTS[path].kind !== 'object' && matches(factType(path)));
const TEXT_FACTS = ofType(({ kind, values }) => kind === 'text' && values === undefined);
const ENUM_FACTS = ofType(({ values }) => values !== undefined);
const NUMBER_FACTS = ofType(({ kind, unit }) => kind === 'number' && unit === undefined);
const MONEY_FACTS = ofType(({ unit }) => unit === 'money');
const MOMENT_FACTS = ofType(({ unit }) => unit === 'moment');
const BOOLEAN_FACTS = ofType(({ kind }) => kind === 'boolean');
const LIST_FACTS = ofType(({ kind }) => kind === 'list');

const among = <T>(values: readonly T[]) => fc.constantFrom(...values);
const fact = (paths: readonly string[]) => among(paths).map((path) => ({ var: path }));
const call = (operators: readonly string[], ...operands: fc.Arbitrary<unknown>[]): fc.Arbitrary<unknown> =>
  fc.tuple(among(operators), fc.tuple(...operands)).map(([operator, all]) => ({ [operator]: all }));
const list = (item: fc.Arbitrary<unknown>) => fc.array(item, { minLength: 1, maxLength: 10 });

const text = fc.oneof(among(TEXTS), fact(TEXT_FACTS));
const bucket = call(['bucket'], fact(TEXT_FACTS), among(['new-model', 'b']), among([2, 100]));
const plain_number = fc.oneof(fc.integer({ min: -2, max: 5 }), fact(NUMBER_FACTS), bucket);
const computed = fc.oneof(
  call(['+', '-', '*', '/', '%', 'min', 'max'], plain_number, plain_number),
  call(['+', '*', 'min', 'max'], plain_number, plain_number, plain_number),
  call(['-', 'min', 'max'], plain_number),
);
const number = fc.oneof(plain_number, computed, call(['+', '/', 'max'], computed, plain_number));
const money = fc.oneof(
  fact(MONEY_FACTS),
  among([0, 0.5, 2]).map((usd) => ({ usd: [usd] })),
);
const pattern = among(['coder-*', '*-1', '*']);
const range = among(['10.0.0.0/8', '192.0.2.1']);
const span = among(['mon 11:00-13:00 Europe/Berlin', '00:00-24:00', 'sat-sun 09:00-17:00']);
const item = fc.constant({ var: '' });
const about_item = fc.oneof(
  call(['===', '!=='], item, among(TEXTS)),
  call(['glob'], item, pattern),
  call(['in'], item, list(among(TEXTS))),
  call(['!', '!!'], item),
);
const order = ['<', '<=', '>', '>='];
const same = ['===', '!=='];

const comparison = fc.oneof(
  fact(BOOLEAN_FACTS),
  call(same, text, text),
  among(ENUM_FACTS).chain((path) => call(same, fc.constant({ var: path }), among(factType(path).values!))),
  call([...order, ...same], number, number),
  call(['<', '<='], number, number, number),
  call([...order, ...same], fact(MONEY_FACTS), money),
  call(same, fc.oneof(fact(TEXT_FACTS), fact(NUMBER_FACTS), fact(BOOLEAN_FACTS)), fc.constant(null)),
  call(['in'], fact(TEXT_FACTS), list(among([...TEXTS, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']))),
  call(['in'], among(TEXTS), fact(LIST_FACTS)),
  call(['in'], plain_number, list(plain_number)),
  call(['glob'], fact(TEXT_FACTS), pattern, pattern),
  call(['cidr'], fact(TEXT_FACTS), range),
  call(['time_window'], fact(MOMENT_FACTS), span),
  call(['some', 'all', 'none'], fact(LIST_FACTS), about_item),
  call(['!', '!!'], fc.oneof(fact(TEXT_FACTS), fact(NUMBER_FACTS), fact(LIST_FACTS), fact(BOOLEAN_FACTS))),
  fc.boolean(),
);

function combination(part: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.oneof(
    part,
    call(['and', 'or'], part, part),
    call(['and', 'or'], part, part, part),
    call(['and', 'or', '!', '!!'], part),
    call(['if'], part, part, part),
    call(['if'], part, part, part, part, part),
    call(same, call(['if'], part, text, text), text),
    call(order, call(['if'], part, number, number), number),
  );
}

const conditions = combination(combination(comparison));

function valuesOf(path: FactPath): fc.Arbitrary<unknown> {
  const { kind, unit, values } = factType(path);
  if (unit === 'moment') return fc.integer({ min: 0, max: 7 * 24 * 60 }).map((minutes) => MONDAY + minutes * 60_000);
  if (unit === 'money') return among([0, 500_000_000, 2_000_000_000]);
  if (kind === 'number') return fc.integer({ min: -2, max: 5 });
  if (kind === 'boolean') return fc.boolean();
  if (kind === 'list') return fc.subarray([...TEXTS]);
  return among(values ?? TEXTS);
}

/** Any facts may be missing. */
const facts = fc
  .record(
    Object.fromEntries(PATHS.filter((path) => FACTS[path].kind !== 'object').map((path) => [path, valuesOf(path)])),
    {
      requiredKeys: [],
    },
  )
  .map((flat) => factView(Object.entries(flat)));

describe('a compiled condition and json-logic-js', () => {
  test('agree on every condition that passes the load checks', () => {
    fc.assert(
      fc.property(conditions, facts, (condition, view) => {
        const errors = checkCondition(condition).diagnostics.filter(({ severity }) => severity === 'error');
        assert.deepEqual(errors, []);
        assert.deepEqual(compileExpression(condition)(view), library.apply(condition as never, view));
      }),
      { numRuns: times(120) },
    );
  });

  test('are compared with every operator and every type of fact', () => {
    const seen = new Set<string>();
    const note = (logic: unknown): void => {
      if (Array.isArray(logic)) for (const part of logic) note(part);
      const [operator, operands] = expressionOf(logic) ?? [];
      if (operator === undefined) return;
      const path = operands![0] as FactPath;
      seen.add(operator === 'var' && path in FACTS ? FACTS[path].kind : operator);
      note(operands);
    };
    for (const condition of fc.sample(conditions, { numRuns: 2000 })) note(condition);
    const kinds = ['string', 'number', 'boolean', 'strings'];
    assert.deepEqual([...seen].sort(), [...Object.keys(OPERATORS), ...kinds].sort());
  });

  for (const { name, example } of EXCEPTIONS) {
    test(`differ on purpose: ${name}`, () => {
      assert.notDeepEqual(compileExpression(example)({}), plain.apply(example as never, {}));
      assert.deepEqual(compileExpression(example)({}), library.apply(example as never, {}));
    });
  }
});
