/** What errors of real servers mean. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { meaningOf, PHRASES } from '../../engine/protocols/error-meanings.ts';
import { readError } from '../../engine/protocols/read-error.ts';
import { FALSE_FRIENDS, FULL_CONTEXTS, OTHER_MEANINGS, REASONS } from './upstream-errors.ts';

const meaning = ({ status, body }: { readonly status: number; readonly body: object | string }) =>
  meaningOf(readError(body), status)?.meaning;

describe('a conversation that is too long is known from the words of', () => {
  for (const row of FULL_CONTEXTS) it(row.server, () => assert.equal(meaning(row), 'context_full'));
});

describe('no conversation that is too long is', () => {
  for (const row of FALSE_FRIENDS) it(row.server, () => assert.equal(meaning(row), row.means));
});

describe('another meaning is known from the words of', () => {
  for (const row of OTHER_MEANINGS) it(`${row.server}: ${row.means}`, () => assert.equal(meaning(row), row.means));
});

describe('the reason is given that stands in an error of', () => {
  for (const { server, body, says } of [...FULL_CONTEXTS, ...FALSE_FRIENDS, ...OTHER_MEANINGS, ...REASONS])
    it(server, () => {
      const { message } = readError(body);
      assert.ok(message.includes(says), message);
      // As text it says the same.
      assert.equal(readError(typeof body === 'string' ? body : JSON.stringify(body)).message, message);
    });
});

describe('the table of meanings', () => {
  it('has a body of a server for each phrase', () => {
    const texts = [...FULL_CONTEXTS, ...OTHER_MEANINGS, ...FALSE_FRIENDS].flatMap(({ body }) => readError(body).texts);
    const unused = PHRASES.filter(([, , phrase]) => !texts.some((text) => phrase.test(text)));
    assert.deepEqual(
      unused.map(([, server, phrase]) => `${server}: ${phrase}`),
      [],
    );
  });
});

describe('any text and any JSON', () => {
  const cutWell = (text: string) => text.length <= 8001 && (text.length < 1001 || text.isWellFormed());

  it('is read as an error without a failure, and a long reason is cut between two characters', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.jsonValue(), fc.string({ unit: 'grapheme' }), fc.json()),
        fc.nat(3000),
        (value, length) => {
          assert.ok(cutWell(readError(value).message));
          assert.ok(cutWell(readError({ detail: `x${'😀'.repeat(length)}` }).message));
          assert.ok(cutWell(readError({ error: { message: `${'😀'.repeat(length * 3)}` } }).message));
        },
      ),
    );
  });

  it('ends with an ellipsis where it was cut', () => {
    assert.match(readError({ object: 'error', message: 'y'.repeat(1001) }).message, /^y{1000}…$/);
    assert.match(readError('z'.repeat(70_000)).message, /^z{1000}…$/);
    assert.equal(readError({ detail: 'y'.repeat(1000) }).message, 'y'.repeat(1000));
  });

  it('nested without end gives what it says or nothing, and takes no longer for it', () => {
    const deep = (text: string, levels: number): string =>
      levels === 0 ? text : JSON.stringify({ error: deep(text, levels - 1) });
    assert.equal(readError(deep('inside', 4)).message, 'inside');
    readError(`${'{"error":'.repeat(30_000)}"x"${'}'.repeat(30_000)}`);
    readError(`${'<message>'.repeat(20_000)}`);
    meaningOf(readError(`${'exceeds '.repeat(8000)}`), 400);
  });
});
