import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compareBodies } from '../../engine/edge/selfcheck/compare-bodies.ts';
import { times } from '../support/times.ts';

const compare = (sent: string, came: string) => compareBodies(sent, Buffer.from(came));
const differences = (sent: string, came: string) =>
  compare(sent, came).differences.map(({ path, is }) => `${path} ${is}`);

describe('comparing a body with the received one', () => {
  for (const [sent, came, expected] of [
    ['{"a":{"b":[1,{"c":"x"}]}}', '{"a":{"b":[1,{}]}}', 'a.b[1].c is missing'],
    ['{"a":1}', '{"a":1,"api_key":"abc"}', 'api_key was added'],
    ['{"s":[1,2]}', '{"s":"12"}', 's is "12" instead of a list of 2'],
    ['{"s":[1,2]}', '{"s":[1]}', 's has 1 entries instead of 2'],
    ['{"n":12345678901234567891}', '{"n":{}}', 'n is an object instead of 12345678901234567891'],
    ['{"n":true}', '{"n":null}', 'n is null instead of true'],
  ] as const) {
    test(`reports that ${expected}`, () => assert.deepEqual(differences(sent, came), [expected]));
  }

  test('repeats no text that was put in the place of another', () => {
    const secret = 'sk-4f9a8b7c6d5e4f3a2b1c';
    const prompt = 'You work for Example Ltd. and never tell';
    for (const text of [secret, prompt]) {
      const [found] = differences('{"a":"x"}', JSON.stringify({ a: text }));
      assert.equal(found, `a is a text of ${text.length} characters instead of "x"`);
    }
  });

  test('is not a JSON object, where none arrived', () => {
    for (const came of ['', '<html>', '[1]', '"a"', '['.repeat(5000)])
      assert.deepEqual(differences('{"a":1}', came), ['the body is not a JSON object']);
  });

  test('has no difference for whatever was only written again, and one for whatever was changed', () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue());
    fc.assert(
      fc.property(
        object,
        fc.string().filter((key) => key !== 'model'),
        (value, key) => {
          const sent = JSON.stringify(value);
          assert.deepEqual(differences(sent, JSON.stringify(value, null, 2)), []);
          if (!Object.hasOwn(value, key))
            assert.equal(
              differences(
                sent,
                JSON.stringify(Object.defineProperty({ ...value }, key, { value: 1, enumerable: true })),
              ).length,
              1,
            );
        },
      ),
      { numRuns: times(100) },
    );
  });
});
