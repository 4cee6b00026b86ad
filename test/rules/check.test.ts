import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compileCondition } from '../../engine/rules/compile.ts';
import { OPERATORS } from '../../engine/rules/operators.ts';
import { times } from '../support/times.ts';
import { checkCondition, checkText } from './support/check-condition.ts';
import { conditions, some_facts } from './support/conditions.ts';

const codesOf = (logic: unknown, rules?: Readonly<Record<string, unknown>>) =>
  checkCondition(logic, rules).diagnostics.map(({ code }) => code);

const stream = { var: 'request.stream' };

describe('the load checks of conditions', () => {
  test('refuse ways into the prototype of an object', () => {
    for (const path of ['__proto__', 'request.__proto__', 'constructor', 'request.constructor.name', 'prototype.x']) {
      assert.deepEqual(codesOf({ '===': [{ var: path }, 'x'] }), ['C5007'], path);
    }
    for (const operator of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
      assert.deepEqual(codesOf(JSON.parse(`{ "${operator}": [1, 2] }`)), ['C5001'], operator);
    }
    for (const name of ['__proto__', 'constructor', 'toString']) {
      assert.deepEqual(codesOf({ rule: name }), ['C5009'], name);
    }
  });

  test('survive an expression that is nested ten thousand deep', () => {
    for (const depth of [101, 300, 10_000]) {
      const logic = `${'{"!": '.repeat(depth)}{"var": "request.stream"}${'}'.repeat(depth)}`;
      const codes = checkText(`when: ${logic}`).diagnostics.map(({ code }) => code);
      // Very deep ones are refused before they are looked at as conditions.
      assert.ok(codes.length === 1 && ['C5025', 'C1007'].includes(codes[0]!), `${depth}: ${codes}`);
    }
    const list = `${'['.repeat(300)}${']'.repeat(300)}`;
    const { diagnostics } = checkText(`when: { in: [1, ${list}] }`);
    assert.deepEqual(
      diagnostics.map(({ code }) => code),
      ['C5025'],
    );
  });

  test('take a list of twenty thousand items', () => {
    const models = Array.from({ length: 20_000 }, (_, index) => `model-${index}`);
    const { condition, diagnostics } = checkCondition({ in: [{ var: 'request.model' }, models] });
    assert.deepEqual(diagnostics, []);
    assert.equal(compileCondition(condition!.logic)({ request: { model: 'model-19999' } }), true);
  });

  test('stop named rules from growing without end', () => {
    const rules = Object.fromEntries(
      Array.from({ length: 60 }, (_, i) => [`r${i}`, { and: [{ rule: `r${i + 1}` }, { '!': { rule: `r${i + 1}` } }] }]),
    );
    assert.deepEqual(codesOf({ rule: 'r0' }, { ...rules, r60: stream }), ['C5025']);
  });

  test('name every fact that is read, also by a named rule', () => {
    const { condition } = checkCondition(
      { and: [{ rule: 'large' }, stream, { rule: 'large' }] },
      {
        large: { '>': [{ var: 'request.max_tokens' }, 5] },
      },
    );
    assert.deepEqual(condition?.reads.map(({ path }) => path).toSorted(), ['request.max_tokens', 'request.stream']);
  });

  test('accept the example of every operator', async () => {
    const { parse } = await import('yaml');
    for (const [name, { example }] of Object.entries(OPERATORS)) assert.deepEqual(codesOf(parse(example)), [], name);
  });

  test('report one mistake once, however deep it is', () => {
    const wrong = { '<': [{ var: 'request.model' }, 5] };
    const around: readonly ((inner: unknown) => unknown)[] = [
      (inner) => ({ and: [stream, inner] }),
      (inner) => ({ '!': inner }),
      (inner) => ({ if: [inner, stream, false] }),
      (inner) => ({ if: [stream, inner, false] }),
      (inner) => ({ '===': [inner, true] }),
      (inner) => ({ in: [inner, [true]] }),
    ];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...around), { maxLength: 6 }), (layers) => {
        const logic = layers.reduce<unknown>((inner, wrap) => wrap(inner), wrong);
        assert.deepEqual(codesOf(logic), ['C5015']);
      }),
    );
  });

  test('never throw, whatever stands where a condition should', () => {
    const keys = fc.constantFrom(...Object.keys(OPERATORS), 'rule', '==', 'missing');
    const { any } = fc.letrec<Record<'any', unknown>>((tie) => ({
      any: fc.oneof(
        { maxDepth: 3, withCrossShrink: true },
        fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null), fc.constant('request.model')),
        fc.array(tie('any'), { maxLength: 3 }),
        fc
          .tuple(keys, fc.oneof(tie('any'), fc.array(tie('any'), { maxLength: 3 })))
          .map(([key, value]) => ({ [key]: value })),
        fc.dictionary(keys, tie('any'), { maxKeys: 2 }),
      ),
    }));
    fc.assert(
      fc.property(any, (logic) => {
        const { condition, diagnostics } = checkCondition(logic);
        const errors = diagnostics.filter(({ severity }) => severity === 'error');
        assert.equal(condition === undefined, errors.length > 0);
        if (condition !== undefined) assert.doesNotThrow(() => compileCondition(condition.logic)({}));
      }),
      { numRuns: times(75) },
    );
  });
});

describe('a warning about a condition', () => {
  test('is never wrong about what always or never holds', () => {
    const NEVER = { '<': [5000, { var: 'request.max_tokens' }, 3000] };
    let found = 0;
    fc.assert(
      fc.property(conditions, fc.array(some_facts, { minLength: 5, maxLength: 20 }), (logic, requests) => {
        const holds = compileCondition(logic);
        for (const { code, column } of checkCondition({ and: [logic, stream] }).diagnostics) {
          // A finding about the whole of `logic` marks where it begins.
          if (column !== '{"when":{"and":['.length + 1 || (code !== 'W7020' && code !== 'W7021')) continue;
          found += 1;
          for (const facts of requests) assert.equal(holds(facts), code === 'W7020');
        }
      }),
      // One that never holds comes by itself in most runs, not in all.
      { numRuns: times(75), examples: [[NEVER, [{}]]] },
    );
    assert.ok(found > 0);
  });

  test('spares conditions that depend on the request', () => {
    const free: readonly unknown[] = [
      { and: [{ '>': [{ var: 'request.max_tokens' }, 3] }, { '<': [{ var: 'request.max_tokens' }, 5] }] },
      { and: [{ '!!': { var: 'request.max_tokens' } }, { '<': [{ var: 'request.max_tokens' }, 5] }] },
      { or: [{ in: ['a', { var: 'principal.groups' }] }, { in: ['b', { var: 'principal.groups' }] }] },
      { and: [{ glob: [{ var: 'request.model' }, 'a*'] }, { glob: [{ var: 'request.model' }, '*b'] }] },
      { and: [{ in: ['a', { var: 'principal.groups' }] }, { '!': { in: ['b', { var: 'principal.groups' }] } }] },
      { in: [{ var: 'request.cache.ttl' }, ['none', '5m', '1h']] },
    ];
    for (const logic of free) assert.deepEqual(codesOf(logic), [], JSON.stringify(logic));
  });
});
