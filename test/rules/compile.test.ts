import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import jsonLogic, { type RulesLogic } from 'json-logic-js';
import { compileCondition } from '../../engine/rules/compile.ts';
import { OPERATORS } from '../../engine/rules/operators.ts';

const FACTS = {
  request: { model: 'coder-1', max_tokens: 1000, stream: true, cache: { ttl: '1h' } },
  principal: { groups: ['research', 'interns'], email: '', roles: [] },
};

const holds = (logic: unknown, facts: Readonly<Record<string, unknown>> = FACTS) => compileCondition(logic)(facts);

describe('a compiled condition', () => {
  const cases: readonly [name: string, logic: unknown, expected: boolean][] = [
    ['compares a fact with a text', { '===': [{ var: 'request.model' }, 'coder-1'] }, true],
    ['tells a number from its text', { '===': [{ var: 'request.max_tokens' }, '1000'] }, false],
    ['reads a fact three levels deep', { '!==': [{ var: 'request.cache.ttl' }, 'none'] }, true],
    ['finds an item of a list', { in: ['interns', { var: 'principal.groups' }] }, true],
    ['never looks inside a text', { in: ['code', { var: 'request.model' }] }, false],
    ['matches a pattern', { glob: [{ var: 'request.model' }, 'coder-*'] }, true],
    ['matches no pattern with a fact that is not set', { glob: [{ var: 'principal.team' }, '*'] }, false],
    ['reads a fact that is not set as null', { '===': [{ var: 'principal.team' }, null] }, true],
    ['reads a section that is not set as null', { '===': [{ var: 'usage.cost_nano_usd' }, null] }, true],
    ['takes an empty list for false', { var: 'principal.roles' }, false],
    ['takes an empty text for false', { '!': { var: 'principal.email' } }, true],
    ['needs all of `and`', { and: [{ var: 'request.stream' }, { '>': [{ var: 'request.max_tokens' }, 999] }] }, true],
    ['needs one of `or`', { or: [{ var: 'principal.roles' }, { var: 'request.stream' }] }, true],
    ['compares three numbers', { '<': [1, { var: 'request.max_tokens' }, 2000] }, true],
    ['computes', { '===': [{ '%': [{ var: 'request.max_tokens' }, 7] }, 6] }, true],
    ['chooses', { if: [{ var: 'request.stream' }, false, true] }, false],
    ['looks at every item', { all: [{ var: 'principal.groups' }, { '!==': [{ var: '' }, 'admins'] }] }, true],
    ['can be a constant', true, true],
  ];
  for (const [name, logic, expected] of cases) {
    test(name, () => assert.equal(holds(logic), expected));
  }

  test('is a strict boolean whatever its operator returns', () => {
    assert.equal(holds({ or: ['', 'text'] }), true);
    assert.equal(holds({ and: [1, 0] }), false);
    assert.equal(holds({ max: [0, 5] }), true);
  });

  test('does not compile with an operator that is not on the list', () => {
    for (const operator of ['log', 'method', '==', 'map', 'constructor', '__proto__', 'toString']) {
      const logic = JSON.parse(`{ "and": [{ "${operator}": [1, 2] }] }`);
      assert.throws(() => compileCondition(logic), /does not exist/, operator);
    }
  });

  test('decides as json-logic-js does', () => {
    const paths = [
      'request.model',
      'request.max_tokens',
      'request.stream',
      'principal.groups',
      'principal.team',
      'no.way.out',
    ];
    const constant = fc.oneof(
      fc.integer({ min: -2, max: 2 }),
      fc.constantFrom('coder-1', 'research', ''),
      fc.boolean(),
      fc.constant(null),
    );
    const list = fc.array(constant, { maxLength: 3 });
    const variadic = fc.constantFrom('and', 'or');
    const binary = fc.constantFrom('===', '!==', '<', '<=', '>', '>=', '-', '+', '*', '%');
    const { logic } = fc.letrec<{ logic: unknown }>((tie) => ({
      logic: fc.oneof(
        { maxDepth: 5 },
        constant,
        fc.constantFrom(...paths).map((path) => ({ var: path })),
        fc.tuple(binary, tie('logic'), tie('logic')).map(([operator, a, b]) => ({ [operator]: [a, b] })),
        fc
          .tuple(variadic, fc.array(tie('logic'), { minLength: 1, maxLength: 3 }))
          .map(([operator, all]) => ({ [operator]: all })),
        fc.tuple(fc.constantFrom('!', '!!'), tie('logic')).map(([operator, a]) => ({ [operator]: [a] })),
        fc.tuple(tie('logic'), list).map(([item, items]) => ({ in: [item, items] })),
        fc.tuple(tie('logic'), tie('logic'), tie('logic')).map((all) => ({ if: all })),
      ),
    }));
    fc.assert(
      fc.property(logic, (condition) => {
        const expected = jsonLogic.truthy(jsonLogic.apply(condition as RulesLogic, FACTS));
        assert.equal(holds(condition), expected);
      }),
      { numRuns: 2000 },
    );
  });

  test('evaluates 500 rules well under a millisecond', () => {
    const rules = Array.from({ length: 500 }, (_, i) =>
      compileCondition({
        and: [{ in: [`group-${i}`, { var: 'principal.groups' }] }, { glob: [{ var: 'request.model' }, 'x-*'] }],
      }),
    );
    const run = () => rules.filter((rule) => rule(FACTS)).length;
    for (let i = 0; i < 200; i++) run();
    const fastest = Math.min(
      ...Array.from({ length: 50 }, () => {
        const start = performance.now();
        run();
        return performance.now() - start;
      }),
    );
    assert.ok(fastest < 0.5, `${fastest} ms`);
  });
});

test('every operator on the list says what it means and how many operands it takes', () => {
  for (const [name, { operands, meaning }] of Object.entries(OPERATORS)) {
    assert.ok(operands[0] >= 1 && operands[1] >= operands[0], name);
    assert.match(meaning, /^[A-Z].*[^.]$/, name);
  }
});
