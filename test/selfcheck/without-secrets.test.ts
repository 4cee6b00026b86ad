import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { CheckResult } from '../../engine/contract/checks.ts';
import { withoutSecrets } from '../../engine/selfcheck/without-secrets.ts';
import { times } from '../support/times.ts';

const RESULT: CheckResult = { id: 'models.list', title: 'A list', verdict: 'failed', found: '', duration_ms: 1 };

test('no twelve characters of a token in a row are in a result, wherever it was put and cut', () => {
  const token = fc.string({ minLength: 1, maxLength: 60, unit: 'grapheme-ascii' });
  const cut = fc.record({ token, before: fc.string(), after: fc.string(), from: fc.nat(40), to: fc.nat(60) });
  fc.assert(
    fc.property(cut, ({ token, before, after, from, to }) => {
      const found = before + token.slice(from, to) + after + token;
      const clean = withoutSecrets({ ...RESULT, found, came: found, details: [found] }, [token]);
      for (const text of [clean.found, clean.came!, ...clean.details!]) {
        if (token.length < 12) assert.ok(!text.replaceAll('***', '').includes(token) || '*'.includes(token));
        for (let at = 0; at + 12 <= token.length; at += 1) assert.ok(!text.includes(token.slice(at, at + 12)), text);
      }
    }),
    { numRuns: times(200) },
  );
});

test('a token is found where it is written for an address or for JSON', () => {
  const token = 'a"b/c+d=e\\f g-0123';
  const found = `${encodeURIComponent(token)} ${JSON.stringify(token)}`;
  assert.equal(withoutSecrets({ ...RESULT, found }, [token]).found, '*** "***"');
});

test('all else of a result stays as it is', () => {
  const result: CheckResult = { ...RESULT, found: 'status 200', sent: 'GET /', details: ['one'], remedy: 'none' };
  assert.deepEqual(withoutSecrets(result, ['gw_0123456789abcdef', 'another_token_of_somebody']), result);
});

test('a token is found in small and in large letters, as names of hosts and media types have it', () => {
  const token = 'gw_AbCdEfGhIjKl';
  const found = `text/${token.toLowerCase()} \u0130 ${token.toUpperCase()}.`;
  assert.equal(withoutSecrets({ ...RESULT, found }, [token]).found, 'text/*** \u0130 ***.');
});
