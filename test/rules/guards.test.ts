import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compileCondition } from '../../engine/base/rules/compile.ts';
import { coverAll, excludes, implies } from '../../engine/base/rules/guards.ts';
import { times } from '../support/times.ts';

const is = (model: string) => ({ '===': [{ var: 'request.model' }, model] });
const oneOf = (...models: string[]) => ({ in: [{ var: 'request.model' }, models] });
const streams = { var: 'request.stream' };

describe('a guard implies another', () => {
  test('that is the same, or missing, or one of its parts', () => {
    assert.ok(implies(is('a'), is('a')));
    assert.ok(implies(is('a'), undefined));
    assert.ok(implies({ and: [streams, is('a')] }, is('a')));
    assert.ok(implies({ and: [streams, is('a')] }, { and: [is('a'), streams] }));
    assert.ok(implies(is('a'), { or: [streams, is('a')] }));
  });
});

describe('guards exclude each other', () => {
  test('when one is the negation of the other, or compares the same fact with another value', () => {
    assert.ok(excludes(is('a'), { '!': [is('a')] }));
    assert.ok(excludes(is('a'), is('b')));
    assert.ok(excludes(is('a'), oneOf('b', 'c')));
    assert.ok(excludes(is('a'), { '!==': [{ var: 'request.model' }, 'a'] }));
    assert.ok(excludes({ and: [streams, is('a')] }, { or: [is('b'), is('c')] }));
  });

  test('as the shares of a split do, and a condition on many facts and its negation', () => {
    const share = { '<': [{ bucket: [{ var: 'principal.id' }, 'new-model', 100] }, 10] };
    const many = { and: Array.from({ length: 12 }, (_, i) => ({ glob: [{ var: 'request.path' }, `/v${i}/*`] })) };
    for (const condition of [share, many]) {
      assert.ok(excludes(condition, { '!': [condition] }));
      assert.ok(coverAll({ '!': [condition] }, condition));
    }
  });

  test('but not when both may be true', () => {
    assert.ok(!excludes(undefined, is('a')));
    const path = (pattern: string) => ({ glob: [{ var: 'request.path' }, pattern] });
    assert.ok(!excludes(path('/v1.a'), { '!': [path('/v1/a')] }));
    assert.ok(!excludes(is('b'), { in: [{ var: 'request.model' }, [{ var: 'principal.team' }]] }));
  });
});

test('results about two guards are true for every request', () => {
  const atom = fc.oneof(
    fc.constantFrom('a', 'b', 'c').map(is),
    fc.constantFrom('a', 'b', 'c').map((model) => ({ '!==': [{ var: 'request.model' }, model] })),
    fc.uniqueArray(fc.constantFrom('a', 'b', 'c'), { minLength: 1 }).map((models) => oneOf(...models)),
    fc.constant(streams),
  );
  const { guard } = fc.letrec<{ guard: unknown }>((tie) => ({
    guard: fc.oneof(
      { maxDepth: 3 },
      atom,
      tie('guard').map((inner) => ({ '!': [inner] })),
      fc.tuple(tie('guard'), tie('guard')).map((both) => ({ and: both })),
      fc.tuple(tie('guard'), tie('guard')).map((both) => ({ or: both })),
    ),
  }));
  const requests = ['a', 'b', 'c', 'd'].flatMap((model) =>
    [true, false].map((stream) => ({ request: { model, stream } })),
  );
  fc.assert(
    fc.property(guard, guard, (left, right) => {
      const [one, other] = [compileCondition(left), compileCondition(right)];
      for (const facts of requests) {
        if (implies(left, right)) assert.ok(!one(facts) || other(facts));
        if (excludes(left, right)) assert.ok(!(one(facts) && other(facts)));
        if (coverAll(left, right)) assert.ok(one(facts) || other(facts));
      }
    }),
    { numRuns: times(50) },
  );
});
