import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { compileCondition } from '../../engine/base/rules/compile.ts';
import { factView } from '../../engine/base/rules/fact-view.ts';
import { simplify } from '../../engine/base/rules/simplify.ts';

const IN_RESEARCH = { in: ['research', { var: 'principal.groups' }] };
const LARGE = { '>': [{ var: 'request.body_bytes' }, 1000] };
const research = new Map<string, unknown>([['principal.groups', ['research']]]);
const interns = new Map<string, unknown>([['principal.groups', ['interns']]]);

describe('a condition with some known facts', () => {
  it('is decided if they decide it', () => {
    assert.equal(simplify(IN_RESEARCH, research), true);
    assert.equal(simplify(IN_RESEARCH, interns), false);
    assert.equal(simplify({ and: [LARGE, IN_RESEARCH] }, interns), false);
    assert.equal(simplify({ or: [LARGE, IN_RESEARCH] }, research), true);
    assert.equal(simplify(true, new Map()), true);
  });

  it('keeps only the undecided parts', () => {
    assert.deepEqual(simplify({ and: [IN_RESEARCH, LARGE] }, research), LARGE);
    assert.deepEqual(simplify({ or: [IN_RESEARCH, LARGE] }, interns), LARGE);
    assert.deepEqual(simplify({ '!': [{ and: [IN_RESEARCH, LARGE] }] }, research), { '!': [LARGE] });
    assert.deepEqual(simplify(LARGE, research), LARGE);
    assert.deepEqual(simplify({ if: [IN_RESEARCH, LARGE, false] }, research), LARGE);
    assert.deepEqual(simplify({ if: [LARGE, false, IN_RESEARCH] }, research), { '!': [LARGE] });
  });

  it('evaluates the items of a known list', () => {
    const some = { some: [{ var: 'principal.groups' }, { '===': [{ var: '' }, 'research'] }] };
    assert.equal(simplify(some, research), true);
    assert.deepEqual(simplify(some, new Map()), some);
  });
});

const STREAMS = { '!!': [{ var: 'request.stream' }] };
const IS_M = { '===': [{ var: 'request.model' }, 'm'] };

const { condition } = fc.letrec<{ condition: unknown }>((tie) => {
  const parts = (minLength: number, maxLength = minLength) => fc.array(tie('condition'), { minLength, maxLength });
  return {
    condition: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.oneof(fc.boolean(), fc.constantFrom(IN_RESEARCH, LARGE, STREAMS, IS_M)),
      parts(1, 3).map((and) => ({ and })),
      parts(1, 3).map((or) => ({ or })),
      parts(1).map((inner) => ({ '!': inner })),
      fc.oneof(parts(3), parts(5)).map((choice) => ({ if: choice })),
    ),
  };
});

it('keeps its meaning, whatever the other facts are', () => {
  const values = {
    'principal.groups': fc.constantFrom(['research'], ['interns'], []),
    'request.body_bytes': fc.constantFrom(10, 5000),
    'request.stream': fc.boolean(),
    'request.model': fc.constantFrom('m', 'n'),
  };
  const paths = Object.keys(values);
  fc.assert(
    fc.property(condition, fc.record(values), fc.subarray(paths), (logic, facts, known_paths) => {
      const known = new Map(known_paths.map((path) => [path, facts[path as keyof typeof facts] as unknown]));
      const view = factView(Object.entries(facts));
      assert.equal(compileCondition(simplify(logic, known))(view), compileCondition(logic)(view));
    }),
  );
});
