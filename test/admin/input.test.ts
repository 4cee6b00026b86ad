import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { OperationError } from '../../engine/base/contract/operation-error.ts';
import { LIMIT_WINDOWS } from '../../engine/base/contract/windows.ts';
import { listed } from '../../engine/base/kit/text/suggest.ts';
import { SERVICE_SCOPES } from '../../engine/domain/identity/tokens/service-tokens.ts';
import { ADMIN_OPERATIONS, checkInput, splitInput } from '../../engine/edge/admin/description.ts';
import { times } from '../support/times.ts';

const operation = (name: string) => ADMIN_OPERATIONS.get(name)!;
const check = (name: string, input: object) => checkInput(operation(name), splitInput(operation(name), { ...input }));

describe('input of an admin operation', () => {
  test('is normalized: trimmed, addresses in lower case, numbers of a query, defaults', () => {
    assert.deepEqual(check('createToken', { name: ' laptop ', user: 'Ana@Example.com', team: null }), {
      ...{ name: 'laptop', user: 'ana@example.com', team: null },
    });
    const sent = { path: {}, query: { limit: '7' }, body: undefined };
    assert.deepEqual(checkInput(operation('listSessions'), sent), { limit: 7, ended: 'false' });
    assert.deepEqual(check('rotateToken', { id: 'tok_1' }), { id: 'tok_1', overlap_seconds: 86_400 });
    assert.deepEqual(check('deprovision', { email: 'A@b.c' }), { email: 'A@b.c', tokens: 'all' });
  });

  test('is as good as absent where it is null, which programs in typed languages write for it', () => {
    const nothing = { user: null, group: null, expires_in_seconds: null };
    const kept = { team: null, expires_at: null };
    assert.deepEqual(check('createToken', { name: 'laptop', ...nothing, ...kept }), { name: 'laptop', ...kept });
    assert.deepEqual(check('rotateToken', { id: 'tok_1', overlap_seconds: null }), {
      ...{ id: 'tok_1', overlap_seconds: 86_400 },
    });
    const missing = { message: 'the field "name" is missing' };
    assert.throws(() => check('createToken', { name: null }), missing);
    assert.throws(() => check('createToken', { name: 'x', nmae: null }), /unknown field "nmae"/);
  });

  test('must be an object, before all else that is wrong with it', () => {
    for (const body of [null, 'x', 7, [{ window: 'day', usd: 1 }]]) {
      const sent = { path: {}, query: {}, body };
      assert.throws(() => checkInput(operation('setLimit'), sent), { message: 'the body must be a JSON object' });
    }
  });

  test('is rejected by name, with the expected value', () => {
    const wrong: [string, object, string][] = [
      ['createToken', { nmae: 'x' }, 'unknown field "nmae": did you mean `name`?'],
      ['createToken', {}, 'the field "name" is missing'],
      ['createToken', { name: 'x', user: 'ana' }, 'the field "user" is wrong: expected an e-mail address'],
      ['createToken', { name: 'a\u0007' }, 'the field "name" is wrong: expected a string of printable characters'],
      ['createToken', { name: '' }, 'the field "name" is wrong: expected a non-empty string'],
      ['createToken', { name: 7 }, 'the field "name" is wrong: expected a string'],
      [
        'createToken',
        { name: 'x'.repeat(255) },
        'the field "name" is wrong: expected a string of at most 254 characters',
      ],
      [
        'createToken',
        { name: 'x', expires_at: 'soon' },
        'the field "expires_at" is wrong: expected a time such as 2027-01-31T18:00:00Z',
      ],
      ['listTokens', { limit: 0 }, 'the parameter "limit" is wrong: expected a whole number from 1 to 1000'],
      ['listSessions', { colour: 'red' }, 'unknown parameter "colour": expected user, ended, limit or after'],
      ['setLimit', { usd: 1 }, `the field "window" is missing: expected ${listed(LIMIT_WINDOWS)}`],
      ['setLimit', { window: 'day' }, 'send one of "usd", "requests" and "tokens"'],
      [
        'grantLimit',
        { window: 'day', usd: 0 },
        'the field "usd" is wrong: expected a number above 0 and up to 4000000',
      ],
      [
        'createServiceToken',
        { name: 'x' },
        `the field "scopes" is missing: expected one or more of ${SERVICE_SCOPES.join(', ')}`,
      ],
      [
        'createServiceToken',
        { name: 'x', scopes: 'all' },
        `the field "scopes" is wrong: expected one or more of ${SERVICE_SCOPES.join(', ')}`,
      ],
    ];
    for (const [name, input, message] of wrong) {
      assert.throws(() => check(name, input), { name: 'OperationError', message, problem: 'invalid' });
    }
  });

  test('always yields an OperationError, for any input', () => {
    const names = [...ADMIN_OPERATIONS.keys()];
    const known = [...ADMIN_OPERATIONS.values()].flatMap(({ body, query }) =>
      Object.keys({ ...(body?.properties ?? {}), ...(query.properties as object) }),
    );
    const input = fc.dictionary(fc.constantFrom(...known, '__proto__', 'other'), fc.jsonValue({ maxDepth: 2 }));
    fc.assert(
      fc.property(fc.constantFrom(...names), input, (name, values) => {
        try {
          check(name, values);
        } catch (error) {
          assert.ok(error instanceof OperationError, String(error));
        }
      }),
      { numRuns: times(200) },
    );
  });
});

test('every operation declares its users, and its scopes are those of service tokens', () => {
  const scopes = [...ADMIN_OPERATIONS.values()].flatMap(({ scope }) => scope ?? []);
  assert.deepEqual([...new Set(scopes)].sort(), SERVICE_SCOPES.toSorted());
  for (const { name, method, scope } of ADMIN_OPERATIONS.values()) {
    if (scope !== undefined) assert.equal(scope.endsWith(':read'), method === 'GET', name);
  }
});
