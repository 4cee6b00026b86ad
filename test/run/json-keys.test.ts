import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { findTopLevelKeys } from '../../engine/run/json-keys.ts';

const keys = ['model', 'max_tokens', 'stream', 'x'];

/** JSON text with white space wherever the grammar allows some. */
function spaced(text: string, pad: string): string {
  let out = '';
  let inside = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!;
    if (char === '"' && !(inside && escapedAt(text, i))) inside = !inside;
    out += inside || char === '"' ? char : /[{}[\]:,]/.test(char) ? pad + char + pad : char;
  }
  return out;
}

function escapedAt(text: string, at: number): boolean {
  let slashes = 0;
  while (text[at - 1 - slashes] === '\\') slashes++;
  return slashes % 2 === 1;
}

test('each range holds exactly the value that a parser gives the key, whatever surrounds it', () => {
  const long = fc.string({ minLength: 50, maxLength: 200, unit: fc.constantFrom('a', '"', '\\', 'é') });
  const object = fc.dictionary(
    fc.oneof(fc.constantFrom(...keys), fc.string()),
    fc.oneof(fc.jsonValue(), long, fc.array(long)),
  );
  fc.assert(
    fc.property(object, fc.constantFrom('', ' ', '\n\t', ' \r\n '), (value, pad) => {
      const bytes = Buffer.from(spaced(JSON.stringify(value), pad));
      const parsed = JSON.parse(bytes.toString()) as Record<string, unknown>;
      for (const [key, ranges] of findTopLevelKeys(bytes, keys)) {
        assert.equal(ranges.length, Object.hasOwn(parsed, key) ? 1 : 0);
        for (const { start, end } of ranges) {
          const text = bytes.toString('utf8', start, end);
          assert.equal(text, text.trim());
          assert.deepEqual(JSON.parse(text), parsed[key]);
        }
      }
    }),
  );
});

test('a key written twice, or escaped, or nested deeper, is told apart', () => {
  const bytes = Buffer.from('{"model":"a","x":{"model":"deep"},"mod\\u0065l":"b", "m":"model" }');
  const ranges = findTopLevelKeys(bytes, ['model']).get('model')!;
  assert.deepEqual(
    ranges.map(({ start, end }) => bytes.toString('utf8', start, end)),
    ['"a"', '"b"'],
  );
});

test('text that is no object, or not JSON at all, ends the scan', () => {
  for (const text of ['', '[1]', '"model"', '{"model', '{"model":"a', '{"a":1 "model":2', '{"a":[[[', '{,}']) {
    assert.doesNotThrow(() => findTopLevelKeys(Buffer.from(text), keys));
  }
});
