/** Outlines of JSON: small whatever the text, and with every number near the top. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { outlineOf } from '../../../engine/base/kit/json/outline.ts';

/** What an outline of six levels leaves of a value. */
function expected(value: unknown, level = 1): unknown {
  if (typeof value === 'string') return JSON.stringify(value).length - 1 > 1024 ? '' : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return level > 6 ? [] : value.map((item) => expected(item, level + 1));
  if (level > 6) return {};
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expected(item, level + 1)]));
}

describe('an outline', () => {
  it('has all numbers and short strings of six levels, and empty values in place of the rest', () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: fc.constantFrom('a', '"', '\\'), minLength: 400, maxLength: 1500 }),
    );
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 9 },
        fc.integer(),
        text,
        fc.array(tie('tree')),
        fc.dictionary(fc.string(), tie('tree')),
      ),
    }));
    fc.assert(
      fc.property(tree, fc.constantFrom(undefined, 1), (value, space) => {
        const shown = outlineOf(JSON.stringify(value, null, space));
        assert.deepEqual(JSON.parse(shown!), JSON.parse(JSON.stringify(expected(value))));
      }),
    );
  });

  it('keeps the totals where there are very many values, and is none where even those are too many', () => {
    const many = (text: string) => JSON.parse(outlineOf(text) ?? 'null');
    const numbers = `[${'1,'.repeat(200_000)}1]`;
    assert.deepEqual(many(`{"a":{"b":{"c":${numbers}}},"usage":{"details":{"n":5}}}`), {
      a: { b: { c: [] } },
      usage: { details: { n: 5 } },
    });
    assert.deepEqual(many(`{"b":[1],"a":${numbers},"usage":{"n":5}}`), { b: [1], a: [], usage: { n: 5 } });
    assert.equal(many(`{"a":1${',"a":1'.repeat(60_000)}}`), null);
  });

  it('is missing for malformed JSON', () => {
    for (const text of ['', '{"a":[', '{"a":"', 'x\\', '{"a":[[[[[[[[1']) {
      assert.throws(() => JSON.parse(outlineOf(text) ?? ''), SyntaxError, text);
    }
  });
});
