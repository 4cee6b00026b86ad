/**
 * Conditions are compiled, and json-logic-js says what they mean: both give the same for every condition that passes the load
 * checks and whatever facts there are. Where we differ on purpose is in `EXCEPTIONS`, and nowhere else.
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type JsonLogic from 'json-logic-js';
import { FACTS, type FactPath } from '../../engine/base/contract/facts.ts';
import { compileExpression } from '../../engine/base/rules/compile.ts';
import { expressionOf } from '../../engine/base/rules/logic.ts';
import { OPERATORS } from '../../engine/base/rules/operators.ts';
import { times } from '../support/times.ts';
import { checkCondition } from './support/check-condition.ts';
import { conditions, factsWith } from './support/conditions.ts';

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

describe('a compiled condition and json-logic-js', () => {
  test('agree on every condition that passes the load checks', () => {
    fc.assert(
      fc.property(fc.oneof(conditions, conditions, fc.boolean()), factsWith([]), (condition, view) => {
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
