/**
 * The published JSON-Logic test cases (jsonlogic.com/tests.json), restated by operator: operands, facts where there are
 * some, and the value. A case without an operator that this language has is listed with those that are refused.
 * @module
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileExpression } from '../../engine/rules/compile.ts';
import { OPERATORS } from '../../engine/rules/operators.ts';
import { checkCondition } from './support/check-condition.ts';

type Case = readonly [operands: unknown, value: unknown, facts?: unknown];

const FRUIT = { a: 'one', b: 'two', c: 'three', d: 'four' };
const { a, b, c, d } = FRUIT;
const NUMBERS = { numbers: [1, 2, 3] };
const numbers = { var: 'numbers' };
const item = { var: '' };

/** `if` over every combination of up to three conditions, with the branch it takes. */
const ifs: Case[] = [1, 2, 3].flatMap((count) =>
  Array.from({ length: 2 ** count }, (_, bits): Case => {
    const holds = Array.from({ length: count }, (_, at) => ((bits >> at) & 1) === 1);
    const values = [a, b, c].slice(0, count);
    const taken = holds.indexOf(true);
    return [[...holds.flatMap((condition, at) => [condition, values[at]]), d], taken < 0 ? d : values[taken]];
  }),
);

const CASES: Readonly<Record<string, readonly Case[]>> = {
  var: [
    ['x', 1, { x: 1 }],
    [['x'], 1, { x: 1 }],
    ['y', null, { x: 1 }],
    [['y'], null, { x: 1 }],
    ['x', null, null],
    [['x'], null, null],
    ['x.y', 'z', { x: { y: 'z' } }],
    ['x.q', null, { x: { y: 'z' } }],
    ['x.y.z', null, null],
    ['x.y.z', null, { x: null }],
    ['x.y.z', null, { x: { y: null } }],
    ['1', 'second', ['first', 'second']],
    ['1.1', 'inner', ['first', ['second', 'inner']]],
    ['', 1, 1],
  ],
  '===': [
    [[1, 1], true],
    [[1, '1'], false],
    [[1, 2], false],
    [[0, '0'], false],
  ],
  '!==': [
    [[1, 2], true],
    [[1, 1], false],
    [[1, '1'], true],
  ],
  '>': [
    [[2, 1], true],
    [[1, 1], false],
    [[1, 2], false],
  ],
  '>=': [
    [[2, 1], true],
    [[1, 1], true],
    [[1, 2], false],
  ],
  '<': [
    [[2, 1], false],
    [[1, 1], false],
    [[1, 2], true],
    [[1, 2, 3], true],
    [[1, 1, 3], false],
    [[1, 4, 3], false],
  ],
  '<=': [
    [[2, 1], false],
    [[1, 1], true],
    [[1, 2], true],
    [[1, 2, 3], true],
    [[1, 4, 3], false],
  ],
  '!': [
    [[false], true],
    [false, true],
    [[true], false],
    [true, false],
    [0, true],
    [1, false],
    [[[]], true],
    [[0], true],
    [[''], true],
    [['0'], false],
  ],
  '!!': [
    [[[]], false],
    [[0], false],
    [[''], false],
    [['0'], true],
  ],
  or: [
    [[true, true], true],
    [[false, true], true],
    [[true, false], true],
    [[false, false], false],
    [[false, false, true], true],
    [[false, false, false], false],
    [[false], false],
    [[true], true],
    [[1, 3], 1],
    [[3, false], 3],
    [[false, 3], 3],
    [[[], true], true],
    [[0, true], true],
    [['', true], true],
    [['0', true], '0'],
  ],
  and: [
    [[true, true], true],
    [[false, true], false],
    [[true, false], false],
    [[false, false], false],
    [[true, true, true], true],
    [[true, true, false], false],
    [[false], false],
    [[true], true],
    [[1, 3], 3],
    [[3, false], false],
    [[false, 3], false],
    [[[], true], []],
    [[0, true], 0],
    [['', true], ''],
    [['0', true], true],
    [[{ '>': [3, 1] }, true], true],
    [[{ '>': [3, 1] }, false], false],
    [[{ '>': [3, 1] }, { '!': true }], false],
    [[{ '>': [3, 1] }, { '<': [1, 3] }], true],
  ],
  if: [
    ...ifs,
    [[[], a, b], b],
    [[[1], a, b], a],
    [[[1, 2, 3, 4], a, b], a],
    [['', a, b], b],
    [[c, a, b], a],
    [['0', a, b], a],
    [[0, a, b], b],
    [[1, a, b], a],
    [[2.5, a, b], a],
    [[-1, a, b], a],
    [[{ '>': [2, 1] }, a, b], a],
    [[{ '>': [1, 2] }, a, b], b],
  ],
  in: [
    [[a, [a, b, c]], true],
    [[d, [a, b, c]], false],
    [[{ var: 'filling' }, [a, b]], true, { filling: a }],
  ],
  '%': [
    [[1, 2], 1],
    [[2, 2], 0],
    [[3, 2], 1],
  ],
  max: [
    [[1, 2, 3], 3],
    [[1, 3, 3], 3],
    [[3, 2, 1], 3],
    [[1], 1],
  ],
  min: [
    [[1, 2, 3], 1],
    [[1, 1, 3], 1],
    [[3, 2, 1], 1],
    [[1], 1],
  ],
  '+': [
    [[1, 2], 3],
    [[2, 2, 2], 6],
  ],
  '*': [
    [[3, 2], 6],
    [[2, 2, 2], 8],
  ],
  '-': [
    [[2, 3], -1],
    [[3, 2], 1],
    [[3], -3],
  ],
  '/': [
    [[4, 2], 2],
    [[2, 4], 0.5],
  ],
  all: [
    [[numbers, { '>=': [item, 1] }], true, NUMBERS],
    [[numbers, { '===': [item, 1] }], false, NUMBERS],
    [[numbers, { '<': [item, 1] }], false, NUMBERS],
    [[numbers, { '<': [item, 1] }], false, { numbers: [] }],
  ],
  none: [
    [[numbers, { '>=': [item, 1] }], false, NUMBERS],
    [[numbers, { '===': [item, 1] }], false, NUMBERS],
    [[numbers, { '<': [item, 1] }], true, NUMBERS],
    [[numbers, { '<': [item, 1] }], true, { numbers: [] }],
  ],
  some: [
    [[numbers, { '>=': [item, 1] }], true, NUMBERS],
    [[numbers, { '===': [item, 1] }], true, NUMBERS],
    [[numbers, { '<': [item, 1] }], false, NUMBERS],
    [[numbers, { '<': [item, 1] }], false, { numbers: [] }],
  ],
};

