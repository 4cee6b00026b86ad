import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compileCondition } from '../../engine/base/rules/compile.ts';
import { truthy } from '../../engine/base/rules/logic.ts';
import { type Trace, traceCondition } from '../../engine/base/rules/trace.ts';
import { times } from '../support/times.ts';
import { conditions, some_facts } from './support/conditions.ts';

const FACTS = { request: { model: 'coder-1', max_tokens: 10 }, principal: { groups: ['a', 'b', 'c'] } };

const yes = { '===': [{ var: 'request.model' }, 'coder-1'] };
const no = { '===': [{ var: 'request.model' }, 'chat-1'] };

const reached = (logic: unknown) => traceCondition(logic, FACTS).operands.map(({ evaluated }) => evaluated);

describe('a trace', () => {
  test('keeps the value of each operand', () => {
    const { operands, ...whole } = traceCondition({ '>': [{ var: 'request.max_tokens' }, 5] }, FACTS);
    const values = [whole, ...operands].map(({ operator, value }) => `${operator} ${value}`);
    assert.deepEqual(values, ['> true', 'var 10', 'undefined 5']);
  });

  test('stops where `and` and `or` are decided', () => {
    assert.deepEqual(reached({ and: [yes, no, yes] }), [true, true, false]);
    assert.deepEqual(reached({ or: [no, yes, no] }), [true, true, false]);
    assert.deepEqual(reached({ and: [yes, yes] }), [true, true]);
  });

  test('follows one branch of `if`', () => {
    assert.deepEqual(reached({ if: [yes, true, false] }), [true, true, false]);
    assert.deepEqual(reached({ if: [no, true, no, true, false] }), [true, false, true, false, true]);
  });

  test('shows the items that were evaluated', () => {
    const some = traceCondition({ some: [{ var: 'principal.groups' }, { '===': [{ var: '' }, 'b'] }] }, FACTS);
    const items = some.operands.slice(1).map(({ value, operands }) => `${operands[0]?.value} ${value}`);
    assert.deepEqual(items, ['a false', 'b true']);
    assert.deepEqual(reached({ some: [{ var: 'no.list' }, { '!!': { var: '' } }] }), [true, false]);
  });

  test('has the result of the compiled condition', () => {
    fc.assert(
      fc.property(conditions, some_facts, (condition, facts) => {
        assert.equal(truthy(traceCondition(condition, facts).value), compileCondition(condition)(facts));
      }),
      { numRuns: times(75) },
    );
  });

  test('marks only parts without influence as not reached', () => {
    const without = ({ operator, logic, operands, evaluated }: Trace): unknown => {
      if (!evaluated) return 'never looked at';
      if (operands.length === 0 || operator === undefined) return logic;
      if (operator === 'some' || operator === 'all' || operator === 'none') return logic;
      return { [operator]: operands.map(without) };
    };
    fc.assert(
      fc.property(conditions, some_facts, (condition, facts) => {
        const traced = traceCondition(condition, facts);
        assert.equal(compileCondition(without(traced))(facts), truthy(traced.value));
      }),
      { numRuns: times(75) },
    );
  });
});
