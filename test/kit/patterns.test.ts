import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { matchesGlob } from '../../engine/base/kit/glob.ts';
import { isPathPattern, pathFinder } from '../../engine/base/kit/path-patterns.ts';
import { times } from '../support/times.ts';

describe('the paths of pipelines', () => {
  const find = pathFinder(['/v1/models', '/v1/models/*', '/v1/models/special', '/v1/models/deep/*', '/']);

  test('match exactly, and a pattern everything below it', () => {
    assert.equal(find('/v1/models'), '/v1/models');
    assert.equal(find('/v1/models/a'), '/v1/models/*');
    assert.equal(find('/v1/models/a/b%2Fc'), '/v1/models/*');
    assert.equal(find('/'), '/');
  });

  test('an exact path wins over a pattern, and a longer pattern over a shorter', () => {
    assert.equal(find('/v1/models/special'), '/v1/models/special');
    assert.equal(find('/v1/models/deep/x'), '/v1/models/deep/*');
    assert.equal(find('/v1/models/deep'), '/v1/models/*');
  });

  test('a pattern does not serve its own beginning, nor a similar prefix', () => {
    for (const path of ['/v1/models/', '/v1/modelsx', '/v1/model', '', '/v1', 'v1/models/a', '/V1/models/a']) {
      assert.equal(find(path), undefined, path);
    }
  });

  test('a pattern leads to no place above it, however the way there is written', () => {
    const up = ['..', '.', '%2e%2e', '.%2E', '..;x=y', '%252e%252e', '..;', '..#x', '..%23', '.%2e%253f'];
    for (const step of up) {
      for (const path of [`a/${step}/b`, `a%2f${step}%2fb`, `a\\${step}\\b`, `a%252F${step}/b`, step, `a/${step}`]) {
        assert.equal(find(`/v1/models/${path}`), undefined, path);
      }
    }
    for (const path of ['a..b', '...', '.a', 'a.', 'a;..', 'v1.2/x', '%2e%2e%2e', 'a/..b']) {
      assert.equal(find(`/v1/models/${path}`), '/v1/models/*', path);
    }
  });

  test('for any request, the result is one of the paths and matches', () => {
    const paths = ['/a', '/a/*', '/a/b/*', '/b'];
    const findAny = pathFinder(paths);
    const segment = fc.constantFrom('a', 'b', '*', '..', '');
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 5 }), (segments) => {
        const path = `/${segments.join('/')}`;
        const found = findAny(path);
        if (found === undefined || found === path) return;
        assert.ok(paths.includes(found) && isPathPattern(found));
        assert.ok(path.startsWith(found.slice(0, -1)) && path.length >= found.length);
      }),
    );
  });
});

test('a glob agrees with the regular expression that means the same', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 8 });
  const glob = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), maxLength: 6 });
  fc.assert(
    fc.property(glob, text, (pattern, candidate) => {
      const expression = new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '.*')}$`);
      assert.equal(matchesGlob(pattern, candidate), expression.test(candidate));
    }),
    { numRuns: times(500) },
  );
});

test('many stars cost no more than reading the text once per part', () => {
  const text = 'a'.repeat(20_000);
  assert.equal(matchesGlob(`${'*a'.repeat(2_000)}*b`, text), false);
  assert.equal(matchesGlob(`${'a*'.repeat(2_000)}`, text), true);
  assert.equal(matchesGlob('*'.repeat(5_000), text), true);
});