/** Operators that JSON-Logic does not have. */
const OURS = ['glob', 'cidr', 'time_window', 'bucket', 'usd'];

describe('the JSON-Logic test cases', () => {
  for (const [operator, cases] of Object.entries(CASES)) {
    test(`of ${operator} pass`, () => {
      for (const [operands, value, facts = {}] of cases) {
        const logic = { [operator]: operands };
        assert.deepEqual(compileExpression(logic)(facts), value, JSON.stringify(logic));
      }
    });
  }

  test('cover every operator that JSON-Logic has', () => {
    assert.deepEqual(
      Object.keys(CASES).toSorted(),
      Object.keys(OPERATORS)
        .filter((name) => !OURS.includes(name))
        .toSorted(),
    );
  });

  test('of values that are no expressions pass', () => {
    for (const value of [true, false, 17, 3.14, a, null, [a, b]]) assert.deepEqual(compileExpression(value)({}), value);
  });
});

const model = { var: 'request.model' };
const groups = { var: 'principal.groups' };
const tokens = { var: 'request.max_tokens' };

/** Behaviour the published cases ask for and this language refuses when a file loads, and why. */
const REFUSED: readonly [why: string, code: string, logic: unknown][] = [
  ['`==` converts its operands: 1 is "1", 0 is ""', 'C5005', { '==': [tokens, 1] }],
  ['`!=` converts its operands', 'C5005', { '!=': [tokens, 1] }],
  ['a number is compared with a text that reads like one', 'C5015', { '>': ['2', tokens] }],
  ['a text is added to a number', 'C5015', { '>': [{ '+': ['1', tokens] }, 1] }],
  ['a text is multiplied', 'C5015', { '>': [{ '*': ['1', tokens] }, 1] }],
  ['a number is taken from a text', 'C5015', { '>': [{ '-': ['1', tokens] }, 1] }],
  ['a text is divided', 'C5015', { '>': [{ '/': ['1', tokens] }, 1] }],
  ['`+` of one operand makes a number of a text', 'C5011', { '>': [{ '+': [tokens] }, 1] }],
  ['`*` of one operand', 'C5011', { '>': [{ '*': [tokens] }, 1] }],
  ['a number is the same as a text, or not: known when the file loads', 'C5013', { '===': [tokens, '1'] }],
  ['`or` gives whichever operand decides, not true or false', 'C5016', { or: [tokens, { var: 'request.stream' }] }],
  ['`and` gives whichever operand decides', 'C5016', { and: [tokens, { var: 'request.stream' }] }],
  ['`if` tests a value that is neither true nor false', 'C5016', { if: [tokens, true, false] }],
  ['`if` without a last value gives null', 'C5011', { if: [{ var: 'request.stream' }, true] }],
  ['`if` with four operands gives null when nothing holds', 'C5011', { if: [true, true, true, true] }],
  ['`if` of nothing', 'C5011', { if: [] }],
  ['`?:` is another name of `if`', 'C5005', { '?:': [true, true, false] }],
  ['`in` looks inside a text', 'C5006', { in: ['Spring', model] }],
  ['`var` with a value for when it is not set', 'C5004', { '===': [{ var: ['request.model', 'x'] }, 'x'] }],
  ['`var` of a number', 'C5004', { '===': [{ var: 1 }, 'x'] }],
  ['`var` of null', 'C5004', { '===': [{ var: null }, 'x'] }],
  ['`var` of nothing', 'C5004', { '===': [{ var: [] }, 'x'] }],
  ['`var` of the whole data', 'C5002', { '===': [{ var: '' }, 'x'] }],
  ['`var` of a computed path', 'C5004', { '===': [{ var: [{ if: [true, 'a', 'b'] }] }, 'x'] }],
  ['a fact that does not exist', 'C5002', { '===': [{ var: 'a.b' }, 'x'] }],
  ['`some` of a key of its items, which are texts here', 'C5002', { some: [groups, { '>=': [{ var: 'qty' }, 1] }] }],
  ['`all` of a key of its items', 'C5002', { all: [groups, { '>=': [{ var: 'qty' }, 1] }] }],
  ['`none` of a key of its items', 'C5002', { none: [groups, { '>=': [{ var: 'qty' }, 1] }] }],
  ['`missing` hides what is read', 'C5005', { '!': { missing: ['request.model'] } }],
  ['`missing_some` hides what is read', 'C5005', { '!': { missing_some: [1, ['request.model']] } }],
  ['`merge` makes lists that no rule needs', 'C5005', { in: ['a', { merge: [['a'], ['b']] }] }],
  ['`cat` makes texts that no rule needs', 'C5005', { '===': [model, { cat: ['a', 'b'] }] }],
  ['`substr` is what `glob` is for', 'C5005', { '===': [{ substr: [model, 0, 3] }, 'cod'] }],
  ['`map` makes lists that no rule needs', 'C5005', { in: ['a', { map: [groups, item] }] }],
  ['`filter` makes lists that no rule needs', 'C5005', { in: ['a', { filter: [groups, true] }] }],
  ['`reduce` computes where rules decide', 'C5005', { '>': [{ reduce: [groups, item, 0] }, 1] }],
];

describe('refused on purpose, with a diagnostic', () => {
  for (const [why, code, logic] of REFUSED) {
    test(why, () =>
      assert.deepEqual(
        checkCondition(logic).diagnostics.map((found) => found.code),
        [code],
      ),
    );
  }
});
