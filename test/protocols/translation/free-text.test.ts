import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  escapeFreeText,
  FREE_TEXT_END,
  FREE_TEXT_START,
  FreeTextDecoder,
  freeTextArguments,
  freeTextOf,
} from '../../../engine/protocols/translation/features/free-text.ts';
import { anyText } from '../../support/any-text.ts';

const texts = fc.oneof(anyText(), fc.string(), fc.constantFrom('"', '\\', '\n\\"u0041', '🙂\ud83d'));

function cut(text: string, places: readonly number[]): string[] {
  const at = [...new Set(places.map((place) => place % (text.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, index) => text.slice(from, at[index] ?? text.length));
}

function decode(pieces: readonly string[]): string {
  const decoder = new FreeTextDecoder();
  return pieces.map((piece) => decoder.push(piece)).join('') + decoder.end();
}

test('a text comes back from its arguments, wherever they are cut', () => {
  fc.assert(
    fc.property(texts, fc.array(fc.nat(200), { maxLength: 6 }), (text, places) => {
      assert.equal(decode(cut(freeTextArguments(text), places)), text);
      assert.equal(freeTextOf(freeTextArguments(text)), text);
    }),
  );
});

test('pieces of a text make the arguments that the whole text makes', () => {
  fc.assert(
    fc.property(texts, fc.array(fc.nat(200), { maxLength: 6 }), (text, places) => {
      const pieces = cut(text, places).map(escapeFreeText);
      assert.equal(freeTextOf(FREE_TEXT_START + pieces.join('') + FREE_TEXT_END), text);
    }),
  );
});

test('arguments are decoded however the model spaces and escapes them', () => {
  assert.equal(decode([' { "input" :', ' "a\\u00', 'e4\\', '/b\\n" , "x": 1}']), 'aä/b\n');
});

test('text is known before the arguments are complete', () => {
  const decoder = new FreeTextDecoder();
  assert.equal(decoder.push('{"input":"*** Begin'), '*** Begin');
  assert.equal(decoder.push(' Patch\\'), ' Patch');
  assert.equal(decoder.push('nx'), '\nx');
});

test('arguments of another form are read whole, and are the text where they hold none', () => {
  assert.equal(decode(['{"reason":"because of this and of that and of more things than fit","in', 'put":"ab"}']), 'ab');
  assert.equal(decode(['{"in', 'put":7}']), '{"input":7}');
  assert.equal(decode(['plain words']), 'plain words');
  assert.equal(decode([]), '');
});
