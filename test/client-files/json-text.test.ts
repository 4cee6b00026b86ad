import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { BrokenFile, overlay, saysTheSame } from '../../engine/edge/client-files/broken-file.ts';
import { mergeJson } from '../../engine/edge/client-files/json-text.ts';

const VALUES = { KEY: 'new', env: { A: 'x' } };

describe('a JSON file of a user', () => {
  test('that is empty becomes an object', () => {
    for (const text of ['', ' \n', '{}', '{ }']) {
      assert.deepEqual(JSON.parse(mergeJson(text, VALUES)), VALUES);
    }
    assert.equal(mergeJson('', { KEY: 'v' }), '{\n  "KEY": "v"\n}\n');
  });

  test('keeps order, indentation, line breaks and numbers; on one line it stays on one line', () => {
    assert.equal(
      mergeJson('{\r\n\t"2": 1.0,\r\n\t"env": {\r\n\t\t"B": "}"\r\n\t},\r\n\t"1": [1, 2e400]\r\n}', VALUES),
      '{\r\n\t"2": 1.0,\r\n\t"env": {\r\n\t\t"B": "}",\r\n\t\t"A": "x"\r\n\t},\r\n\t"1": [1, 2e400],\r\n\t"KEY": "new"\r\n}',
    );
    const one = mergeJson('{"a":{"b":["}"]},"KEY":"old"}', { KEY: 'new', b: 1 });
    assert.equal(one, '{"a":{"b":["}"]},"KEY":"new", "b": 1}');
    const text = '\uFEFF{ "KEY" : "new" , "env":{"A":"x","B":1} }';
    assert.equal(mergeJson(text, VALUES), text);
  });

  test('that has a member twice is not changed, and loses both where it is to go', () => {
    assert.throws(() => mergeJson('{"KEY":"a","KEY":"b"}', { KEY: 'c' }), BrokenFile);
    assert.equal(mergeJson('{"KEY":"a", "x":1, "KEY":"b"}', {}, [['KEY']]), '{"x":1}');
  });

  test('that is malformed is named with the line, without its text', () => {
    for (const [text, line] of [
      ['{\n"a": 1,\n// hunter2\n"b": 2}', 3],
      ['{"a": "hunter2",}\n', 1],
      ['{\n"a": hunter2\n', 2],
      ['{\n"a": hunter2,\n"b": {\n"c": 1\n}}\n', 2],
      ['{\n"a": "hunter2\n",\n"b": 1}\n', 2],
      ['["hunter2"]', 1],
    ] as const) {
      assert.throws(
        () => mergeJson(text, VALUES),
        (error) => error instanceof BrokenFile && error.line === line && !/hunter2/.test(error.message),
        text,
      );
    }
    assert.throws(() => mergeJson('{"env": "x"}', VALUES), BrokenFile);
    assert.throws(() => mergeJson('{"KEY": {}}', VALUES), BrokenFile);
  });

  test('of any content and format keeps its values and gains the new keys', () => {
    const object = fc.dictionary(fc.oneof(fc.constantFrom('env', 'KEY', 'A', '1'), fc.string()), fc.jsonValue());
    const indent = fc.constantFrom(undefined, 1, 2, 4, '\t');
    fc.assert(
      fc.property(object, indent, fc.boolean(), (content, space, windows) => {
        const text = JSON.stringify(content, null, space);
        const before = windows ? text.replaceAll('\n', '\r\n') : text;
        let wanted: unknown;
        try {
          wanted = overlay(JSON.parse(before), VALUES);
        } catch (error) {
          assert.ok(error instanceof BrokenFile);
          assert.throws(() => mergeJson(before, VALUES), BrokenFile);
          return;
        }
        const after = mergeJson(before, VALUES);
        assert.ok(saysTheSame(JSON.parse(after), wanted), after);
        assert.equal(mergeJson(after, VALUES), after);
      }),
    );
  });
});
