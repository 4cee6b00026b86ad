import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { FactView } from '../../engine/base/contract/services.ts';
import { compileCondition } from '../../engine/base/rules/compile.ts';
import { flatFacts } from '../../engine/base/rules/fact-view.ts';
import { OPERATORS } from '../../engine/base/rules/operators.ts';
import { times } from '../support/times.ts';
import { checkCondition, checkText } from './support/check-condition.ts';
import { related_conditions, some_facts } from './support/conditions.ts';

const codesOf = (logic: unknown, rules?: Readonly<Record<string, unknown>>) =>
  checkCondition(logic, rules).diagnostics.map(({ code }) => code);

const stream = { var: 'request.stream' };

describe('the load checks of conditions', () => {
  test('reject paths into the prototype of an object', () => {
    for (const path of ['__proto__', 'request.__proto__', 'constructor', 'request.constructor.name', 'prototype.x']) {
      assert.deepEqual(codesOf({ '===': [{ var: path }, 'x'] }), ['C5002'], path);
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
    const [found, ...more] = checkText(`when: { in: [1, ${'['.repeat(300)}${']'.repeat(300)}] }`).diagnostics;
    assert.deepEqual([found?.code, more], ['C5025', []]);
  });

  test('accept a list of twenty thousand items', () => {
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
    const large = { '>': [{ var: 'request.max_tokens' }, 5] };
    const { condition } = checkCondition({ and: [{ rule: 'large' }, stream, { rule: 'large' }] }, { large });
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

  test('never throw, whatever replaces the condition', () => {
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
    let found = 0;
    fc.assert(
      fc.property(related_conditions, fc.array(some_facts, { minLength: 5, maxLength: 20 }), (logic, requests) => {
        const holds = compileCondition(logic);
        const text = JSON.stringify(logic);
        const begin = '{"when":{"and":['.length + 1;
        // What two operands of the only `and` or `or` do, the whole does.
        const is_flat = /^\{"(?:and|or)":(?!.*"(?:and|or)":)/.test(text);
        for (const { code, column = 0, message } of checkCondition({ and: [logic, stream] }).diagnostics) {
          const is_pair = is_flat && column < begin + text.length && /\btwo conditions\b/.test(message);
          // A finding about the whole of `logic` marks where it begins.
          if (code !== 'W7020' || (column !== begin && !is_pair)) continue;
          found += 1;
          const of_buckets = [...text.matchAll(/"bucket":\[\{"var":"([^"]+)"/g)].map(([, path]) => path!);
          const isMeant = (facts: FactView) => of_buckets.every((path) => new Map(flatFacts(facts)).has(path));
          const meant = message.endsWith('when its fact is set') ? requests.filter(isMeant) : requests;
          for (const facts of meant) assert.equal(holds(facts), /always/.test(message));
        }
      }),
      { numRuns: times(75) },
    );
    assert.ok(found > 0);
  });

  test('is not reported for conditions that depend on the request', () => {
    const team_bucket = { bucket: [{ var: 'principal.team' }, 'new-model', 2] };
    const free: readonly unknown[] = [
      { and: [{ '>': [{ var: 'request.max_tokens' }, 3] }, { '<': [{ var: 'request.max_tokens' }, 5] }] },
      { or: [{ in: ['a', { var: 'principal.groups' }] }, { in: ['b', { var: 'principal.groups' }] }] },
      { and: [{ glob: [{ var: 'request.model' }, 'a*'] }, { glob: [{ var: 'request.model' }, '*b'] }] },
      { and: [{ in: ['a', { var: 'principal.groups' }] }, { '!': { in: ['b', { var: 'principal.groups' }] } }] },
      { in: [{ var: 'request.cache.ttl' }, ['none', '5m', '1h']] },
      { '===': [team_bucket, null] },
      { in: [{ var: 'route.estimate_nano_usd' }, [{ usd: [5] }, { usd: [6] }]] },
      { and: [{ '<': [team_bucket, 1] }, { '!!': { var: 'principal.team' } }] },
      { and: [{ '!==': [team_bucket, null] }, { '!!': team_bucket }] },
    ];
    for (const logic of free) assert.deepEqual(codesOf(logic), [], JSON.stringify(logic));
  });
});

const model = { var: 'request.model' };
const item = { var: '' };
const groups = { var: 'principal.groups' };
const tokens = { var: 'request.max_tokens' };

/** Cases of JSON-Logic (jsonlogic.com/tests.json) that this language rejects, with the reason. */
const REFUSED: readonly [why: string, code: string, logic: unknown][] = [
  ['`!=` converts its operands', 'C5005', { '!=': [tokens, 1] }],
  ['a text is added to a number', 'C5015', { '>': [{ '+': ['1', tokens] }, 1] }],
  ['`+` of one operand makes a number of a text', 'C5011', { '>': [{ '+': [tokens] }, 1] }],
  ['a number is the same as a text, or not: known when the file loads', 'C5013', { '===': [tokens, '1'] }],
  ['`or` gives whichever operand decides, not true or false', 'C5016', { or: [tokens, { var: 'request.stream' }] }],
  ['`and` gives whichever operand decides', 'C5016', { and: [tokens, { var: 'request.stream' }] }],
  ['`if` without a last value gives null', 'C5011', { if: [{ var: 'request.stream' }, true] }],
  ['`?:` is another name of `if`', 'C5005', { '?:': [true, true, false] }],
  ['`in` looks inside a text', 'C5006', { in: ['Spring', model] }],
  ['`var` of null', 'C5004', { '===': [{ var: null }, 'x'] }],
  ['`var` of a computed path', 'C5004', { '===': [{ var: [{ if: [true, 'a', 'b'] }] }, 'x'] }],
  ['a fact that does not exist', 'C5002', { '===': [{ var: 'a.b' }, 'x'] }],
  ['`some` of a key of its items, which are texts here', 'C5002', { some: [groups, { '>=': [{ var: 'qty' }, 1] }] }],
  ['`map` makes lists that no rule needs', 'C5005', { in: ['a', { map: [groups, item] }] }],
];

describe('rejected on purpose, with a diagnostic', () => {
  for (const [why, code, logic] of REFUSED) test(why, () => assert.deepEqual(codesOf(logic), [code]));
});
