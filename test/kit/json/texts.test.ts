/** Strings in the bytes of a JSON text, by the keys above them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { WantedTexts } from '../../../engine/base/contract/request-body.ts';
import { readInSteps } from '../../../engine/base/kit/json/cooperative.ts';
import { textsIn } from '../../../engine/base/kit/json/texts.ts';
import { times } from '../../support/times.ts';

const keys = new Map<string, NonNullable<ReturnType<WantedTexts<string>['keys']['get']>>>();
const block: WantedTexts<string> = { keys };
keys.set('é', { found: 'e' }).set('in', { within: block }).set('both', { found: 'both', within: block });

async function found(text: string) {
  const bytes = Buffer.from(text);
  const texts = await readInSteps(bytes, '', textsIn(bytes, block));
  return texts.map(({ start, end, ...rest }) => ({ ...rest, spelt: bytes.toString('utf8', start, end) }));
}

test('strings are found at any depth where they are looked for, however they are spelt', async () => {
  const text =
    ' {"other": {"é":"x"}, "\\u00e9" : "a\\"b" ,"in":[ {"é":1,"x":"é"}, [{"é" : "\\u0031"}], "é" ],"both":{"é":["z"],"both":"c"}}';
  assert.deepEqual(await found(text), [
    { found: 'e', text: 'a"b', top: 'é', spelt: '"a\\"b"' },
    { found: 'e', text: '1', top: 'in', spelt: '"\\u0031"' },
    { found: 'both', text: 'c', top: 'both', spelt: '"c"' },
  ]);
});

test('finds both values of a duplicate key, and no non-strings', async () => {
  const spelt = async (text: string) => (await found(text)).map(({ text }) => text);
  assert.deepEqual(await spelt('{"é":"a","é":"b","é":{"é":"c"}}'), ['a', 'b']);
  for (const none of ['"é"', '7', '[]', '{}', '{"é":null,"in":"é","both":[1,"x"]}'])
    assert.deepEqual(await spelt(none), []);
});

/** The same by the parsed value. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const wanted = keys.get(key);
    if (wanted === undefined) return [];
    if (typeof inner === 'string') return wanted.found === undefined ? [] : [inner];
    return wanted.within === undefined ? [] : textsOf(inner);
  });
}

test('every text has those that its parsed value has', async () => {
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 6 },
      fc.string(),
      fc.constantFrom(null, 1, true, '\\', '"', '{"é":"x"}'),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('é', 'in', 'both', 'x', '"'), tie('value')),
    ),
  }));
  await fc.assert(
    fc.asyncProperty(value, fc.constantFrom(undefined, 1, '\t'), async (made, indent) => {
      const texts = (await found(JSON.stringify(made, null, indent))).map(({ text }) => text);
      assert.deepEqual(texts, textsOf(made));
    }),
    { numRuns: times(100) },
  );
});
