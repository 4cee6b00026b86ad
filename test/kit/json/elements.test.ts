/** Elements of arrays in the bytes of a JSON text, and what goes with them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readInSteps } from '../../../engine/base/kit/json/cooperative.ts';
import { type ElementPath, rangesOfElements } from '../../../engine/base/kit/json/elements.ts';

async function without(text: string, ...paths: ElementPath[]): Promise<string> {
  const bytes = Buffer.from(text);
  let at = 0;
  let left = '';
  for (const { start, end } of await readInSteps(bytes, '', rangesOfElements(bytes, paths))) {
    left += bytes.toString('utf8', at, start);
    at = end;
  }
  return left + bytes.toString('utf8', at);
}

test('an element is removed with one comma, and the rest keeps its spelling and spacing', async () => {
  const text = ' {"é" :[ 1 ,"a,]\\"" , {"b":[true, false]} ],\n"z":1.0} ';
  assert.equal(await without(text, ['é', 0]), ' {"é" :[ "a,]\\"" , {"b":[true, false]} ],\n"z":1.0} ');
  assert.equal(await without(text, ['é', 1]), ' {"é" :[ 1 , {"b":[true, false]} ],\n"z":1.0} ');
  assert.equal(await without(text, ['é', 2]), ' {"é" :[ 1 ,"a,]\\"" ],\n"z":1.0} ');
  assert.equal(await without(text, ['é', 2, 'b', 0], ['é', 0]), ' {"é" :[ "a,]\\"" , {"b":[false]} ],\n"z":1.0} ');
  assert.equal(await without(text, ['é', 0], ['é', 1], ['é', 2]), ' {"é" :[  ],\n"z":1.0} ');
});

test('a path without a target removes nothing', async () => {
  const text = '{"a":[1],"b":{"c":2}}';
  for (const path of [
    ['a', 1],
    ['b', 'c'],
    ['b', 0],
    ['x', 0],
    ['a', 0, 'y', 0],
  ])
    assert.equal(await without(text, path), text);
});

test('the last of duplicate keys counts, as in parsers', async () => {
  assert.equal(await without('{"a":[1,2],"a":[3,4]}', ['a', 0]), '{"a":[1,2],"a":[4]}');
});

/** Every place of an element, at any depth. */
function placesIn(value: unknown, at: ElementPath = []): ElementPath[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const place = [...at, Array.isArray(value) ? Number(key) : key];
    return [...(Array.isArray(value) ? [place] : []), ...placesIn(inner, place)];
  });
}

function removed(value: unknown, paths: readonly string[], at: ElementPath = []): unknown {
  if (Array.isArray(value)) {
    return value
      .map((inner, index) => [inner, [...at, index]] as const)
      .filter(([, place]) => !paths.includes(JSON.stringify(place)))
      .map(([inner, place]) => removed(inner, paths, place));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, removed(inner, paths, [...at, key])]));
}

test('the rest is JSON without these elements, for any text', async () => {
  const texts = fc.tuple(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(undefined, 1, '\t'));
  await fc.assert(
    fc.asyncProperty(texts, fc.infiniteStream(fc.boolean()), async ([value, space], takes) => {
      const text = JSON.stringify(value, null, space);
      const parsed: unknown = JSON.parse(text);
      const paths = placesIn(parsed).filter(() => takes.next().value);
      const keys = paths.map((path) => JSON.stringify(path));
      assert.deepEqual(JSON.parse(await without(text, ...paths)), removed(parsed, keys));
    }),
  );
});
