import assert from 'node:assert/strict';
import { validateHeaderValue } from 'node:http';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../engine/contract/errors.ts';
import { headerText } from '../../engine/protocols/compat-errors.ts';
import { definitionOf } from '../../engine/protocols/definitions.ts';
import { anyText } from '../support/any-text.ts';

const COMPAT = ['chat', 'responses'] as const;
const refused = (more: ConstructorParameters<typeof StageError>[2] = {}) =>
  new StageError('spend_limit_exceeded', 'Nothing is left. Ask Bob.', more);

describe('a refusal of a limit to clients of chat completions and Responses', () => {
  test('has no text in resets_at, whatever a stage put there', () => {
    for (const protocol of COMPAT) {
      const resetOf = (resets_at: string | number | null) =>
        JSON.parse(definitionOf(protocol).errors.body(refused({ details: { resets_at } }), 'r')).error;
      assert.equal(resetOf('2026-03-11T00:00:00.001Z').resets_at, 1773187201);
      assert.equal(resetOf('2026-03-11T00:00:00.001Z').reset_time, '2026-03-11T00:00:00.001Z');
      assert.equal(resetOf('tomorrow').resets_at, null);
      assert.equal(resetOf('tomorrow').reset_time, 'tomorrow');
      assert.equal(resetOf(1773187200.5).resets_at, 1773187201);
      assert.equal(resetOf(null).resets_at, null);
    }
    assert.equal(
      JSON.parse(definitionOf('messages').errors.body(refused({ details: { resets_at: '2026-03-11T00:00:00Z' } }), 'r'))
        .error.resets_at,
      '2026-03-11T00:00:00Z',
    );
  });

  test('asks nobody to wait when waiting is no help: a client that tries again all the same does it at once', () => {
    for (const protocol of COMPAT) {
      const headers = { 'retry-after': '42023', 'x-should-retry': 'false' };
      assert.equal(definitionOf(protocol).errors.headers(refused({ headers }))['retry-after'], undefined);
      for (const status of [402, 403]) {
        assert.equal(definitionOf(protocol).errors.headers(refused({ headers, status }))['retry-after'], '0');
      }
      assert.equal(definitionOf('messages').errors.headers(refused({ headers }))['retry-after'], '42023');
    }
  });

  test('and any other error of ours asks for a minute at most', () => {
    const wait = (seconds: string) =>
      definitionOf('responses').errors.headers(
        new StageError('upstream_invalid', 'x', { headers: { 'retry-after': seconds } }),
      )['retry-after'];
    assert.deepEqual(['7', '60', '61', '42023', 'Wed, 21 Oct 2026 07:28:00 GMT'].map(wait), [
      '7',
      '60',
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('carries its sentence in the header that the profile names, and only there', () => {
    assert.equal(definitionOf('responses').errors.headers(refused(), 'x-words')['x-words'], 'Nothing is left. Ask Bob');
    assert.equal(definitionOf('messages').errors.headers(refused(), 'x-words')['x-words'], undefined);
    const soon = new StageError('rate_limit_exceeded', 'Too many.', { headers: { 'retry-after': '1' } });
    assert.equal(definitionOf('responses').errors.headers(soon, 'x-words')['x-words'], undefined);
    const other = new StageError('model_not_found', 'No such model.');
    assert.equal(definitionOf('responses').errors.headers(other, 'x-words')['x-words'], undefined);
  });
});

test('any sentence fits into a header: printable ASCII on one line, and not long', () => {
  const part = fc.oneof(anyText({ maxLength: 60 }), fc.string({ unit: 'grapheme' }));
  const anything = fc.tuple(part, fc.nat(40)).map(([text, times]) => text.repeat(times));
  fc.assert(
    fc.property(anything, (text) => {
      const value = headerText(text);
      validateHeaderValue('x-words', value);
      assert.match(value, /^(?:[!-~](?:[ -~]*[!-~])?)?$/);
      assert.ok(value.length <= 600);
    }),
  );
  assert.equal(headerText('Größe:\r\nÀ la\tcarte — 5 €'), 'Gro?e: A la carte ? 5 ?');
});
