import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StartError } from '../../engine/base/contract/start-error.ts';
import { ADMIN_OPERATIONS } from '../../engine/edge/admin/description.ts';
import { describeCode } from '../../engine/edge/cli/sign-in.ts';
import { readDeviceCode, readTokens, shapeAnswer } from '../../engine/edge/client/answers.ts';
import { anyAddress, anyText } from '../support/any-text.ts';
import { times } from '../support/times.ts';

const BASE_URL = 'https://gateway.example.com';

/** Values a server may send in place of the right one. */
const odd = fc.oneof(
  anyText({ maxLength: 600 }),
  fc.double(),
  fc.constant(null),
  fc.jsonValue(),
  anyAddress,
  anyText().map((text) => `${BASE_URL}/${text}`),
);

const response = (body: unknown) => ({ status: 200, kind: 'json', body, retry_after_seconds: undefined }) as const;

function read<T>(reader: () => T): T | undefined {
  try {
    return reader();
  } catch (error) {
    assert.ok(error instanceof StartError, String(error));
    return undefined;
  }
}

test('any device code response of a gateway is rejected, or safe to print and to wait for', () => {
  const body = fc.record({
    device_code: fc.oneof(fc.constant('code'), odd),
    user_code: fc.oneof(fc.constant('WDJB-MJHT'), odd),
    verification_uri: fc.oneof(fc.constant(`${BASE_URL}/device`), odd),
    verification_uri_complete: fc.oneof(fc.constant(undefined), odd),
    expires_in: fc.oneof(fc.constant(600), odd),
    interval: odd,
    login_notice: odd,
  });
  fc.assert(
    fc.property(body, (sent) => {
      const code = read(() => readDeviceCode(response(sent), BASE_URL));
      if (code === undefined) return;
      assert.ok(code.interval_seconds >= 1 && code.interval_seconds <= 60);
      assert.ok(code.lifetime_seconds >= 1 && code.lifetime_seconds <= 1800);
      assert.equal(new URL(code.verification_uri_complete ?? code.verification_uri).origin, BASE_URL);
      const text = describeCode(code, { base_url: BASE_URL, opens: false, bold: false });
      assert.doesNotMatch(text, /[^\P{Cc}\n]/u);
      assert.doesNotMatch(text, /[\u200b\u2028-\u202e\u2066-\u2069\ufeff]/);
    }),
    { numRuns: times(15) },
  );
});

test('any token response of a gateway is rejected, or usable in a header and on one line', () => {
  const body = fc.record({
    access_token: fc.oneof(fc.constant('token'), odd),
    token_type: fc.oneof(fc.constantFrom('Bearer', 'bearer', undefined), odd),
    expires_in: fc.oneof(fc.constant(3600), odd),
    refresh_token: fc.oneof(fc.constantFrom('refresh', undefined), odd),
    email: odd,
  });
  fc.assert(
    fc.property(body, (sent) => {
      const tokens = read(() => readTokens('sign-in', response(sent)));
      if (tokens === undefined) return;
      for (const token of [tokens.access_token, tokens.refresh_token ?? 'none']) assert.match(token, /^[\x21-\x7e]+$/);
      assert.doesNotMatch(tokens.email ?? '', /\p{Cc}/u);
      assert.ok(!Number.isNaN(new Date(tokens.lifetime_seconds * 1000).getTime()));
    }),
    { numRuns: times(15) },
  );
});

const answerOf = (name: string) => ADMIN_OPERATIONS.get(name)!.answer;

test('a response gets its documented form: missing fields are empty, unknown ones removed', () => {
  const shaped = shapeAnswer(answerOf('revokeToken'), {
    ...{ id: 'tok_1', user: 'a\u001b[2J', name: 7, state: 'later', team: 3, expires_at: null, more: 1 },
    also_revoked: ['tok_2', null],
  });
  assert.deepEqual(shaped, {
    ...{ id: 'tok_1', prefix: '', user: 'a\ufffd[2J', group: '', name: '', team: null, project: null },
    ...{ created_at: '', created_by: '', self_service: false, expires_at: null, last_used_at: null, revoked_at: null },
    ...{ replaced_by: null, state: 'later', suspends_at: null, also_revoked: ['tok_2', ''] },
  });
});

test('parts that need not be there stay away, and maps keep their keys', () => {
  assert.ok(!('replaces' in (shapeAnswer(answerOf('createToken'), {}) as object)));
  const limits = shapeAnswer(answerOf('listLimits'), {
    written: [{ by_group: { staff: 3 } }],
    limits: [{ of: { user: 'a' } }],
  });
  const { written, limits: now } = limits as { written: { by_group: object }[]; limits: { of: object; set: null }[] };
  assert.deepEqual([written[0]!.by_group, now[0]!.of, now[0]!.set], [{ staff: 3 }, { user: 'a' }, null]);
});

test('no input breaks the form, or contains terminal escapes', () => {
  const names = [...ADMIN_OPERATIONS.keys()];
  const key = fc.constantFrom('tokens', 'limits', 'written', 'of', 'id', 'next', 'before', '\u001b[2J');
  const sent = fc.dictionary(key, fc.jsonValue({ maxDepth: 4 }));
  fc.assert(
    fc.property(fc.constantFrom(...names), sent, (name, body) => {
      const shaped = shapeAnswer(answerOf(name), body);
      assert.equal(typeof shaped, answerOf(name).type === 'string' ? 'string' : 'object');
      assert.ok(!JSON.stringify(shaped).includes('\\u001b'));
    }),
    { numRuns: times(100) },
  );
});
